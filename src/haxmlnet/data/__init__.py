"""Files to documents and back."""

from haxmlnet.data.corpus import Corpus
from haxmlnet.data.document_writers import OUTPUT_FORMATS, write_documents
from haxmlnet.data.readers import FORMATS, Document, ReadOptions, SkipReport, iterate_documents
from haxmlnet.data.writers import PREDICTION_FORMATS, replace_file, write_predictions

__all__ = [
    "FORMATS",
    "OUTPUT_FORMATS",
    "PREDICTION_FORMATS",
    "Corpus",
    "Document",
    "ReadOptions",
    "SkipReport",
    "iterate_documents",
    "replace_file",
    "write_documents",
    "write_predictions",
]
