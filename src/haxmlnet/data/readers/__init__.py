"""Files to documents, format by format."""

from haxmlnet.data.readers.documents import Document, ReadOptions, SkipReport
from haxmlnet.data.readers.formats import FORMATS
from haxmlnet.data.readers.reading import iterate_documents
from haxmlnet.data.readers.recognition import find_file

__all__ = ["FORMATS", "Document", "ReadOptions", "SkipReport", "find_file", "iterate_documents"]
