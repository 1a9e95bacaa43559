"""Reading with a trained LSTM: the same states as torch's own for about half of the work, where nothing is learned.

What a word brings into the gates does not depend on its neighbours, so it is worked out once for each different word of
a batch instead of for each of its places. The rest of a step, activations and all, is one pass over memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from haxmlnet.data.shapes import few_rows
from haxmlnet.network.products import multiplier, product
from haxmlnet.network.short_numbers import narrow, numbers_of, wide
from haxmlnet.network.workers import Map

# tanh(x) = x P(x^2) / Q(x^2) up to 4e-7 between -9 and 9, beyond which it is 1 or -1 in 32 bits. P and Q are the
# polynomials of the fourth degree whose largest error is smallest.
_TANH_END = np.float32(9.0)
_P = tuple(map(np.float32, (0.99999991, 1.33731931e-1, 3.48657642e-3, 2.04717401e-5, 1.31841006e-8)))
_Q = tuple(map(np.float32, (1.0, 4.67064900e-1, 2.58419585e-2, 3.27137640e-4, 7.70261246e-7)))
_HALF = np.float32(0.5)
# Fewer documents are read one after the other: products of so few rows are slower than loops.
LEAST_AT_ONCE = 8


@dataclass(frozen=True)
class Documents:
    """Documents as the different words among them and where these stand."""

    vectors: Tensor  # (U, W): of the different words, and perhaps of some more
    places: NDArray[np.int32]  # (B, T): which of them stands where
    lengths: NDArray[np.int64]  # (B,)

    @classmethod
    def of(cls, tokens: Tensor, lengths: Tensor, words: nn.Embedding, kind: torch.dtype) -> Documents:
        """Find the different words among tokens (B, T)."""
        if len(tokens) < LEAST_AT_ONCE:  # finding them would take longer than it saves
            vectors = words.weight.index_select(0, tokens.flatten())
            return cls(vectors, np.arange(tokens.numel(), dtype=np.int32).reshape(tokens.shape), lengths.numpy())
        different, places = np.unique(tokens.numpy(), return_inverse=True)
        rows = np.zeros(few_rows(len(different)), np.int64)  # more than there are words, so that few numbers occur
        rows[: len(different)] = different
        vectors = words.weight.index_select(0, torch.from_numpy(rows)).to(kind)
        return cls(vectors, places.reshape(tokens.shape).astype(np.int32), lengths.numpy())


def read_documents(
    tokens: Tensor,
    lengths: Tensor,
    words: nn.Embedding,
    directions: Sequence[nn.LSTM],
    attend_words: bool,
    kind: torch.dtype,
    run: Map,
) -> Tensor:
    """Give the states (B, T, 2 h), or (B, T, 2 h + W) with the word vectors behind them; padding is zero.

    The first LSTM reads from left to right and the second from right to left. Both are given to `run`. Of few documents
    everything has 32 bits: they have all lengths, and products of 16 bits are compiled for each.
    """
    kind = kind if len(tokens) >= LEAST_AT_ONCE else torch.float32
    documents = Documents.of(tokens, lengths, words, kind)
    n_states = sum(lstm.hidden_size for lstm in directions)
    width = n_states + (words.embedding_dim if attend_words else 0)
    # Attention gives padding no weight, but no weight times something that is no number is no number either.
    new = torch.empty if bool((lengths == tokens.shape[1]).all()) else torch.zeros
    states = new((*tokens.shape, width), dtype=kind)
    if attend_words:
        places = torch.from_numpy(documents.places).flatten()
        states[..., n_states:] = documents.vectors.index_select(0, places).view(*tokens.shape, -1)

    def read(number: int) -> None:
        first = number * directions[0].hidden_size
        read_direction(directions[number], documents, number == 1, numbers_of(states), first)

    for _ in run(read, range(len(directions))):
        pass
    return states


def read_direction(lstm: nn.LSTM, documents: Documents, backwards: bool, states: NDArray[Any], first: int) -> None:
    """Write the states of one direction into an array (B, T, ...), from its column `first` on."""
    kind, n_documents = documents.vectors.dtype, len(documents.places)
    weights: list[Tensor] = [getattr(lstm, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    of_words, of_states, bias = (w.detach().to(kind) for w in (*weights[:2], weights[2] + weights[3]))
    multiply = F.linear if n_documents < LEAST_AT_ONCE else product  # documents alone have all lengths
    brought = numbers_of(multiply(documents.vectors, of_words, bias))  # (U, 4 h)
    if n_documents < LEAST_AT_ONCE:
        for row, length in enumerate(documents.lengths):
            _read_document(brought, of_states.numpy(), documents.places[row, :length], backwards, states[row], first)
        return
    cells = np.zeros((n_documents, lstm.hidden_size), np.float32)
    hidden = torch.zeros(n_documents, lstm.hidden_size, dtype=kind)
    step = (brought, documents.places, documents.lengths, cells, numbers_of(hidden), states, first)
    gates_of = multiplier(of_states, n_documents)
    for word in range(int(documents.lengths.max())):
        _read_word(numbers_of(gates_of(hidden)), *step, word, backwards)


@numba.njit(inline="always", error_model="numpy")
def _tanh(x):  # type: ignore[no-untyped-def]
    x = min(max(x, -_TANH_END), _TANH_END)
    z = x * x
    above = (((_P[4] * z + _P[3]) * z + _P[2]) * z + _P[1]) * z + _P[0]
    below = (((_Q[4] * z + _Q[3]) * z + _Q[2]) * z + _Q[1]) * z + _Q[0]
    return x * above / below


@numba.njit(inline="always", error_model="numpy")
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return _HALF * _tanh(_HALF * x) + _HALF


@numba.njit(inline="always", error_model="numpy")
def _step(gates, brought, cells, hidden, states):  # type: ignore[no-untyped-def]
    """Turn what comes from the states before (4 h) and from the word (4 h) into the next cells and states (h)."""
    n = len(cells)
    enter, keep, new, leave = gates[:n], gates[n : 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
    its_enter, its_keep, its_new, its_leave = brought[:n], brought[n : 2 * n], brought[2 * n : 3 * n], brought[3 * n :]
    for i in range(n):
        entered = _sigmoid(wide(enter[i]) + wide(its_enter[i])) * _tanh(wide(new[i]) + wide(its_new[i]))
        cells[i] = _sigmoid(wide(keep[i]) + wide(its_keep[i])) * cells[i] + entered
        state = narrow(_sigmoid(wide(leave[i]) + wide(its_leave[i])) * _tanh(cells[i]), states[i])
        hidden[i] = state
        states[i] = state


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy")
def _read_word(  # type: ignore[no-untyped-def]
    gates, brought, places, lengths, cells, hidden, states, first, word, backwards
):  # fmt: skip
    """Let each document that has so many words take the step of one of them."""
    n = cells.shape[1]
    for row in range(len(gates)):
        if word < lengths[row]:
            place = lengths[row] - 1 - word if backwards else word
            _step(
                gates[row], brought[places[row, place]], cells[row], hidden[row], states[row, place, first : first + n]
            )


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy")
def _read_document(brought, weights, places, backwards, states, first):  # type: ignore[no-untyped-def]
    """Read a whole document; weights are (4 h, h)."""
    n = weights.shape[1]
    cells, hidden, gates = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(4 * n, np.float32)
    for word in range(len(places)):
        for row in range(4 * n):
            total = np.float32(0)
            for column in range(n):
                total += weights[row, column] * hidden[column]
            gates[row] = total
        place = len(places) - 1 - word if backwards else word
        _step(gates, brought[places[place]], cells, hidden, states[place, first : first + n])
