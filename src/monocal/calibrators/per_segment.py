"""One calibrator per value of a field, shrunk to the global one where data are thin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.base import Calibrator
from monocal.calibrators.contract import CalibratorState, Tags, pack, unpack, with_prefix, without_prefix
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats
from monocal.ops.onnx_ops import OnnxOps
from monocal.ops.operations import Ops, Values

MAX_SEGMENTS_OF_A_GRAPH = 256
"""An ONNX graph evaluates every segment's map for every row."""


@final
@dataclass(kw_only=True, eq=False, repr=False)
class PerSegment(Calibrator):
    r"""Fits any calibrator once globally and once per value of one field, and blends the two.

    .. math:: p = (1 - \lambda_v)\, g(z) + \lambda_v\, g_v(z), \qquad \lambda_v = \frac{m_v}{m_v + m}

    with m_v the smaller of the segment's positive and negative weight and m = `shrinkage`. A value with fewer
    than `min_events` of either class, or never seen, uses the global map alone. For a fixed value the blend is
    as monotone as the inner method, because it is a convex combination of two such maps; it is taken in probability, so
    that a thin segment's rate of exactly 0 or 1 cannot overrule everything.

    Arguments:
        method: Name of the inner method, a statistical one.
        options: Its constructor arguments.
        field: Position of the segmenting field among the features.
        shrinkage: m above, in events of the rarer class.
        min_events: Fewest events of each class for a segment to have its own map.

    Example:
        >>> features = np.array([[1], [2]] * 500)
        >>> labels = (np.arange(1000) // 2 * 0.618034) % 1 < np.array([0.4, 0.1] * 500)
        >>> calibrator = PerSegment(min_events=10, shrinkage=1.0)
        >>> _ = calibrator.fit(np.full(1000, 0.2), labels, features=features)
        >>> calibrator.predict([0.2, 0.2, 0.2], features=[[1], [2], [9]]).round(2).tolist()
        [0.4, 0.1, 0.25]
    """

    name = "per_segment"
    class_tags = Tags(monotone="strict", features="required")

    method: str = "platt"
    options: dict[str, Any] | None = None
    field: int = 0
    shrinkage: float = 50.0
    min_events: int = 20

    @property
    def tags(self) -> Tags:
        return replace(self.class_tags, monotone=self._inner().tags.monotone)

    def _inner(self) -> Any:
        from monocal.calibrators import calibrator  # the registry holds this class, too

        if self.method == self.name:
            raise InvalidInput.of("method", repr(self.method), "another method inside", 'for example "isotonic"')
        return calibrator(self.method, **(self.options or {}))

    def _fit(self, data: Dataset) -> None:
        assert data.ids is not None
        if not 0 <= self.field < data.ids.shape[1]:
            raise InvalidInput.of(
                "field", self.field, f"a position in 0 … {data.ids.shape[1] - 1}", "count fields from 0"
            )
        self.global_ = self._fitted(data)
        ids = np.asarray(data.ids[:, self.field])
        weights = data.weights
        n_positive = np.bincount(ids, weights * data.labels)
        n_negative = np.bincount(ids, weights * (1.0 - data.labels))
        events = np.minimum(n_positive, n_negative)
        own = np.flatnonzero((events >= max(self.min_events, 1)) & (np.arange(events.size) > 0))
        order = np.argsort(ids, kind="stable")
        starts = np.searchsorted(ids[order], own, side="left")
        ends = np.searchsorted(ids[order], own, side="right")
        self.values_: NDArray[np.int64] = own
        self.shares_: Floats = events[own] / (events[own] + self.shrinkage)
        self.segments_ = [self._fitted(data.take(order[a:b])) for a, b in zip(starts, ends, strict=True)]

    def _fitted(self, data: Dataset) -> Any:
        return self._inner().fit_data(Dataset(data.z, data.y, data.w, data.ids), scores_are="logit")

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        found: dict[str, ArrayLike] = {"a share": self.shares_, "1 - a share": 1.0 - self.shares_}
        parts = {"global": self.global_, **{f"segment {k}": segment for k, segment in enumerate(self.segments_)}}
        for name, part in parts.items():
            found |= {f"{name}: {what}": numbers for what, numbers in part._never_negative().items()}
        return found

    def _map(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        if isinstance(ops, OnnxOps) and len(self.segments_) > MAX_SEGMENTS_OF_A_GRAPH:
            raise InvalidInput.of(
                "model",
                f"per_segment with {len(self.segments_)} segments",
                f"at most {MAX_SEGMENTS_OF_A_GRAPH} segments, since a graph evaluates all of them",
                "raise min_events, or serve the model with monocal serve",
            )
        common = self.global_.probabilities(ops, logits, ids)

        def own(k: int, rows: Callable[[Values], Values]) -> Values:
            share = float(self.shares_[k])
            mine = self.segments_[k].probabilities(ops, rows(logits), rows(ids))
            return rows(common) * (1.0 - share) + mine * share

        return ops.replaced(common, ops.column(ids, self.field), self.values_.tolist(), own)

    def _state(self) -> CalibratorState:
        learned = {name: value for name, value in vars(self).items() if name.endswith("_")}
        inner = {"global": learned.pop("global_")}
        inner |= {f"segment{k}": segment for k, segment in enumerate(learned.pop("segments_"))}
        state = pack(learned)
        state.values["inner"] = {}
        for key, calibrator in inner.items():
            part = calibrator.state()
            state.values["inner"][key] = part.values
            state.arrays.update(with_prefix(key, part.arrays))
        return state

    def _restore(self, state: CalibratorState) -> None:
        values = dict(state.values)
        inner = values.pop("inner")
        own = {name: array for name, array in state.arrays.items() if "/" not in name}
        self.__dict__.update(unpack(CalibratorState(own, values)))
        restored = {
            key: self._inner().restore(CalibratorState(without_prefix(key, state.arrays), part))
            for key, part in inner.items()
        }
        self.global_ = restored.pop("global")
        self.segments_ = list(restored.values())
