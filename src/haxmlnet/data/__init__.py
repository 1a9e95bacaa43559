"""Files to documents and back."""

from haxmlnet.data.corpus import Corpus
from haxmlnet.data.document_files import (
    is_sparse,
    iterate_documents,
    read_features,
    write_documents,
    write_features,
)
from haxmlnet.data.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.feature_corpus import FeatureCorpus
from haxmlnet.data.formats.recognition import find_file
from haxmlnet.data.formats.registry import FEATURE_OUTPUT_FORMATS, FORMATS, OUTPUT_FORMATS
from haxmlnet.data.in_memory_tables import documents_of_table
from haxmlnet.data.output_files import replace_file
from haxmlnet.data.predictions import PREDICTION_FORMATS, write_predictions

__all__ = [
    "DEFAULT_OPTIONS",
    "FEATURE_OUTPUT_FORMATS",
    "FORMATS",
    "OUTPUT_FORMATS",
    "PREDICTION_FORMATS",
    "Corpus",
    "Document",
    "FeatureCorpus",
    "ReadOptions",
    "SkipReport",
    "documents_of_table",
    "find_file",
    "is_sparse",
    "iterate_documents",
    "read_features",
    "replace_file",
    "write_documents",
    "write_features",
    "write_predictions",
]
