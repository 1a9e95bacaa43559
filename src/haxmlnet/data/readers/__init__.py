"""Files to documents, format by format."""

from haxmlnet.data.readers.documents import Document, ReadOptions, SkipReport
from haxmlnet.data.readers.formats import FORMATS, iterate_documents

__all__ = ["FORMATS", "Document", "ReadOptions", "SkipReport", "iterate_documents"]
