"""Trees over small whole numbers: how one grows, how held-out rows judge its cuts, how rows find their leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from monocal.core.dataset import Dataset
from monocal.core.scores import Floats

Values = NDArray[np.int64]

PART_ROWS = 2000.0
"""Rows of one part of a view."""


@final
class Judge:
    r"""The multi-view error: the mean over parts of random cuts of the rows of |mean label − mean prediction|.

    A part of m = 2000 random rows has a mean gap that is close to normal with the mean μ of all gaps :math:`y - p` and
    their variance over m, so the mean over all views is that of a folded normal,

    .. math:: E = s\sqrt{2/\pi}\,e^{-\mu^2/2s^2} + \mu\,\mathrm{erf}\big(\mu/(s\sqrt2)\big), \qquad s^2 = \sigma^2/m,

    which needs no random numbers and treats a row of weight k as k rows. Here μ is left out: cuts move rows against
    each other, while the level is the root's, and the level of the rows aside differs from the others' by chance, by
    more than what a good cut gains.

    Arguments:
        labels: Labels of held-out rows.
        weights: Their weights.
    """

    def __init__(self, labels: Floats, weights: Floats) -> None:
        self.labels, self.weights = labels, weights
        self.total = float(weights.sum())

    @property
    def is_empty(self) -> bool:
        return self.total == 0.0

    def error(self, predictions: Floats) -> float:
        """Returns the expected multi-view error of predictions; 0 without rows.

        Example:
            >>> judge = Judge(np.array([1.0, 0.0]), np.ones(2))
            >>> judge.error(np.array([0.9, 0.1])) < judge.error(np.array([0.5, 0.5]))
            True
        """
        if self.is_empty:
            return 0.0
        gaps = self.labels - predictions
        mean = float(self.weights @ gaps) / self.total
        return folded_mean(0.0, float(self.weights @ gaps**2) / self.total - mean**2)


def folded_mean(mean: float, variance: float) -> float:
    """Returns the mean absolute gap of parts of `PART_ROWS` rows whose gaps have this mean and variance."""
    spread = float(np.sqrt(max(variance, 0.0) / PART_ROWS))
    if spread == 0.0:
        return abs(mean)
    share = mean / spread
    return float(spread * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * share**2) + mean * erf(share / np.sqrt(2.0)))


def is_held_out(data: Dataset, share: float) -> NDArray[np.bool_]:
    """Marks rows that only judge, by a hash of score and features: equal rows go together, whatever their order."""
    keys = (data.z + 0.0).view(np.uint64).copy()
    if data.ids is not None:
        for place in range(data.ids.shape[1]):
            keys = _mixed(keys ^ data.ids[:, place].astype(np.uint64))
    return _mixed(keys) < np.uint64(int(share * (2**64 - 1)))


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for multiplier in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        keys = (keys ^ (keys >> np.uint64(31))) * np.uint64(multiplier)
    return keys ^ (keys >> np.uint64(29))


class Limits(NamedTuple):
    """What a leaf must have, how deep a tree may be, and how ratios are smoothed."""

    min_rows: float
    min_positives: float
    max_depth: int
    kappa: float


@final
@dataclass(frozen=True, eq=False)
class Forest:
    """Trees as arrays.

    Attributes:
        nodes: Per node: its column, where its sides start, how many values they know, its left and right child. A leaf
            is its own child.
        sides: 1 where a value goes left; after the known values of a node one more entry is for all others.
        leaf_ratios: What a leaf multiplies by, per node.
        roots: The trees' first nodes.
    """

    nodes: Values
    sides: Values
    leaf_ratios: Floats
    roots: Values

    @classmethod
    def empty(cls) -> Forest:
        none = np.zeros(0, np.int64)
        return cls(np.zeros((0, 5), np.int64), none, np.zeros(0), none)

    @property
    def n_nodes(self) -> int:
        return len(self.nodes)

    def with_tree(self, tree: Forest) -> Forest:
        """Returns these trees and one more."""
        shift = np.array([0, len(self.sides), 0, self.n_nodes, self.n_nodes])
        return Forest(
            np.concatenate([self.nodes, tree.nodes + shift]),
            np.concatenate([self.sides, tree.sides]),
            np.concatenate([self.leaf_ratios, tree.leaf_ratios]),
            np.append(self.roots, self.n_nodes + tree.roots),
        )

    def ratios(self, values: Values, root: int = 0, max_depth: int = 64) -> Floats:
        """Returns the ratio of each row's leaf."""
        node = np.full(len(values), root, np.int64)
        rows = np.arange(len(values))
        for _ in range(max_depth):
            column, start, size, left, right = self.nodes[node].T
            value = np.maximum(values[rows, column], 0)
            side = self.sides[start + np.minimum(value, size)]
            below = np.where(side == 1, left, right)
            if np.array_equal(below, node):
                break
            node = below
        return self.leaf_ratios[node]


class Cut(NamedTuple):
    """A cut of rows by one column: what it gains, and which values go left."""

    gain: float
    column: int
    goes_left: NDArray[np.bool_]
    others_left: bool


def ratio(positive: float, predicted: float, kappa: float) -> float:
    """Returns (Σy + κ) / (Σp + κ); 1 where nothing is predicted.

    Example:
        >>> ratio(0.0, 1.27, kappa=2.0)
        0.6116...
    """
    return (positive + kappa) / (predicted + kappa) if predicted + kappa > 0.0 else 1.0


def best_cut(
    values: Values, y: Floats, w: Floats, p: Floats, column: int, by_order: bool, limits: Limits
) -> Cut | None:
    """Returns the best cut by one column, or None if no cut leaves enough rows on both sides.

    Arguments:
        values: The column's values.
        y: Labels.
        w: Weights.
        p: Present predictions.
        column: Its number, which the cut carries.
        by_order: True cuts between neighbouring values; False orders the values by their ratios first.
        limits: What a side must have.
    """
    n, positive, predicted = (np.bincount(values, amounts) for amounts in (w, w * y, w * p))
    known = np.flatnonzero(n > 0.0) if by_order else np.flatnonzero((n > 0.0) & (np.arange(len(n)) > 0))
    if len(known) < 2:
        return None
    if not by_order:
        smooth = max(limits.kappa, 1e-12)
        shares = (positive[known] + limits.kappa) / (predicted[known] + smooth)
        known = known[np.lexsort((known, shares))]
    sums = [np.cumsum(amounts[known]) for amounts in (n, positive, predicted)]
    (rows, good, given), (all_rows, all_good, all_given) = (
        [running[:-1] for running in sums],
        [running[-1] for running in sums],
    )
    parent = ratio(float(all_good), float(all_given), limits.kappa)
    with np.errstate(divide="ignore", invalid="ignore"):
        gains = (good - parent * given) ** 2 / rows
        gains += (all_good - good - parent * (all_given - given)) ** 2 / (all_rows - rows)
    fits = (np.minimum(rows, all_rows - rows) >= limits.min_rows) & (
        np.minimum(good, all_good - good) >= limits.min_positives
    )
    if not fits.any():
        return None
    # of equal gains, to rounding, the first
    gains = np.where(fits, np.round(gains, 12), -np.inf)
    place = int(np.argmax(gains))
    goes_left = np.zeros(len(n), bool)
    goes_left[known[: place + 1]] = True
    others_left = bool(rows[place] * 2.0 > all_rows)
    if not by_order:
        goes_left[np.setdiff1d(np.arange(len(n)), known)] = others_left
    return Cut(float(gains[place]), column, goes_left, others_left)


def grow_tree(
    values: Values,
    y: Floats,
    w: Floats,
    p: Floats,
    aside_values: Values,
    aside_p: Floats,
    judge: Judge,
    limits: Limits,
) -> Forest:
    """Grows one tree on the learning rows; cuts that raise the multi-view error of the rows aside are not made.

    Arguments:
        values: Field ids and the score's bin in the last column.
        y: Labels.
        w: Weights.
        p: Predictions so far.
        aside_values: Columns of the rows aside.
        aside_p: Their predictions so far.
        judge: Knows their labels.
        limits: What a leaf must have.
    """
    nodes: list[list[int]] = []
    sides: list[NDArray[np.int64]] = []
    ratios: list[float] = []
    answers = aside_p.copy()
    start = 0

    def add(rows: NDArray[np.int64], aside: NDArray[np.int64], depth: int, own: float) -> int:
        nonlocal start, answers
        number = len(nodes)
        nodes.append([0, 0, 0, number, number])
        ratios.append(own)
        if depth == 0:
            return number
        last = values.shape[1] - 1
        found = [
            best_cut(values[rows, column], y[rows], w[rows], p[rows], column, column == last, limits)
            for column in range(last + 1)
        ]
        cuts = sorted((cut for cut in found if cut is not None), key=lambda cut: -cut.gain)
        for cut in cuts:
            side = np.append(cut.goes_left, cut.others_left)
            size = len(cut.goes_left)
            of_row = side[np.minimum(values[rows, cut.column], size)]
            of_aside = side[np.minimum(aside_values[aside, cut.column], size)]
            shares = [
                ratio(float(w[part] @ y[part]), float(w[part] @ p[part]), limits.kappa)
                for part in (rows[of_row], rows[~of_row])
            ]
            proposed = answers.copy()
            proposed[aside] = aside_p[aside] * np.where(of_aside, *shares)
            if not judge.is_empty and judge.error(proposed) > judge.error(answers):
                continue
            answers = proposed
            here = start
            sides.append(side.astype(np.int64))
            start += len(side)
            left = add(rows[of_row], aside[of_aside], depth - 1, shares[0])
            right = add(rows[~of_row], aside[~of_aside], depth - 1, shares[1])
            nodes[number] = [cut.column, here, size, left, right]
            break
        return number

    own = ratio(float(w @ y), float(w @ p), limits.kappa)
    answers = aside_p * own
    add(np.arange(len(y)), np.arange(len(aside_p)), limits.max_depth, own)
    # a leaf asks for a side as well, whose answer does not matter
    table = np.concatenate([*sides, np.zeros(1, np.int64)])
    return Forest(np.array(nodes, np.int64), table, np.array(ratios), np.zeros(1, np.int64))
