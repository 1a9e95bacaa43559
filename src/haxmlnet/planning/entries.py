"""How many numbers the sparse parts of a training hold: TF-IDF, features of labels, linear classifiers."""

from __future__ import annotations

from haxmlnet.linear.neighbours import FEATURES
from haxmlnet.planning.shape import ModelShape

# Weights of a classifier grow with the words of its documents, as counted on five collections of 400 to 60,000
# labels. Those of the first level are learned against all documents, and keep more.
WEIGHTS_FACTOR, WEIGHTS_POWER = 10, 0.4
FIRST_LEVEL_FACTOR = 20


def n_tfidf(shape: ModelShape) -> int:
    """Count the entries of TF-IDF."""
    return round(shape.sizes.n_documents * shape.sizes.different_words(shape.vocabulary))


def n_postings(shape: ModelShape) -> int:
    """Count the features of training documents that new ones are compared with."""
    if not (shape.has_linear_part and shape.settings["neighbours"]):
        return 0
    return round(shape.sizes.n_documents * min(shape.sizes.different_words(shape.vocabulary), FEATURES))


def n_label_features(shape: ModelShape) -> int:
    """Estimate the entries of the features of labels."""
    return round(shape.sizes.n_labels * shape.sizes.words_per_label(shape.vocabulary))


def linear_weights(shape: ModelShape) -> list[float]:
    """Estimate the weights of the linear classifiers of each level that are not dropped as too small."""
    sizes, counts = shape.sizes, []
    words = sizes.different_words(shape.vocabulary)
    for level, nodes in enumerate(shape.linear_tree.level_sizes):
        documents = max(min(sizes.n_pairs / nodes, sizes.n_documents), 1)
        factor = WEIGHTS_FACTOR if level else FIRST_LEVEL_FACTOR
        counts.append(nodes * min(factor * (words * documents) ** WEIGHTS_POWER, words * documents))
    return counts
