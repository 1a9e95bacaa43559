"""Sources of evidence for a label, one file each; `protocol.py` has their interface."""
