"""The abstract neural calibrator: everything around the map itself."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.contract import RowScorer, Tags
from monocal.carry_over.curve import learn_score_curve
from monocal.carry_over.shares import SEARCH, ValidationRows, solve_shares
from monocal.carry_over.shrinkage import (
    CarryOver,
    EffectFit,
    fit_effects,
    learn_carry_over,
    line_beside,
    solve_fitted,
)
from monocal.core.dataset import Dataset
from monocal.core.errors import need
from monocal.core.fields import FieldSchema
from monocal.core.process import row_workers, threads_for_rows
from monocal.core.reduce import LOCAL, broadcast, pieces_of
from monocal.core.scores import Floats, LogitVariance
from monocal.neural.fitted import (
    CompiledUmc,
    FittedMap,
    Weights,
    fitted_map,
    looked_up,
    network_logit_variance,
    network_posterior,
    network_unexplained,
    network_weight,
    refresh_network,
)
from monocal.neural.maps import MapInputs, Parts
from monocal.neural.options import NeuralArguments
from monocal.ops.numpy_ops import NumpyOps
from monocal.ops.operations import Ops, Values
from monocal.wide.solver import FIRST_PENALTY, Penalty, Search, WideParameters

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

SMALLEST_NETWORK_SHARE = 0.05
"""A network with a smaller share is left out."""

NETWORK_PRIOR = 0.5
"""The network's share without evidence; 0 if every row is of the same moment, because all fields are then confounded
with time."""

REFIT_ROUNDS = 2
"""Beside the trained curve shifts scatter less than beside a straight line, so penalties move once more."""

_REFIT = Search(tolerance=1e-7, max_iterations=100, slope_is_free=False)


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
        """Shares, the map's share, start, training, shifts, level: all but the training is convex, and exact."""
        need("torch", f"fitting {self.name!r}", "neural")
        from monocal.neural.train import torch_threads

        settings = self._settings()
        wide = settings.wide and len(data.fields) > 0
        # without a wide part the start is a line, which has no penalties to learn
        l2: Penalty = FIRST_PENALTY if self.l2 == "auto" and not wide else self.l2
        with threads_for_rows(self._threads(data)), torch_threads(1):
            # what lasts of the fields' effects, and of a network
            carry_over, hidden = None, None
            if self._carries(settings) and len(data.fields):
                carry_over = learn_carry_over(data, settings.carry, self.l2)
                # the network must not look at fields that left, nor at those confounded with time
                hidden = ~carry_over.kept | carry_over.confounded_with_time
            effects = data if wide else data.without_fields()
            curve = learn_score_curve(effects, carry_over, self.base, l2) if self.base == "curve" else None
            share = 1.0
            weights: Weights = {}
            history: dict[str, Any] = {}
            if carry_over is not None:
                share = 0.0 if carry_over.blocks.one_moment else NETWORK_PRIOR
            if carry_over is not None and carry_over.origins:
                # a network that learns from the rows before the last origin is judged by those after the gap
                bent = data if curve is None else curve.applied_at_origin(data)
                older, start = rows_of_trial(bent, carry_over)
                weights, history = self._train(older, None, start, hidden)
                del older  # in parts a copy
                later = carry_over.origins[-1].later(bent, carry_over.blocks)
                share = share_that_held(self._map_logits(weights, later), later, start, carry_over)
                del later, bent
            if carry_over is not None and share < SMALLEST_NETWORK_SHARE and self.base == "auto":
                # a network that is in use bends by itself, and starts best from a straight line
                curve = learn_score_curve(data, carry_over, self.base, l2)
            if curve is not None:
                self.base_ = curve.as_arrays()
                data, effects = curve.applied(data), curve.applied(effects)
            # the line and the effects from which training starts
            older, held_out = data, None
            if settings.stopping_share > 0.0:
                early, late = data.split_recent(settings.stopping_share)
                if early.has_both_classes:
                    older, held_out = early, late
            if settings.warm_start:
                rows = effects if carry_over is not None else older if wide else older.without_fields()
                start = Start.of(fit_effects(rows, carry_over, l2, SEARCH), wide=wide)
            else:
                start = Start.cold(data.fields, l2) if wide else Start()
            # the network, then the shifts beside it
            if share >= SMALLEST_NETWORK_SHARE:
                weights, history = self._train(older, held_out, start, hidden)
            else:
                share = 0.0
                if not weights:
                    weights, history = self._train(data, None, start, hidden)
                weights["affine"] = np.array([start.slope, start.intercept])
            if carry_over is not None:
                weights["mix"] = np.array([share])
            if start.shifts is not None:
                weights |= refit_shifts(self._map_logits(weights, data), data, self.l2, start, carry_over)
            self.weights_, self.history_ = weights, history
            if carry_over is not None:
                self.carry_ = {**carry_over.as_arrays(data.fields), "network": np.array([share])}
            del carry_over  # the tables of all origins
            # how surely all of it is known
            logits = self._apply(self._fitted_map(), data)
            self.posterior_ = network_posterior(self.weights_, logits, data)
            shares = vars(self).get("carry_", {}).get("share")
            self.unexplained_ = network_unexplained(self.weights_, logits, data, self.posterior_, shares)

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
                self._objective(rows.fields),
                self._options(settings, rows),
                None if held_out is None else start.entering(held_out),
            )
            weights = {f"curve.{name}": array for name, array in self._weights_of(curve).items()}
            weights["affine"] = np.array([start.slope, start.intercept])
            if isinstance(encoder, ContextEncoder):
                weights |= encoder.arrays()
        if reducer.size == 1:
            return weights, history
        text = np.frombuffer(json.dumps(history).encode(), np.uint8)
        weights = broadcast({**weights, "history": text}, reducer)
        return weights, json.loads(weights.pop("history").tobytes())

    # After the fit

    def _refresh(self, data: Dataset) -> None:
        found = refresh_network(
            self._map_logits,
            self.weights_,
            self.posterior_,
            data.with_knots(vars(self).get("numeric_knots_")),
            self.recent_shift_,
        )
        self.weights_, level, self.posterior_, self.last_update_ = found
        self.recent_shift_ += level

    def _logit_variance(self, data: Dataset) -> LogitVariance:
        shares = vars(self).get("carry_", {}).get("share")
        rows = data.with_knots(vars(self).get("numeric_knots_"))
        return network_logit_variance(self._map_logits, self.weights_, rows, self.posterior_, self.unexplained_, shares)

    def _map_logits(self, weights: Weights, data: Dataset) -> Floats:
        return self._apply(self._prepare(weights), data)

    # Prediction

    def _predict_logits(self, data: Dataset) -> Floats:
        return self._apply(self._fitted_map(), data)

    def _row_scorer(self, shift: float) -> RowScorer:
        fitted = self._fitted_map()
        if isinstance(fitted, CompiledUmc):
            return fitted.row_scorer(shift)
        return lambda logits, ids: self._predict(Dataset(logits, ids=ids if ids.shape[1] else None), shift)

    @staticmethod
    def _apply(fitted: FittedMap, data: Dataset) -> Floats:
        result = np.empty(data.n_rows)

        def fill(rows: slice) -> None:
            ids = None if data.ids is None else np.asarray(data.ids[rows])
            result[rows] = fitted(data.z[rows], ids)

        # chunks end with a part, because a matrix product may round by the number of rows
        chunks = [chunk for part in data.cut.parts for chunk in pieces_of(part, CHUNK_ROWS)]
        with row_workers() as map_pieces:
            list(map_pieces(fill, chunks))
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
        return self._fitted(ops.over(self.weights_), logits, ids)

    def _fitted(self, ops: Ops, logits: Values, ids: Values | None) -> Values:
        return fitted_map(ops, self._curve, self._context, logits, ids)

    def _fitted_map(self) -> FittedMap:
        # built once per fit or load, because a served model predicts many times
        kept: tuple[Weights, FittedMap] | None = vars(self).get("_kept")
        if kept is None or kept[0] is not self.weights_:
            kept = self.weights_, self._prepare(self.weights_)
            self._kept = kept
        return kept[1]

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


# What training starts from, how much of the network lasts, and the last refit


@final
@dataclass(frozen=True)
class Start:
    """What training starts from, and what stays beside the map while it is trained.

    Attributes:
        slope: Applied to the ranker's logit before the map.
        intercept: Added to it.
        shifts: One per id, field after field; None without a wide part.
        penalties: One per field.
    """

    slope: float = 1.0
    intercept: float = 0.0
    shifts: Floats | None = None
    penalties: Floats | None = None

    @classmethod
    def of(cls, fitted: EffectFit, *, wide: bool = True) -> Start:
        """Returns the line and the effects of a wide fit; without a wide part the line alone."""
        line = fitted.line
        return cls(line.slope, line.intercept, line.shifts if wide else None, fitted.penalties)

    @classmethod
    def cold(cls, fields: FieldSchema, l2: Penalty) -> Start:
        """Returns the score as it is, and no shifts yet."""
        penalty = FIRST_PENALTY if l2 == "auto" else l2
        return cls(shifts=np.zeros(fields.n_ids), penalties=np.full(len(fields), penalty))

    def line(self, logits: Floats) -> Floats:
        """Returns logits as they enter the map."""
        return self.slope * logits + self.intercept

    def entering(self, data: Dataset) -> Dataset:
        """Returns the rows with their logits as they enter the map."""
        if self.slope == 1.0 and self.intercept == 0.0:
            return data
        return data.with_z(self.line(data.z))


def rows_of_trial(data: Dataset, carry_over: CarryOver) -> tuple[Dataset, Start]:
    """Returns the rows before the last origin, and what a network that is tried on them starts from.

    Arguments:
        data: All rows, in time order.
        carry_over: Origins, time blocks and shares of the fields.
    """
    origin = carry_over.origins[-1]
    older = data.take(carry_over.blocks.rows(0, origin.end))
    found = line_beside(older, replace(origin.found, shifts=_nuisance(carry_over, data)))
    return older, Start(found.slope, found.intercept, found.shifts, origin.penalties)


def share_that_held(map_logits: Floats, later: Dataset, start: Start, carry_over: CarryOver) -> float:
    """Returns the share of a tried network with which later rows are predicted best.

    Arguments:
        map_logits: What the network makes of the later rows.
        later: The rows after the last origin and its gap.
        start: What it was trained from.
        carry_over: As for `rows_of_trial`.
    """
    blocks, begin = carry_over.blocks, carry_over.origins[-1].begin
    line = start.line(later.z)
    departure = (map_logits - line)[:, None]
    block = blocks.block_of_rows(begin) - begin
    beside = later.with_z(later.fields.add_shifts(line, later.ids, _nuisance(carry_over, later)))
    rows = ValidationRows(beside, lambda some: departure[some], block, block)
    return float(solve_shares(rows, np.array([NETWORK_PRIOR])).values[0])


def _nuisance(carry_over: CarryOver, data: Dataset) -> Floats:
    """Returns the effects at the last origin that are not carried."""
    shifts: Floats = carry_over.origins[-1].found.shifts * data.fields.by_id(carry_over.nuisance_weight)
    return shifts


def refit_shifts(map_logits: Floats, data: Dataset, l2: Penalty, start: Start, carry_over: CarryOver | None) -> Weights:
    """Finds the best shifts and intercept beside a trained map, held fixed: a convex problem, solved on all rows.

    With carry-over, shifts are scaled by their shares and the intercept makes the total right again.

    Arguments:
        map_logits: The map's logit of every row, without shifts.
        data: All rows.
        l2: Penalty on the shifts, or `auto`.
        start: The shifts during training and their penalties.
        carry_over: Shares of all fields; None carries everything.
    """
    assert start.shifts is not None
    assert start.penalties is not None
    rows, n_rounds = data.with_z(map_logits), REFIT_ROUNDS if l2 == "auto" else 0
    first = WideParameters.at(start.shifts)
    found, penalties = solve_fitted(rows, carry_over, "auto", _REFIT, first, start.penalties, n_rounds)
    found = EffectFit(found, found.shifts, penalties, carry_over).forecast(rows)
    return {
        "wide.shifts": found.shifts,
        "wide.offsets": data.fields.offsets,
        "wide.intercept": np.array([found.intercept]),
        "wide.penalties": penalties,
    }
