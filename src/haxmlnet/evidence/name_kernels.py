"""The loops of `LabelNames`, compiled by numba; they release the GIL, so that threads run side by side."""

from __future__ import annotations

import numba
import numpy as np

from haxmlnet.ranking import ABSENT, best_positions


@numba.njit(cache=True, nogil=True)
def _weight_found(bounds, words, weights, last_document, document, label):  # type: ignore[no-untyped-def]
    found = np.float32(0)
    for position in range(np.uint64(bounds[label]), np.uint64(bounds[label + 1])):
        if last_document[np.uint64(words[position])] == document:
            found += weights[position]
    return found


@numba.njit(cache=True, nogil=True)
def write_features(  # type: ignore[no-untyped-def]
    starts, columns, last_document, bounds, words, weights, totals, labels, features
):
    """Write for each label (B, C) the share of its name that the document has, its weight, and that of the rest."""
    for i in range(len(labels)):
        for position in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            last_document[np.uint64(columns[position])] = i
        for place in range(labels.shape[1]):
            label = labels[i, place]
            if label == ABSENT:
                continue
            found = _weight_found(bounds, words, weights, last_document, i, label)
            features[i, place, 0] = found / max(totals[label], np.float32(1e-6))
            features[i, place, 1] = found
            features[i, place, 2] = totals[label] - found


@numba.njit(cache=True, nogil=True)
def write_mentioned(  # type: ignore[no-untyped-def]
    starts, columns, last_document, index_bounds, index_labels, bounds, words, weights, totals, least_share,
    most_visited, ids,
):  # fmt: skip
    """Write the labels of whose names a document has at least a share, the heaviest first."""
    seen = np.full(len(totals), -1, np.int32)
    found_labels, weights_found = np.empty(most_visited, np.int32), np.empty(most_visited, np.float32)
    keys, best = np.empty(most_visited, np.int64), np.empty(ids.shape[1], np.int64)
    for i in range(len(ids)):
        document = columns[starts[i] : starts[i + 1]]
        n_visited, n_found = 0, 0
        for word in order_by_rarity(document, index_bounds, last_document, i):
            n_visited += index_bounds[word + 1] - index_bounds[word]
            if n_visited > most_visited:
                break
            for position in range(np.uint64(index_bounds[word]), np.uint64(index_bounds[word + 1])):
                label = np.uint64(index_labels[position])
                if seen[label] == i:
                    continue
                seen[label] = i
                found = _weight_found(bounds, words, weights, last_document, i, label)
                if found >= least_share * totals[label]:
                    found_labels[n_found], weights_found[n_found] = label, found * found / totals[label]
                    n_found += 1
        for place in range(best_positions(found_labels[:n_found], weights_found[:n_found], keys, best)):
            ids[i, place] = found_labels[best[place]]


@numba.njit(cache=True, nogil=True)
def order_by_rarity(document, index_bounds, last_document, i):  # type: ignore[no-untyped-def]
    """Order the words of a document that are in names by the number of their labels, and mark all its words."""
    words, n_labels, n = np.empty(len(document), np.int32), np.empty(len(document), np.int64), 0
    for word in document:
        last_document[word] = i
        n_own = index_bounds[word + 1] - index_bounds[word]
        if n_own == 0:
            continue
        place = n
        while place > 0 and n_labels[place - 1] > n_own:
            words[place], n_labels[place] = words[place - 1], n_labels[place - 1]
            place -= 1
        words[place], n_labels[place] = word, n_own
        n += 1
    return words[:n]
