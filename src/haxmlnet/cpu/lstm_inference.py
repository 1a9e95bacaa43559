"""LSTM inference: the same states as torch's own for about half of the work.

What a word brings into the gates does not depend on its neighbors, so it is worked out once for each different word of
a batch instead of for each of its places. The rest of a step, activations and all, is one pass over memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from haxmlnet.cpu.bfloat16 import array_of, narrow, wide
from haxmlnet.cpu.matmul import matmul, matmul_without_compiling, prepare_matmul
from haxmlnet.cpu.threads import side_by_side
from haxmlnet.data.shapes import round_rows
from haxmlnet.network.encoder import BiLSTMEncoder

# tanh(x) = x P(x^2) / Q(x^2) up to 4e-7 between -9 and 9, beyond which it is 1 or -1 in float32. P and Q are the
# polynomials of the fourth degree whose largest error is smallest.
_TANH_END = np.float32(9.0)
_P = tuple(map(np.float32, (0.99999991, 1.33731931e-1, 3.48657642e-3, 2.04717401e-5, 1.31841006e-8)))
_Q = tuple(map(np.float32, (1.0, 4.67064900e-1, 2.58419585e-2, 3.27137640e-4, 7.70261246e-7)))
_HALF = np.float32(0.5)
# Fewer documents are encoded one after the other: a matmul of so few rows is slower than a loop, and their lengths are
# too many to compile a bfloat16 matmul for each.
MIN_BATCH = 8


@dataclass(frozen=True)
class Documents:
    """Documents as the different words among them and where these stand."""

    vectors: Tensor  # (U, W): of the different words, and perhaps of some more
    places: NDArray[np.int32]  # (B, T): which of them stands where
    lengths: NDArray[np.int64]  # (B,)

    @classmethod
    def of(cls, tokens: Tensor, lengths: Tensor, words: nn.Embedding, dtype: torch.dtype) -> Documents:
        """Find the different words among tokens (B, T)."""
        if len(tokens) < MIN_BATCH:  # finding them would take longer than it saves
            vectors = words.weight.index_select(0, tokens.flatten()).to(dtype)
            return cls(vectors, np.arange(tokens.numel(), dtype=np.int32).reshape(tokens.shape), lengths.numpy())
        different, places = np.unique(tokens.numpy(), return_inverse=True)
        rows = np.zeros(round_rows(len(different)), np.int64)  # more than there are words, so that few numbers occur
        rows[: len(different)] = different
        vectors = words.weight.index_select(0, torch.from_numpy(rows)).to(dtype)
        return cls(vectors, places.reshape(tokens.shape).astype(np.int32), lengths.numpy())


@torch.no_grad()
def encode_documents(encoder: BiLSTMEncoder, tokens: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the states (B, T, H) of an encoder in eval mode, without gradients; padding is zero.

    The dtype is that of states, of what is multiplied and of the gates; cells and activations have float32.
    """
    documents = Documents.of(tokens, lengths, encoder.words, dtype)
    # Attention gives padding no weight, but no weight times something that is no number is no number either.
    new = torch.empty if bool((lengths == tokens.shape[1]).all()) else torch.zeros
    states = new((*tokens.shape, encoder.state_size), dtype=dtype)
    jobs = [
        partial(encode_direction, encoder.forward_lstm, documents, False, states),
        partial(encode_direction, encoder.backward_lstm, documents, True, states),
    ]
    if len(tokens) < MIN_BATCH:
        side_by_side(jobs)
    else:
        for job in jobs:
            job()
    if encoder.attend_words:
        places = torch.from_numpy(documents.places).flatten()
        words = documents.vectors.index_select(0, places).view(*tokens.shape, encoder.words.embedding_dim)
        states[..., -encoder.words.embedding_dim :] = words
    return states


def encode_direction(lstm: nn.LSTM, documents: Documents, backward: bool, states: Tensor) -> None:
    """Write the hidden states of one direction into its columns of the states (B, T, H)."""
    dtype, n_documents = documents.vectors.dtype, len(documents.places)
    first = lstm.hidden_size if backward else 0
    weights: list[Tensor] = [getattr(lstm, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    input_weights, hidden_weights = (w.detach().to(dtype) for w in weights[:2])
    bias = (weights[2] + weights[3]).detach().to(dtype)
    if n_documents < MIN_BATCH:
        from_words = array_of(matmul_without_compiling(documents.vectors, input_weights, bias))  # (U, 4 h)
        arrays = array_of(hidden_weights), array_of(states)
        for row, length in enumerate(documents.lengths):
            encode_document(from_words, arrays[0], documents.places[row, :length], backward, arrays[1][row], first)
        return
    from_words = array_of(matmul(documents.vectors, input_weights, bias))
    cells = np.zeros((n_documents, lstm.hidden_size), np.float32)
    hidden = torch.zeros(n_documents, lstm.hidden_size, dtype=dtype)
    step = (from_words, documents.places, documents.lengths, cells, array_of(hidden), array_of(states), first)
    gates_of = prepare_matmul(hidden_weights, n_documents)
    for word in range(int(documents.lengths.max())):
        encode_word(array_of(gates_of(hidden)), *step, word, backward)


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
def _step(gates, from_word, cells, hidden, states):  # type: ignore[no-untyped-def]
    """Turn what comes from the states before (4 h) and from the word (4 h) into the next cells and states (h)."""
    n = len(cells)
    enter, keep, new, leave = gates[:n], gates[n : 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
    enter_word, keep_word = from_word[:n], from_word[n : 2 * n]
    new_word, leave_word = from_word[2 * n : 3 * n], from_word[3 * n :]
    for i in range(n):
        entered = _sigmoid(wide(enter[i]) + wide(enter_word[i])) * _tanh(wide(new[i]) + wide(new_word[i]))
        cells[i] = _sigmoid(wide(keep[i]) + wide(keep_word[i])) * cells[i] + entered
        state = narrow(_sigmoid(wide(leave[i]) + wide(leave_word[i])) * _tanh(cells[i]), states[i])
        hidden[i] = state
        states[i] = state


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy")
def encode_word(  # type: ignore[no-untyped-def]
    gates, from_words, places, lengths, cells, hidden, states, first, word, backward
):  # fmt: skip
    """Let each document that has so many words take the step of one of them."""
    n = cells.shape[1]
    for row in range(len(gates)):
        if word < lengths[row]:
            place = lengths[row] - 1 - word if backward else word
            from_word = from_words[places[row, place]]
            _step(gates[row], from_word, cells[row], hidden[row], states[row, place, first : first + n])


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy")
def encode_document(from_words, weights, places, backward, states, first):  # type: ignore[no-untyped-def]
    """Take all steps of one document; weights are (4 h, h)."""
    n = weights.shape[1]
    cells, hidden = np.zeros(n, np.float32), np.zeros(n, np.float32)
    gates, state = np.zeros(4 * n, weights.dtype), np.zeros(n, weights.dtype)
    for word in range(len(places)):
        for row in range(4 * n):
            total = np.float32(0)
            for column in range(n):
                total += wide(weights[row, column]) * hidden[column]
            gates[row] = narrow(total, gates[row])
        place = len(places) - 1 - word if backward else word
        _step(gates, from_words[places[place]], cells, state, states[place, first : first + n])
        for i in range(n):
            hidden[i] = wide(state[i])
