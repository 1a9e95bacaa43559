"""`BeamSearch`: what a search down the tree finds, and its compiled steps."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from haxmlnet.linear.node_vectors import CachedDots
from haxmlnet.ranking import ABSENT, Ranking, best_positions


@dataclass(frozen=True)
class BeamSearch:
    """The labels that a beam search found for a block of documents, and what it computed on the way."""

    ranking: Ranking  # (B, W)
    margins: NDArray[np.float32]  # (B, W, levels)
    """Of the nodes on the path to each label."""
    cached: list[CachedDots]
    """The dot products of each level."""


@numba.njit(cache=True, nogil=True)
def keep_best_children(  # type: ignore[no-untyped-def]
    siblings, biases, depth, above, above_scores, above_margins, dots, furthest, n_children, n_wanted,
    ids, scores, margins
):  # fmt: skip
    """Keep the best children (B, W) of the nodes above (B, K), with the logarithms of their scores.

    Each takes the margins of its path with it, (B, W, levels), of which that at `depth` is its own. One that is more
    than `furthest` behind the best is dropped if those before it have `n_wanted` children themselves.
    """
    one, zero, node_starts, all_nodes = np.float32(1), np.float32(0), siblings.node_starts, siblings.nodes
    most = min(above.shape[1] * dots.shape[2], len(all_nodes))
    nodes, origins = np.empty(most, np.int32), np.empty(most, np.int32)
    node_scores, node_margins = np.empty(most, np.float32), np.empty(most, np.float32)
    keys, best = np.empty(most, np.int64), np.empty(ids.shape[1], np.int64)
    for i in range(len(above)):
        n = 0
        for origin in range(above.shape[1]):
            parent = above[i, origin]
            if parent == ABSENT:
                continue
            first = node_starts[parent]
            for place in range(node_starts[parent + 1] - first):
                node = all_nodes[first + place]
                margin = dots[i, origin, place] + biases[node]
                hinge = max(one - margin, zero)
                nodes[n], origins[n], node_margins[n] = node, origin, margin
                node_scores[n] = above_scores[i, origin] - hinge * hinge
                n += 1
        n_below = 0
        for place in range(best_positions(nodes[:n], node_scores[:n], keys, best)):
            chosen = best[place]
            if n_below >= n_wanted and node_scores[chosen] < node_scores[best[0]] - furthest:
                break
            n_below += n_children[nodes[chosen]]
            ids[i, place], scores[i, place] = nodes[chosen], node_scores[chosen]
            for level in range(depth):
                margins[i, place, level] = above_margins[i, origins[chosen], level]
            margins[i, place, depth] = node_margins[chosen]


@numba.njit(cache=True, nogil=True)
def write_features(margins, similarities, max_margin, features):  # type: ignore[no-untyped-def]
    """Write the clipped margins of each path, the logarithm of the score they give, and the similarity."""
    n_levels, one, zero, bound = margins.shape[2], np.float32(1), np.float32(0), np.float32(max_margin)
    for i in range(len(margins)):
        for place in range(margins.shape[1]):
            score = zero
            for level in range(n_levels):
                margin = min(max(margins[i, place, level], -bound), bound)
                hinge = max(one - margin, zero)
                score -= hinge * hinge
                features[i, place, level] = margin
            features[i, place, n_levels] = score
            features[i, place, n_levels + 1] = similarities[i, place]
