"""Files to documents and back."""

from haxmlnet.data.corpus import Corpus
from haxmlnet.data.document_writers import OUTPUT_FORMATS, write_documents
from haxmlnet.data.feature_writers import FEATURE_OUTPUT_FORMATS, write_features
from haxmlnet.data.features import FeatureCorpus
from haxmlnet.data.readers import (
    FORMATS,
    Document,
    ReadOptions,
    SkipReport,
    documents_of_table,
    is_sparse,
    iterate_documents,
    read_features,
)
from haxmlnet.data.writers import PREDICTION_FORMATS, replace_file, write_predictions

__all__ = [
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
    "is_sparse",
    "iterate_documents",
    "read_features",
    "replace_file",
    "write_documents",
    "write_features",
    "write_predictions",
]
