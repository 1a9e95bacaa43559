"""`TrainingSet`: all labeled documents of a training, and documents to validate on in its word and label ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.config import Config
from haxmlnet.data.arrays import csr_view
from haxmlnet.data.labels import LabelIndex
from haxmlnet.data.prepared import FIRST_WORD_ID, PreparedCorpus
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.evidence.protocol import Documents
from haxmlnet.progress import Progress
from haxmlnet.text.document_features import corpus_idf, document_features
from haxmlnet.text.tokenizer import WordTokenizer

Validation = PreparedCorpus | tuple[Sequence[str], sp.csr_array]
"""Documents to validate on: prepared, or texts and their labels in the columns of the training."""


@dataclass(frozen=True)
class Labeled:
    """Documents with their true labels; those that training never saw have columns at the end."""

    documents: Documents
    targets: sp.csr_array

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def tokens(self) -> TokenArray:
        """The word ids of the documents."""
        assert self.documents.tokens is not None
        return self.documents.tokens

    def truncate(self, max_length: int) -> Labeled:
        """Keep the first words of each document, those that networks read."""
        return Labeled(Documents(self.tokens.truncate(max_length), self.documents.idf), self.targets)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all that decides a training, for a checksum."""
        packed = self.tokens.pack()
        return packed.ids, packed.ends, self.targets.indices, self.targets.indptr


@dataclass(frozen=True)
class TrainingSet:
    """All labeled documents of a training: texts as a prepared corpus, or sparse features."""

    targets: sp.csr_array
    label_index: LabelIndex
    progress: Progress = field(default_factory=Progress)
    corpus: PreparedCorpus | None = None
    tokenizer: WordTokenizer | None = None
    given_features: sp.csr_array | None = None

    @classmethod
    def of_corpus(
        cls, corpus: PreparedCorpus, vocabulary_size: int, min_document_frequency: int, progress: Progress
    ) -> TrainingSet:
        """Take the documents of a corpus, with the words that are let into the vocabulary."""
        n_words = corpus.vocabulary_limit(vocabulary_size, min_document_frequency)
        tokenizer = WordTokenizer.from_words(corpus.words(n_words))
        return cls(corpus.targets, corpus.label_index, progress, corpus, tokenizer)

    def __len__(self) -> int:
        return int(self.targets.shape[0])

    @cached_property
    def idf(self) -> NDArray[np.float32]:
        """Inverse document frequency of each word; of no word where sparse features were given."""
        if self.corpus is None or self.tokenizer is None:
            return np.zeros(0, np.float32)
        return corpus_idf(self.corpus, self.tokenizer.n_words)

    @cached_property
    def features(self) -> sp.csr_array:
        """TF-IDF (documents x words), memory-mapped where the corpus is."""
        if self.corpus is None or self.tokenizer is None:
            assert self.given_features is not None
            return self.given_features
        return document_features(self.corpus, self.tokenizer.n_words, self.progress)

    @property
    def n_features(self) -> int:
        """Word ids of the vocabulary, or columns of the sparse features."""
        return self.features.shape[1] if self.tokenizer is None else self.tokenizer.n_words

    def take(self, rows: NDArray[np.int64]) -> Labeled:
        """Return some documents with their labels."""
        if self.corpus is None:
            return Labeled(Documents(None, self.idf, self.features[rows]), self.targets[rows])
        return Labeled(Documents(self._tokens.take(rows), self.idf), self.targets[rows])

    @property
    def _tokens(self) -> TokenArray:
        assert self.corpus is not None
        assert self.tokenizer is not None
        return self.corpus.tokens.limit_words(self.tokenizer.n_words)


def validation_documents(given: Validation, whole: TrainingSet, config: Config) -> Labeled:
    """Choose the documents to validate on, in the word and label ids of the training."""
    tokenizer, index = whole.tokenizer, whole.label_index
    assert tokenizer is not None
    n_documents = len(given) if isinstance(given, PreparedCorpus) else len(given[0])
    shuffled = np.random.default_rng(config.machine.random_state).permutation(n_documents)
    rows = np.sort(shuffled[: config.fusion.max_validation])
    if not isinstance(given, PreparedCorpus):
        tokens = tokenizer.encode([given[0][row] for row in rows])
        return Labeled(Documents(tokens, whole.idf), given[1][rows])

    ids = {word: i for i, word in enumerate(tokenizer.words)}
    new_ids = np.full(given.n_words, UNKNOWN_ID, np.int32)
    new_ids[FIRST_WORD_ID:] = [ids.get(word, UNKNOWN_ID) for word in given.words()]
    packed = given.tokens.take(rows).pack()
    tokens = TokenArray(new_ids[packed.ids], packed.starts, packed.ends)

    # Labels that the training lacks get columns at the end.
    columns = {name: i for i, name in enumerate(index.names)}
    new_columns = np.array([columns.setdefault(name, len(columns)) for name in given.label_index.names], np.int32)
    chosen = given.targets[rows]
    targets = csr_view(chosen.data, new_columns[chosen.indices], chosen.indptr, len(columns))
    targets.sort_indices()
    return Labeled(Documents(tokens, whole.idf), targets)
