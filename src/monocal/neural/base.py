"""The abstract neural calibrator: everything around the map itself."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.contract import RowScorer, Tags
from monocal.carry_over.curve import learn_score_curve
from monocal.carry_over.fit import fit_effects
from monocal.carry_over.origins import SEARCH
from monocal.carry_over.shrinkage import CarryOver, carry_among, learn_carry_over
from monocal.core.dataset import Dataset
from monocal.core.errors import MonocalError
from monocal.core.reduce import LOCAL, broadcast, broadcast_arrays
from monocal.core.scores import Floats, LogitVariance
from monocal.core.threads import row_workers, threads_for_rows
from monocal.neural.carry_over import (
    NETWORK_PRIOR,
    SMALLEST_NETWORK_SHARE,
    Start,
    hidden_fields,
    refit_shifts,
    rows_of_trial,
    share_that_held,
    split_off_recent,
)
from monocal.neural.fitted import FittedMap, Weights, fitted_map, looked_up, network_weight
from monocal.neural.maps import MapInputs, Parts
from monocal.neural.options import FitSettings, NeuralArguments
from monocal.neural.refresh import network_logit_variance, network_posterior, network_unexplained, refresh_network
from monocal.ops.numpy_ops import NumpyOps
from monocal.ops.operations import Ops, Values
from monocal.wide.intervals import require_variance_components
from monocal.wide.penalties import FIRST_PENALTY, Penalty, check_penalty

if TYPE_CHECKING:
    from torch import nn

    from monocal.neural.network import MonotoneMap

KEPT_LEVEL = 0.5
"""The share of the newest level that is kept in forecasts. In 54 windows of logs half of it had the smallest loss where
rates swing, and lost little where they rise for good; what a log's own past says of its levels was of no use."""

CHUNK_ROWS = 65_536
"""Rows predicted at a time, which bounds the memory of context rows."""

MOST_ROWS_IN_ONE_PLACE = 2_000_000
"""The newest rows on which one process trains a network for several, unless `curve_rows` says otherwise."""


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralCalibrator(NeuralArguments):
    r"""A monotone map trained by gradient descent, between two exact convex fits.

    .. math:: z' = (1 - \alpha)\,t + \alpha f(t,\ x) + \sum_k \alpha_k \delta_{k, x_k}, \qquad t = a\,g(z) + c

    1. Shares α in [0, 1] are learned on rows later than those the effects were learned from: one per field, and one
       for the map f, which is trained on the older rows for that purpose. A field whose effect does not last, or a map
       that says nothing about later rows, gets 0.
       Where the map is rejected, the score may enter along a broken line g that always rises; otherwise g(z) is z.
    2. Slope a, intercept c and one L2-regularised shift δ per field value are fitted as a logistic regression on all
       rows. f starts as the identity, so training starts at that solution.
    3. f is trained on all rows, and the shifts are refitted beside it, which is convex and exact.

    With `carry="none"` all shares are 1, and the most recent rows are held out to choose when to stop.

    Fitting needs torch; predicting does not. For a fixed feature row the shifts are constants, a ≥ 0, and a mix of two
    increasing functions increases, so the whole is as monotone in the score as f.

    Takes the arguments of `NeuralArguments`.
    """

    class_tags: ClassVar[Tags] = Tags(monotone="weak", features="optional", weights_exactly=False)
    uses_numbers = True
    fits_in_parts = True

    # Hooks of a method

    def _parts(self, _inputs: MapInputs) -> Parts:
        """Returns what the map learns; see `monocal.neural.maps`."""
        raise NotImplementedError(f"{type(self).__name__} declares neither _parts nor _build")

    @abstractmethod
    def _curve(self, ops: Ops, t: Values, context: Values | None) -> Values:
        """Returns calibrated logits from logits and context rows, written over operations."""

    def _build(self, inputs: MapInputs) -> MonotoneMap:
        """Returns the map as the torch module to train; for maps that are trained otherwise than applied."""
        from monocal.neural.network import MonotoneMap

        return MonotoneMap(self._parts(inputs), self._curve, context_width=inputs.context_width, seed=self.seed)

    def _weights_of(self, curve: MonotoneMap) -> Weights:
        return curve.arrays()

    def _context(self, ops: Ops, ids: Values | None) -> Values | None:
        """Returns the context rows of field ids, after training."""
        return looked_up(ops, ids)

    def _columns(self, _n_fields: int) -> list[int] | None:
        """Which fields the method may look at; None for all."""
        return None

    def _encoder(self, rows: Dataset) -> nn.Module | None:
        """Returns what makes the map's context from field ids, in torch."""
        if rows.ids is None:
            return None
        from monocal.neural.context import encoder_for

        own = {"n_dimensions": self.n_dimensions, "min_count": self.min_count, "seed": self.seed}
        return encoder_for(self.embeddings, self._embeddings, rows, **own)

    def _prepare(self, weights: Weights) -> FittedMap:
        """Returns the fitted map as one function of arrays, ready for many calls."""
        return partial(self._fitted, NumpyOps(weights))

    # The fit

    def _fit(self, data: Dataset) -> None:
        need("torch", f"fitting {self.name!r}", "neural")
        from monocal.neural.train import torch_threads

        check_penalty(self.l2)
        data, settings = self._select_fields(data), self._settings()
        with threads_for_rows(self._threads(data)), torch_threads(1):
            carry_over = None
            if self._carries(settings) and len(data.fields):
                columns = self._columns(self.n_fields_) or range(self.n_fields_)
                carry_over = learn_carry_over(data, carry_among(settings.carry, columns), self.l2)
            data = self._fit_weights(data, settings, carry_over)
            del carry_over  # the tables of all origins
            logits = self._apply(self._fitted_map(), data)
            self.posterior_ = network_posterior(self.weights_, logits, data)
            shares = vars(self).get("carry_", {}).get("share")
            self.unexplained_ = network_unexplained(self.weights_, logits, data, self.posterior_, shares)

    def _fit_weights(self, data: Dataset, settings: FitSettings, carry_over: CarryOver | None) -> Dataset:
        """Learns all arrays beside the fields' shares; returns the rows with their logits as they enter the map.

        The map's share, start, training, shifts, level: all but the training is convex, on all rows, and exact.
        """
        wide = settings.wide and len(data.fields) > 0
        # without a wide part the start is a line, which has no penalties to learn
        l2: Penalty = FIRST_PENALTY if self.l2 == "auto" and not wide else self.l2
        effects = data if wide else data.without_fields()
        curve = learn_score_curve(effects, carry_over, self.base, l2) if self.base == "curve" else None
        weights: Weights = {}
        history: dict[str, Any] = {}
        share, hidden = 1.0, hidden_fields(carry_over)
        if carry_over is not None:
            tried = data if curve is None else curve.applied_at_origin(data)
            share, weights, history = self._try_network(tried, carry_over)
            if share < SMALLEST_NETWORK_SHARE and self.base == "auto":
                # a network that is in use bends by itself, and starts best from a straight line
                curve = learn_score_curve(data, carry_over, self.base, l2)
        if curve is not None:
            self.base_ = curve.as_arrays()
            data, effects = curve.applied(data), curve.applied(effects)
        older, held_out = split_off_recent(data, settings.stopping_share)
        start = self._start(effects if carry_over is not None else older, settings, carry_over, l2)
        if share >= SMALLEST_NETWORK_SHARE:
            weights, history = self._train(older, held_out, start, hidden)
        else:
            share = 0.0
            if not weights:
                weights, history = self._train(data, None, start, hidden)
            weights["affine"] = np.array([start.slope, start.intercept])
        if carry_over is not None:
            weights["mix"] = np.array([share])
        self.history_ = history
        if start.shifts is not None:
            weights |= refit_shifts(self._map_logits(weights, data), data, self.l2, start, carry_over)
        self.weights_ = weights
        if carry_over is not None:
            fields = np.array(self._columns(self.n_fields_) or range(self.n_fields_))
            self.carry_ = {"field": fields, **carry_over.as_arrays(data.fields), "network": np.array([share])}
        return data

    def _try_network(self, data: Dataset, carry_over: CarryOver) -> tuple[float, Weights, dict[str, Any]]:
        """Returns the share of a network that held on later rows, with the network that was tried and its training.

        It is trained on the rows before the last origin and judged by those after the gap. Without origins there is
        none, and the share is the prior.
        """
        if not carry_over.origins:
            return (0.0 if carry_over.blocks.one_moment else NETWORK_PRIOR), {}, {}
        older, start = rows_of_trial(data, carry_over)
        weights, history = self._train(older, None, start, hidden_fields(carry_over))
        del older  # in parts a copy
        later = carry_over.origins[-1].later(data, carry_over.blocks)
        return share_that_held(self._map_logits(weights, later), later, start, carry_over), weights, history

    def _start(self, rows: Dataset, settings: FitSettings, carry_over: CarryOver | None, l2: Penalty) -> Start:
        wide = settings.wide and len(rows.fields) > 0
        if settings.warm_start:
            rows = rows if wide else rows.without_fields()
            return Start.of(fit_effects(rows, carry_over, l2, SEARCH), wide=wide)
        if not wide:
            return Start()
        penalty = FIRST_PENALTY if l2 == "auto" else l2
        return Start(shifts=np.zeros(rows.fields.n_ids), penalties=np.full(len(rows.fields), penalty))

    def _train(
        self, rows: Dataset, held_out: Dataset | None, start: Start, hidden: NDArray[np.bool_] | None
    ) -> tuple[Weights, dict[str, Any]]:
        """Returns the arrays of a map trained on top of a start, and how its training went.

        Of rows in parts the newest ones come together, the first member trains on them, and all get its arrays.

        Arguments:
            rows: The rows to train on.
            held_out: Rows that choose when to stop.
            start: Slope, intercept and shifts that stay while the map is trained.
            hidden: Fields whose values all count as unseen in the map's context; None for none.
        """
        reducer = LOCAL if rows.partition is None else rows.partition.reducer
        if rows.partition is not None:
            most = int(self.curve_rows or MOST_ROWS_IN_ONE_PLACE)
            rows, _ = rows.gather_newest(most)
            held_out = None if held_out is None else held_out.gather_newest(most)[0]
        elif self.curve_rows is not None:
            rows = rows.newest(int(self.curve_rows))
        weights: Weights = {}
        history: dict[str, Any] = {}
        if reducer.rank == 0:
            from monocal.neural.context import ContextEncoder
            from monocal.neural.network import WideShift
            from monocal.neural.train import train

            settings, rows = self._settings(), start.entering(rows)
            encoder = self._encoder(rows)
            if isinstance(encoder, ContextEncoder) and hidden is not None:
                encoder.hide_(np.flatnonzero(hidden).tolist())
            width = encoder.width if isinstance(encoder, ContextEncoder) else 0
            curve = self._build(MapInputs(rows, width, width // max(len(rows.fields), 1), settings.warm_start))
            curve.encoder = encoder
            curve.wide = None if start.shifts is None else WideShift(rows.fields.sizes.tolist(), start.shifts)
            history = train(
                curve,
                rows,
                self._objective(settings, rows.fields),
                self._options(settings, rows),
                None if held_out is None else start.entering(held_out),
            )
            weights = {f"curve.{name}": array for name, array in self._weights_of(curve).items()}
            weights["affine"] = np.array([start.slope, start.intercept])
            if isinstance(encoder, ContextEncoder):
                weights |= encoder.arrays()
        if reducer.size == 1:
            return weights, history
        return broadcast_arrays(weights, reducer), json.loads(broadcast(json.dumps(history).encode(), reducer))

    # After the fit

    def _refresh(self, data: Dataset) -> None:
        found = refresh_network(
            self._map_logits,
            self.weights_,
            vars(self).get("posterior_"),
            self.name,
            self._select_fields(data.with_knots(vars(self).get("numeric_knots_"))),
            self.recent_shift_,
        )
        self.weights_, level, self.posterior_, self.last_update_ = found
        self.recent_shift_ += level

    def _logit_variance(self, data: Dataset) -> LogitVariance:
        unexplained = require_variance_components(vars(self).get("unexplained_"), self.name)
        shares = vars(self).get("carry_", {}).get("share")
        rows = self._select_fields(data.with_knots(vars(self).get("numeric_knots_")))
        return network_logit_variance(self._map_logits, self.weights_, rows, self.posterior_, unexplained, shares)

    def _map_logits(self, weights: Weights, data: Dataset) -> Floats:
        return self._apply(self._prepare(weights), data)

    # Prediction

    def _predict_logits(self, data: Dataset) -> Floats:
        return self._apply(self._fitted_map(), self._select_fields(data))

    def _row_scorer(self, shift: float) -> RowScorer:
        return lambda logits, ids: self._predict(Dataset(logits, ids=ids if ids.shape[1] else None), shift)

    @staticmethod
    def _apply(fitted: FittedMap, data: Dataset) -> Floats:
        result = np.empty(data.n_rows)

        def fill(rows: slice) -> None:
            ids = None if data.ids is None else np.asarray(data.ids[rows])
            result[rows] = fitted(data.z[rows], ids)

        # chunks end with a part, because a matrix product may round by the number of rows
        chunks = [
            slice(first, min(first + CHUNK_ROWS, part.stop))
            for _, part in data.cut.parts()
            for first in range(part.start, part.stop, CHUNK_ROWS)
        ]
        with row_workers() as do_all:
            do_all([partial(fill, rows) for rows in chunks])
        return result

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        share = network_weight(self.weights_)
        found: dict[str, ArrayLike] = {
            "the slope of affine": self.weights_["affine"][0],
            "mix": share,
            "1 - mix": 1.0 - share,
        }
        if "curve.knots" in self.weights_:
            found["a step of knots"] = np.diff(self.weights_["curve.knots"])
        return found

    def _map(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        chosen = None if ids is None else self._columns(self.n_fields_)
        return self._fitted(ops.over(self.weights_), logits, ids if chosen is None else ops.take_columns(ids, chosen))

    def _fitted(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        return fitted_map(ops, self._curve, self._context, logits, ids)

    def _fitted_map(self) -> FittedMap:
        # built once per fit or load, because a served model predicts many times
        kept: tuple[Weights, FittedMap] | None = vars(self).get("_kept")
        if kept is None or kept[0] is not self.weights_:
            kept = self.weights_, self._prepare(self.weights_)
            self._kept = kept
        return kept[1]

    def _select_fields(self, data: Dataset) -> Dataset:
        """Returns the rows with those fields alone that the method may look at."""
        columns = None if data.ids is None else self._columns(data.ids.shape[1])
        if columns is None or data.ids is None:
            return data
        schema = None if data.schema is None else data.schema.chosen(np.array(columns)).alone()
        return replace(data, ids=data.ids[:, columns], schema=schema)

    # What the base class asks for

    def _recent_shift(self, data: Dataset) -> float:
        asked = super()._recent_shift(data)
        if "carry_" not in vars(self):
            return asked if self.level_share == "auto" else self.level_share * asked
        share = self.level_share
        if share == "auto":
            share = KEPT_LEVEL if self.recent_share is None else 1.0
        self.carry_["level"] = np.array([share * asked, asked])
        return share * asked

    def _receive_embeddings(self, embeddings: Sequence[NDArray[np.float32]] | None) -> None:
        self._embeddings = embeddings


# Packages that only some steps need


class MissingPackage(MonocalError, ImportError):
    """A package that this step needs is not installed. The message says how to get it."""


def need(package: str, step: str, extra: str) -> None:
    """Refuses to go on without a package.

    Example:
        >>> need("no_such_package", "flying", "wings")
        Traceback (most recent call last):
        ...
        monocal.neural.base.MissingPackage: flying needs the package 'no_such_package', ...
    """
    if find_spec(package) is None:
        raise MissingPackage(
            f"{step} needs the package {package!r}, which is not installed. Hint: pip install 'monocal[{extra}]'"
        )
