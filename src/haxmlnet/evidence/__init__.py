"""What can speak about a document and a label: one file each, all with the protocol of `protocol.py`."""
