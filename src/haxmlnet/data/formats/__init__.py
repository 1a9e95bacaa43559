"""The formats of documents, one file a format with its reader and its writer; `registry` lists them all."""
