"""The loops of `NearestDocuments`, compiled by numba; they release the GIL, so that threads run side by side.

Tables with a place for each document or label are given clean, and left clean.
"""

from __future__ import annotations

import numba
import numpy as np

from haxmlnet.ranking import best_positions

# A document whose similarity is less than this part of the nearest's has no vote: cubed, it would hardly count.
_LEAST_PART = np.float32(0.4)
# No vote at all counts as this share of the votes.
_LEAST_VOTE = np.float32(1e-3)


@numba.njit(cache=True, nogil=True)
def keep_heaviest(bounds, columns, values, kept_bounds, kept_columns, kept_values):  # type: ignore[no-untyped-def]
    """Copy the heaviest features of each row, as many as there is room for, the heaviest first."""
    for row in range(len(bounds) - 1):
        kept, n_kept = kept_bounds[row], kept_bounds[row + 1] - kept_bounds[row]
        places, keys = np.empty(n_kept, np.int32), np.empty(n_kept, np.float32)
        _find_heaviest(values[bounds[row] : bounds[row + 1]], places, keys)
        for i in range(n_kept):
            kept_columns[kept + i] = columns[bounds[row] + places[i]]
            kept_values[kept + i] = values[bounds[row] + places[i]]


@numba.njit(cache=True, nogil=True)
def _find_heaviest(values, places, keys):  # type: ignore[no-untyped-def]
    n_found = 0
    for place in range(len(values)):
        n_found = _insert(places, keys, n_found, place, abs(values[place]))
    return n_found


@numba.njit(cache=True, nogil=True)
def _insert(ids, keys, n_found, new_id, key):  # type: ignore[no-untyped-def]
    """Put an id into its place among the best so far, by key and then by id; return how many there are."""
    place = n_found
    if n_found == len(ids):
        place = n_found - 1
        if n_found == 0 or key < keys[place] or (key == keys[place] and new_id > ids[place]):
            return n_found
    else:
        n_found += 1
    while place > 0 and (key > keys[place - 1] or (key == keys[place - 1] and new_id < ids[place - 1])):
        keys[place], ids[place] = keys[place - 1], ids[place - 1]
        place -= 1
    keys[place], ids[place] = key, new_id
    return n_found


@numba.njit(cache=True, nogil=True)
def find_nearest(  # type: ignore[no-untyped-def]
    starts, columns, values, bounds, owners, weights, n_features, most_read, sums, ids, similarities
):
    """Write the documents with the largest dot product with each row, best first; ties go to the earlier document.

    Those far behind the largest partial sum are left out. `sums` has a zero for each document. Owners are unsigned,
    as numba tests every signed index for counting from the end.
    """
    places, weighed = np.empty(n_features, np.int32), np.empty(n_features, np.float32)
    n_room = 4 * ids.shape[1]
    near, near_sums = np.empty(n_room, np.int32), np.empty(n_room, np.float32)
    keys, best = np.empty(n_room, np.int64), np.empty(ids.shape[1], np.int64)
    for i in range(len(ids)):
        own = values[starts[i] : starts[i + 1]]
        n_places, n_read, largest = _find_heaviest(own, places, weighed), 0, np.float32(0)
        for n in range(n_places):
            feature, weight = columns[starts[i] + places[n]], own[places[n]]
            n_read += bounds[feature + 1] - bounds[feature]
            if n_read > most_read:
                n_places = n
                break
            own_owners = owners[bounds[feature] : bounds[feature + 1]]
            own_weights = weights[bounds[feature] : bounds[feature + 1]]
            for position in range(len(own_owners)):
                total = sums[own_owners[position]] + weight * own_weights[position]
                sums[own_owners[position]] = total
                largest = total if total > largest else largest  # max() would look for NaN, too
        # To go over all of them once more takes less time than to note which documents were met.
        least, n_near = max(largest * _LEAST_PART, np.float32(1e-9)), 0
        for n in range(n_places):
            feature = columns[starts[i] + places[n]]
            for owner in owners[bounds[feature] : bounds[feature + 1]]:
                if sums[owner] >= least:
                    near[n_near], near_sums[n_near] = owner, sums[owner]
                    n_near += 1
                    if n_near == n_room:  # nothing below the last of these can be among the nearest
                        n_near = best_positions(near, near_sums, keys, best)
                        near[:n_near], near_sums[:n_near] = near[best], near_sums[best]
                        least = near_sums[n_near - 1]
                sums[owner] = 0
        for place in range(best_positions(near[:n_near], near_sums[:n_near], keys, best)):
            ids[i, place], similarities[i, place] = near[best[place]], near_sums[best[place]]


@numba.njit(cache=True, nogil=True)
def write_proposals(near, similarities, n_voting, power, label_bounds, labels, votes, ids):  # type: ignore[no-untyped-def]
    """Write the labels with the most votes, best first; ties go to the smaller label. Votes are (labels, 1 or more)."""
    keys = np.empty(ids.shape[1], np.float32)
    for i in range(len(near)):
        for place in range(n_voting):
            if near[i, place] >= 0:
                for position in range(label_bounds[near[i, place]], label_bounds[near[i, place] + 1]):
                    votes[labels[position], 0] += similarities[i, place] ** power
        n_found = 0
        for place in range(n_voting):
            if near[i, place] >= 0:
                for position in range(label_bounds[near[i, place]], label_bounds[near[i, place] + 1]):
                    label = labels[position]
                    if votes[label, 0] > 0:
                        n_found = _insert(ids[i], keys, n_found, label, votes[label, 0])
                    votes[label, 0] = 0


@numba.njit(cache=True, nogil=True)
def write_features(near, similarities, voting, label_bounds, labels, votes, asked, features):  # type: ignore[no-untyped-def]
    """Write for each label asked the log share of each vote, and the similarity of the nearest document with it."""
    n_votes = len(voting)
    weights = np.empty((near.shape[1], n_votes + 1), np.float32)
    for i in range(len(near)):
        _weigh(near[i], similarities[i], voting, weights)
        for place in range(near.shape[1]):
            if near[i, place] >= 0:
                for position in range(label_bounds[near[i, place]], label_bounds[near[i, place] + 1]):
                    label = labels[position]
                    for vote in range(n_votes):
                        votes[label, vote] += weights[place, vote]
                    votes[label, n_votes] = max(votes[label, n_votes], weights[place, n_votes])
        for column in range(asked.shape[1]):
            label = asked[i, column]
            for vote in range(n_votes):
                share = votes[label, vote] if label >= 0 else np.float32(0)
                features[i, column, vote] = np.log(share + _LEAST_VOTE)
            features[i, column, n_votes] = votes[label, n_votes] if label >= 0 else np.float32(0)
        for place in range(near.shape[1]):
            if near[i, place] >= 0:
                for position in range(label_bounds[near[i, place]], label_bounds[near[i, place] + 1]):
                    votes[labels[position]] = 0


@numba.njit(cache=True, nogil=True)
def _weigh(near, similarities, voting, weights):  # type: ignore[no-untyped-def]
    """Give each of the nearest documents its share of every vote, and in the last column its similarity."""
    n_votes = len(voting)
    for vote in range(n_votes):
        total = np.float32(1e-9)
        for place in range(len(near)):
            counts = place < voting[vote, 0] and near[place] >= 0
            weights[place, vote] = similarities[place] ** voting[vote, 1] if counts else np.float32(0)
            total += weights[place, vote]
        for place in range(len(near)):
            weights[place, vote] /= total
    for place in range(len(near)):
        weights[place, n_votes] = similarities[place]
