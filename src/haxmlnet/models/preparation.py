"""From a prepared corpus to what a tree is trained on: word ids, targets, word vectors, label features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view, release_pages
from haxmlnet.data.labels import LabelIndex
from haxmlnet.data.prepared import FIRST_WORD_ID, PreparedCorpus
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.linear.names import LabelNames, names_of
from haxmlnet.linear.neighbours import Neighbours
from haxmlnet.models.corpus_features import CorpusFeatures
from haxmlnet.progress import Progress
from haxmlnet.text.document_features import corpus_idf, document_features
from haxmlnet.text.tfidf import tfidf, word_counts
from haxmlnet.text.tokenizer import WordTokenizer
from haxmlnet.text.word_vectors import read_vectors

MIN_DOCUMENTS_TO_SPLIT = 20

Validation = PreparedCorpus | tuple[Sequence[str], sp.csr_array]
"""Documents to validate on: prepared, or texts and their labels in the columns of the training."""


@dataclass(frozen=True)
class Labelled:
    """Documents as word ids, cut to the length the network reads, with their true labels."""

    tokens: TokenArray
    targets: sp.csr_array
    words: TokenArray
    """All words of the documents, also those that the network does not read."""

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, rows: NDArray[np.int64]) -> Labelled:
        """Keep some documents."""
        return Labelled(self.tokens.take(rows), self.targets[rows], self.words.take(rows))

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Give all that the documents are made of, for a checksum."""
        packed = self.tokens.packed()
        return packed.ids, packed.ends, self.targets.indices, self.targets.indptr


@dataclass(frozen=True)
class AllDocuments:
    """What the linear parts of all trees share: all documents, whichever of them a tree holds out."""

    features: sp.csr_array | None
    """TF-IDF, where a linear part is wanted."""
    targets: sp.csr_array
    idf: NDArray[np.float32]
    names: LabelNames | None
    """The words of the labels' names, where a linear part is to know them."""

    @cached_property
    def neighbours(self) -> Neighbours:
        """All of them, for new ones to be compared with."""
        assert self.features is not None
        return Neighbours.of(self.features, self.targets)


@dataclass(frozen=True)
class Prepared:
    """What a tree is trained on."""

    training: Labelled
    validation: Labelled | None
    word_vectors: NDArray[np.float32]
    label_features: sp.csr_array
    documents: AllDocuments
    kept: NDArray[np.int64]
    """The documents that were not held out."""

    @cached_property
    def kept_neighbours(self) -> Neighbours:
        """The documents that were not held out, for those held out to be compared with."""
        features, targets = self.documents.features, self.documents.targets
        if features is None or len(self.kept) == features.shape[0]:
            return self.documents.neighbours
        return Neighbours.of(self.copy_kept_features(), targets[self.kept])

    def copy_kept_features(self) -> sp.csr_array:
        """Give TF-IDF of the documents that were not held out, without the pages of the file that it comes from."""
        features = self.documents.features
        assert features is not None
        kept = features[self.kept]
        release_pages(features.data, features.indices)
        return kept

    @property
    def validation_features(self) -> sp.csr_array:
        """TF-IDF of the documents to validate on."""
        assert self.validation is not None
        idf = self.documents.idf
        return tfidf(word_counts(self.validation.words, len(idf)), idf)


def vocabulary(corpus: PreparedCorpus, settings: Mapping[str, Any]) -> WordTokenizer:
    """Make the tokenizer of the words that the settings let in."""
    n_words = corpus.vocabulary_limit(settings["vocabulary_size"], settings["min_document_frequency"])
    return WordTokenizer.from_words(corpus.words(n_words))


def all_documents(
    corpus: PreparedCorpus, tokenizer: WordTokenizer, settings: Mapping[str, Any], progress: Progress
) -> AllDocuments:
    """Weigh the words of all documents, and find those of the labels' names."""
    idf = corpus_idf(corpus, tokenizer.n_words)
    return AllDocuments(
        document_features(corpus, tokenizer.n_words, progress) if settings["linear"] else None,
        corpus.targets,
        idf,
        names_of(corpus.label_index, tokenizer, idf) if settings["linear"] and settings["names"] else None,
    )


def prepare_training(
    corpus: PreparedCorpus,
    tokenizer: WordTokenizer,
    validation: Labelled | None,
    settings: Mapping[str, Any],
    progress: Progress,
    documents: AllDocuments | None = None,
    number: int = 0,
) -> Prepared:
    """Hold documents out for validation if none are given, and make word and label vectors of the others.

    Both kinds of vectors are kept beside the corpus, for the next training with the same settings. Trees of other
    numbers hold other documents out where a rule is fitted on them, so that together they learn from more.
    """
    rng = np.random.default_rng([settings["random_state"], number if settings["linear"] else 0])
    n_held_out = 0 if validation is not None else held_out_size(len(corpus), settings)
    if settings["linear"]:
        # The rule of fusion needs documents as they come; the linear part learns from all of them in the end.
        kept, held_out = split_at_random(len(corpus), n_held_out, rng)
    else:
        kept, held_out = split_documents(corpus.targets, n_held_out, rng)
    n_words = tokenizer.n_words
    features = CorpusFeatures(corpus, n_words, kept, progress)
    by_label = features.by_label()
    if settings["vectors"] is None:
        word_vectors = features.word_vectors(by_label, settings["word_size"], settings["random_state"], rng)
    else:
        with progress.stage("vectors", None, "words"):
            word_vectors = read_vectors(settings["vectors"], tokenizer.words, rng)
    words = corpus.tokens.limited(n_words)
    labelled = Labelled(words.truncated(settings["max_length"]), corpus.targets, words)
    if validation is None:
        validation = labelled.take(held_out)
    return Prepared(
        labelled.take(kept),
        validation or None,
        word_vectors,
        by_label,
        documents or all_documents(corpus, tokenizer, settings, progress),
        kept,
    )


def split_at_random(
    n_documents: int, n_held_out: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose documents to hold out; give (kept, held out)."""
    order = rng.permutation(n_documents)
    return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])


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


def validation_documents(
    given: Validation, tokenizer: WordTokenizer, index: LabelIndex, settings: Mapping[str, Any]
) -> Labelled:
    """Choose the documents to validate on, in the word and label ids of the training."""
    n_documents = len(given) if isinstance(given, PreparedCorpus) else len(given[0])
    shuffled = np.random.default_rng(settings["random_state"]).permutation(n_documents)
    rows = np.sort(shuffled[: settings["max_validation"]])
    if isinstance(given, PreparedCorpus):
        tokens, targets = _in_training_ids(given, rows, tokenizer), _in_training_columns(given, rows, index)
    else:
        tokens, targets = tokenizer.encode([given[0][row] for row in rows]), given[1][rows]
    return Labelled(tokens.truncated(settings["max_length"]), targets, tokens)


def held_out_size(n_documents: int, settings: Mapping[str, Any]) -> int:
    """Say how many documents are held out for validation."""
    if n_documents < MIN_DOCUMENTS_TO_SPLIT:
        return 0
    return min(round(settings["validation_fraction"] * n_documents), settings["max_validation"])


def _in_training_ids(corpus: PreparedCorpus, rows: NDArray[np.int64], tokenizer: WordTokenizer) -> TokenArray:
    ids = {word: i for i, word in enumerate(tokenizer.words)}
    new_ids = np.full(corpus.n_words, UNKNOWN_ID, np.int32)
    new_ids[FIRST_WORD_ID:] = [ids.get(word, UNKNOWN_ID) for word in corpus.words()]
    packed = corpus.tokens.take(rows).packed()
    return TokenArray(new_ids[packed.ids], packed.starts, packed.ends)


def _in_training_columns(corpus: PreparedCorpus, rows: NDArray[np.int64], index: LabelIndex) -> sp.csr_array:
    """Give the true labels in the columns of the training; those it lacks get columns at the end."""
    columns = {name: i for i, name in enumerate(index.names)}
    new_columns = np.array([columns.setdefault(name, len(columns)) for name in corpus.label_index.names], np.int32)
    chosen = corpus.targets[rows]
    targets = csr_view(chosen.data, new_columns[chosen.indices], chosen.indptr, len(columns))
    targets.sort_indices()
    return targets
