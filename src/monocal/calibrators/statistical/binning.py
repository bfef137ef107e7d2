"""Bins on the score axis and the rows in them, shared by histogram binning and smoothed isotonic regression."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput
from monocal.core.spaces import SCORE_EPSILON, Floats, logit
from monocal.ops.operations import Ops, Values

Binning = Literal["width", "mass"]
Variant = Literal["monocal", "authors"]


def bin_edges(probabilities: Floats, weights: Floats, n_bins: int, binning: str) -> Floats:
    """Returns `n_bins + 1` edges from 0 to 1: equally wide, or with equal weight in each bin.

    Example:
        >>> bin_edges(np.array([0.1, 0.2, 0.3, 0.9]), np.ones(4), 2, "mass").tolist()
        [0.0, 0.2, 1.0]
    """
    if n_bins < 1:
        raise InvalidInput.of("n_bins", n_bins, "at least 1 bin", "10 is the usual choice")
    if binning not in get_args(Binning):
        raise InvalidInput.of("binning", repr(binning), '"width" or "mass"', "choose one of the two")
    if binning == "width":
        return np.linspace(0.0, 1.0, n_bins + 1)
    order = np.argsort(probabilities, kind="stable")
    mass = np.cumsum(weights[order])
    wanted = mass[-1] * np.arange(1, n_bins) / n_bins
    inner = probabilities[order][np.searchsorted(mass, wanted * (1.0 - 1e-12))]
    return np.unique(np.concatenate([[0.0], inner, [1.0]]))


def check_variant(variant: str) -> None:
    if variant not in get_args(Variant):
        raise InvalidInput.of("variant", repr(variant), '"monocal" or "authors"', "authors reproduces the paper's code")


def bin_of(logits: Floats, edges: Floats) -> NDArray[np.int64]:
    """Returns the bin `(low, high]` of every row, 0 … K − 1; a score of exactly 0 is in the first.

    Edges are taken to logit space, as the scores were, so a score that equals an edge still does.
    """
    return np.digitize(logits, logit(edges[1:-1]), right=True)


def was_zero(ops: Ops, logits: Values) -> Values:
    """Tells which scores were exactly 0 before clipping; the authors' scripts give those the last bin."""
    return ops.sigmoid(logits) <= SCORE_EPSILON * (1.0 + 1e-9)
