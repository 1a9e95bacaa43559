"""Files to documents, format by format."""

from haxmlnet.data.readers.documents import Document, ReadOptions, SkipReport
from haxmlnet.data.readers.formats import FORMATS
from haxmlnet.data.readers.objects import documents_of_table
from haxmlnet.data.readers.reading import is_sparse, iterate_documents, read_features
from haxmlnet.data.readers.recognition import find_features, find_file

__all__ = [
    "FORMATS",
    "Document",
    "ReadOptions",
    "SkipReport",
    "documents_of_table",
    "find_features",
    "find_file",
    "is_sparse",
    "iterate_documents",
    "read_features",
]
