"""From texts and labels to what every tree is trained on: word ids, targets, word vectors, label features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.tokens import TokenArray
from haxmlnet.progress import Progress
from haxmlnet.text.tfidf import inverse_document_frequency, tfidf, word_counts
from haxmlnet.text.tokenizer import WordTokenizer, build_vocabulary
from haxmlnet.text.vectors import corpus_vectors, read_vectors
from haxmlnet.tree import label_features

# Past this many words a label's features say nothing new, and 670,000 labels of them fill the memory.
FEATURES_PER_LABEL = 1000
MIN_DOCUMENTS_TO_SPLIT = 20


@dataclass(frozen=True)
class Labelled:
    """Documents as word ids, cut to the length the network reads, with their true labels."""

    tokens: TokenArray
    targets: sp.csr_array

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: NDArray[np.int64]) -> Labelled:
        """Keep some documents."""
        return Labelled(self.tokens.take(rows), self.targets[rows])


@dataclass(frozen=True)
class Prepared:
    """What the trees are trained on."""

    tokenizer: WordTokenizer
    training: Labelled
    validation: Labelled | None
    word_vectors: NDArray[np.float32]
    label_features: sp.csr_array


def prepare(
    texts: Sequence[str],
    targets: sp.csr_array,
    validation: tuple[Sequence[str], sp.csr_array] | None,
    settings: Mapping[str, Any],
    progress: Progress,
) -> Prepared:
    """Choose the words, encode the documents, hold some out for validation, make word and label vectors."""
    rng = np.random.default_rng([settings["random_state"]])
    with progress.stage("words", len(texts), "documents") as advance:
        tokenizer, tokens = build_vocabulary(
            texts, settings["vocabulary_size"], settings["min_document_frequency"], advance
        )
    n_held_out = 0 if validation is not None else _held_out_size(len(texts), settings)
    kept, held_out = split_documents(targets, n_held_out, rng)
    counts = word_counts(tokens, tokenizer.n_words)[kept]
    features = tfidf(counts, inverse_document_frequency(counts))
    by_label = label_features(features, targets[kept], FEATURES_PER_LABEL)
    with progress.stage("vectors", 1, "tables") as advance:
        if settings["vectors"] is None:
            word_vectors = corpus_vectors(features, by_label, settings["word_size"], rng)
        else:
            word_vectors = read_vectors(settings["vectors"], tokenizer.words, rng)
        advance(1)
    documents = Labelled(tokens.truncated(settings["max_length"]), targets)
    return Prepared(
        tokenizer,
        documents.take(kept),
        _validation_documents(tokenizer, documents.take(held_out), validation, settings),
        word_vectors,
        by_label,
    )


def split_documents(
    targets: sp.csr_array, n_held_out: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose documents to hold out at random, but none that is the last one of a label; give (kept, held out)."""
    left = np.bincount(targets.indices, minlength=targets.shape[1])
    held_out: list[int] = []
    for row in rng.permutation(targets.shape[0]):
        if len(held_out) == n_held_out:
            break
        labels = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
        if (left[labels] > 1).all():
            left[labels] -= 1
            held_out.append(row)
    kept = np.ones(targets.shape[0], bool)
    kept[held_out] = False
    return np.flatnonzero(kept), np.flatnonzero(~kept)


def _held_out_size(n_documents: int, settings: Mapping[str, Any]) -> int:
    if n_documents < MIN_DOCUMENTS_TO_SPLIT:
        return 0
    return min(round(settings["validation_fraction"] * n_documents), settings["max_validation"])


def _validation_documents(
    tokenizer: WordTokenizer,
    held_out: Labelled,
    given: tuple[Sequence[str], sp.csr_array] | None,
    settings: Mapping[str, Any],
) -> Labelled | None:
    if given is None:
        return held_out if len(held_out) else None
    texts, targets = given
    rows = np.sort(
        np.random.default_rng(settings["random_state"]).permutation(len(texts))[: settings["max_validation"]]
    )
    tokens = tokenizer.encode([texts[row] for row in rows]).truncated(settings["max_length"])
    return Labelled(tokens, targets[rows]) if len(rows) else None
