"""MBCT: trees that multiply the score by a ratio per leaf, each on the output of those before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.base import Calibrator
from monocal.calibrators.contract import Tags
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats, logit, sigmoid
from monocal.lab.reconstructions.mbct_forest import Forest, Judge, Limits, grow_tree, is_held_out
from monocal.ops.onnx_ops import OnnxOps
from monocal.ops.operations import Ops, Values

LOWEST = 1e-6
"""Answers are clipped to [1e-6, 1 − 1e-6] after every tree."""

_PATIENCE = 2


@final
@dataclass(kw_only=True, eq=False, repr=False)
class Mbct(Calibrator):
    r"""Multiplies the score by a ratio that depends on the leaf of a tree over fields and score, tree after tree.

    .. math:: p \leftarrow p\,r_{leaf}, \qquad r = \frac{\sum y + \kappa}{\sum p + \kappa}

    A tree cuts rows by fields, whose values are ordered by their ratios, and by the score, cut into `score_bins` bins.
    The cut is the one that removes most of the squared group error
    :math:`\sum_{c} (\sum_c y - r\sum_c p)^2 / n_c`. It is kept only if the multi-view error of held-out rows does not
    rise (see `Judge`). Each tree works on the output of those before; two in a row that do not help end the fit.

    Inside a leaf order is kept. Across leaves it is not, even for a fixed feature row, because the score itself may
    be cut. There is no released code: this is our reconstruction from public summaries.

    References:
        Huang and others. MBCT: tree-based feature-aware binning for individual uncertainty calibration. 2022.

    Arguments:
        n_trees: Most trees.
        max_depth: Most cuts between root and leaf.
        min_rows: Rows that a leaf must have; also 1e-4 of all.
        min_positives: Positive rows that a leaf must have.
        kappa: κ, how strongly ratios of small leaves are drawn to 1.
        score_bins: Bins of equal width in which the score may be cut.
        held_out_share: Share of the rows that only judge; 0 keeps every cut.

    Example:
        On site 2 the score is half of what it should be.

        >>> site = np.repeat([1, 2], 5000)
        >>> scores = np.tile(np.linspace(0.05, 0.45, 5000), 2)
        >>> labels = (np.arange(10_000) * 0.618034) % 1 < np.where(site == 2, 2 * scores, scores)
        >>> calibrator = Mbct().fit(scores, labels, features=site[:, None])
        >>> calibrator.predict([0.2, 0.2], features=[[1], [2]]).round(1).tolist()
        [0.2, 0.4]
    """

    name = "mbct"
    class_tags = Tags(monotone="none", features="optional", reconstruction=True)

    n_trees: int = 20
    max_depth: int = 5
    min_rows: int = 1000
    min_positives: float = 30.0
    kappa: float = 1.0
    score_bins: int = 100
    held_out_share: float = 0.2

    def _fit(self, data: Dataset) -> None:
        for name in ("n_trees", "max_depth", "min_rows", "score_bins"):
            if getattr(self, name) < 1:
                raise InvalidInput.of(name, getattr(self, name), "at least 1", "leave it out for the default")
        if not (self.kappa >= 0.0 and 0.0 <= self.held_out_share < 1.0):
            given = f"{self.kappa}, {self.held_out_share}"
            raise InvalidInput.of("kappa, held_out_share", given, "κ ≥ 0 and a share in [0, 1)", "use 1 and 0.2")
        self.knots_: Floats = logit(np.arange(1, self.score_bins) / self.score_bins)
        values = self._values(data)
        y, w, p = data.labels, data.weights, _clipped(sigmoid(data.z))
        aside = is_held_out(data, self.held_out_share)
        learn = ~aside
        limits = Limits(max(self.min_rows, 1e-4 * float(w.sum())), self.min_positives, self.max_depth, self.kappa)
        forest, n_idle, best = Forest.empty(), 0, (np.inf, 0)
        judge = Judge(y[aside], w[aside])
        kept = forest
        for number in range(self.n_trees):
            tree = grow_tree(values[learn], y[learn], w[learn], p[learn], values[aside], p[aside], judge, limits)
            forest = forest.with_tree(tree)
            p = _clipped(p * tree.ratios(values))
            error = judge.error(p[aside])
            if judge.is_empty or error < best[0]:
                best, n_idle, kept = (error, number), 0, forest
            else:
                n_idle += 1
            if tree.n_nodes == 1 or n_idle == _PATIENCE:
                break
        self.nodes_: NDArray[np.int64] = kept.nodes
        self.sides_: NDArray[np.int64] = kept.sides
        self.ratios_: Floats = kept.leaf_ratios
        self.roots_: NDArray[np.int64] = kept.roots

    def _values(self, data: Dataset) -> NDArray[np.int64]:
        """Field ids and the score's bin, one column each."""
        bins = np.searchsorted(self.knots_, data.z, side="right").astype(np.int64)
        if data.ids is None:
            return bins[:, None]
        return np.column_stack([data.ids.astype(np.int64), bins])

    def _walk(self, data: Dataset) -> Floats:
        """Takes every row down every tree, on arrays."""
        forest, values = Forest(self.nodes_, self.sides_, self.ratios_, self.roots_), self._values(data)
        p = _clipped(sigmoid(data.z))
        for root in self.roots_:
            p = _clipped(p * forest.ratios(values, int(root), self.max_depth))
        return p

    def _map(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        if not isinstance(ops, OnnxOps):
            return self._walk(Dataset(logits, ids=ids))
        bins = ops.count_below(logits, self.knots_, or_equal=True)
        matrix = ops.upright(bins) if ids is None else ops.concat([ids, ops.upright(bins)])
        column, start, size, left, right = (self.nodes_[:, place].copy() for place in range(5))
        p = ops.clip(ops.sigmoid(logits), LOWEST, 1.0 - LOWEST)
        for root in self.roots_:
            node = bins * 0 + int(root)
            for _ in range(self.max_depth):
                value = ops.maximum(ops.pick(matrix, ops.look_up(column, node)), 0)
                place = ops.minimum(value, ops.look_up(size, node))
                side = ops.look_up(self.sides_, ops.look_up(start, node) + place)
                goes_left = ops.graph.apply("Equal", side, 1)
                node = ops.where(goes_left, ops.look_up(left, node), ops.look_up(right, node))
            p = ops.clip(p * ops.look_up(self.ratios_, node), LOWEST, 1.0 - LOWEST)
        return p


def _clipped(p: Floats) -> Floats:
    return np.clip(p, LOWEST, 1.0 - LOWEST)
