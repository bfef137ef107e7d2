"""The abstract neural calibrator: everything around the map itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.calibrators.contract import Tags
from monocal.calibrators.statistical.carry_over import carry_among, score_curve_beside
from monocal.calibrators.statistical.field_shrinkage import FIRST_PENALTY, check_penalty
from monocal.calibrators.statistical.row_variance import spread_or_refused
from monocal.core.row_intervals import KnownLogits
from monocal.core.samples import Samples
from monocal.core.spaces import Floats
from monocal.core.threads import row_workers, threads_for_rows
from monocal.neural.fitted import FittedMap, Weights, fitted_map, looked_up, network_share
from monocal.neural.fitting.carry_over import Trained, fit_with_carry_over
from monocal.neural.fitting.encoders import encoder_arrays, encoder_for
from monocal.neural.fitting.field_values import field_sizes
from monocal.neural.fitting.map_inputs import MapInputs
from monocal.neural.fitting.presets import FitSettings
from monocal.neural.fitting.refreshed import (
    known_by_network,
    known_to_network,
    refresh_network,
    spread_of_network,
)
from monocal.neural.fitting.warm_start import Start, logistic_start, refit_shifts, split_off_recent
from monocal.neural.maps import Parts
from monocal.neural.neural_arguments import NeuralArguments
from monocal.neural.packages import need
from monocal.ops.numpy_ops import NumpyOps
from monocal.ops.operations import Ops, Values

if TYPE_CHECKING:
    from torch import nn

    from monocal.neural.network import MonotoneMap

CHUNK_ROWS = 65_536
"""Rows predicted at a time, which bounds the memory of context rows."""


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

    def _looked_at(self, n_fields: int) -> Sequence[int]:
        return self._columns(n_fields) or range(n_fields)

    def _encoder(self, samples: Samples, sizes: Sequence[int]) -> nn.Module | None:
        """Returns what makes the map's context from field ids, in torch."""
        if samples.features is None:
            return None
        return encoder_for(
            self.embeddings,
            self._embeddings,
            samples.features,
            sizes,
            weights=samples.weights,
            shards=samples.shards,
            n_dimensions=self.n_dimensions,
            min_count=self.min_count,
            seed=self.seed,
            numeric_knots=samples.numeric_knots,
        )

    def _prepare(self, weights: Weights) -> FittedMap:
        """Returns the fitted map as one function of arrays, ready for many calls."""
        return partial(self._fitted, NumpyOps(weights))

    # The fit

    def _fit(self, samples: Samples) -> None:
        need("torch", f"fitting {self.name!r}", "neural")
        from monocal.training.threads import torch_threads

        check_penalty(self.l2)
        samples = self._seen(samples)
        sizes, settings = self._sizes(samples), self._settings()
        with threads_for_rows(self._threads(samples)), torch_threads(1):
            if self._carries(settings) and sizes:
                self._fit_with_carry_over(samples, sizes, settings)
            else:
                self._fit_once(samples, sizes, settings)
            samples = self._through_base_curve(samples)
            logits = self._logits(samples)
            self.posterior_ = known_to_network(self.weights_, logits, samples)
            shares = vars(self).get("carry_", {}).get("share")
            self.spread_ = spread_of_network(self.weights_, logits, samples, self.posterior_, shares)

    def _fit_once(self, samples: Samples, sizes: list[int], settings: FitSettings) -> None:
        if self.base == "curve":
            samples = self._along(samples, sizes, settings)
        older, held_out = split_off_recent(samples, settings.stopping_share)
        start = self._start(older, sizes, settings)
        self.weights_, self.history_ = self._train(sizes, older, held_out, start)
        if start.shifts is not None:
            shifts = refit_shifts(self._logits(samples), samples, sizes, self.l2, start)
            self.weights_ = {**self.weights_, **shifts}

    def _fit_with_carry_over(self, samples: Samples, sizes: list[int], settings: FitSettings) -> None:
        columns = self._columns(self.n_fields_) or list(range(self.n_fields_))
        settings = replace(settings, carry=carry_among(settings.carry, columns))
        fitted = fit_with_carry_over(
            samples, sizes, settings, self.l2, self.base, partial(self._train, sizes), self._map_logits
        )
        self.weights_, self.history_, self._level = fitted.weights, fitted.history, fitted.level
        self.carry_ = {"field": np.array(columns), **fitted.shares}
        if fitted.curve is not None:
            self.base_ = fitted.curve.as_arrays()

    def _along(self, samples: Samples, sizes: list[int], settings: FitSettings) -> Samples:
        """Learns the curve of the score beside a logistic fit, and returns the rows with their logits along it."""
        start = logistic_start(samples, sizes if settings.wide and sizes else None, self.l2)
        curve = score_curve_beside(samples, start.beside(samples, sizes))
        if curve is None:
            return samples
        self.base_ = curve.as_arrays()
        return curve.applied(samples)

    @staticmethod
    def _sizes(samples: Samples) -> list[int]:
        """Returns how many ids each field has, among all members of a team."""
        sizes = [] if samples.features is None else field_sizes(samples.features, samples.numeric_knots)
        found: list[int] = samples.in_shards.most(np.array(sizes, dtype=np.int64)).tolist()
        return found

    def _refresh(self, samples: Samples) -> None:
        state = vars(self).get("posterior_")
        found = refresh_network(
            self._map_logits, self.weights_, state, self.name, self._seen(samples), self.recent_shift_
        )
        self.weights_, level, self.posterior_, self.moved_ = found
        self.recent_shift_ += level

    def _known_logits(self, samples: Samples) -> KnownLogits:
        spread = spread_or_refused(vars(self).get("spread_"), self.name)
        shares = vars(self).get("carry_", {}).get("share")
        knots, seen = vars(self).get("numeric_knots_"), self._seen(samples)
        return known_by_network(self._map_logits, self.weights_, self.posterior_, spread, shares, knots, seen)

    def _map_logits(self, weights: Weights, samples: Samples) -> Floats:
        return self._apply(self._prepare(weights), samples)

    def _train(
        self,
        sizes: list[int],
        rows: Samples,
        held_out: Samples | None,
        start: Start,
        hidden: NDArray[np.bool_] | None = None,
        *,
        is_trial: bool = False,
    ) -> Trained:
        """Trains a map on top of a start and returns its arrays and how the training went; see `TrainMap`.

        Arguments beside those of `TrainMap`:
            sizes: How many ids each field has among all rows of the fit.
        """
        from monocal.neural.context import ChosenValues
        from monocal.neural.network import FieldMap, WideShift
        from monocal.training import train

        settings = self._settings()
        rows = start.entering(rows if self.curve_rows is None else rows.newest(int(self.curve_rows)))
        encoder = self._encoder(rows, sizes)
        if isinstance(encoder, ChosenValues) and hidden is not None:
            encoder.hide_(np.flatnonzero(hidden).tolist())
        width = encoder.width if isinstance(encoder, ChosenValues) else 0
        curve = self._build(MapInputs(rows, sizes, width, width // max(len(sizes), 1), settings.warm_start))
        options = self._options(settings, rows)
        if is_trial:
            # an interrupted fit resumes its last training; a trial is done again
            options = replace(options, checkpoint=None)
        history = train(
            FieldMap(curve, encoder=encoder, wide=WideShift.frozen(sizes, start.shifts)),
            rows,
            held_out=None if held_out is None else start.entering(held_out),
            loss=self._objective(settings, sizes),
            options=options,
        )
        weights: Weights = {f"curve.{name}": array for name, array in self._weights_of(curve).items()}
        weights["affine"] = np.array([start.slope, start.intercept])
        if isinstance(encoder, ChosenValues):
            weights |= encoder_arrays(encoder)
        return weights, history.as_dict()

    def _start(self, older: Samples, sizes: Sequence[int], settings: FitSettings) -> Start:
        wide = settings.wide and bool(sizes)
        if settings.warm_start:
            return logistic_start(older, sizes if wide else None, self.l2)
        penalty = FIRST_PENALTY if self.l2 == "auto" else self.l2
        return Start(shifts=np.zeros(sum(sizes)), penalties=np.full(len(sizes), penalty)) if wide else Start()

    # Prediction

    def _predict_logits(self, samples: Samples) -> Floats:
        return self._logits(self._seen(samples))

    def _logits(self, samples: Samples) -> Floats:
        return self._apply(self._fitted_map(), samples)

    @staticmethod
    def _apply(fitted: FittedMap, samples: Samples) -> Floats:
        result = np.empty(samples.n_rows)

        def fill(rows: slice) -> None:
            ids = None if samples.features is None else np.asarray(samples.features[rows])
            result[rows] = fitted(samples.logits[rows], ids)

        # chunks end with a shard, because a matrix product may round by the number of rows
        chunks = [
            slice(first, min(first + CHUNK_ROWS, part.stop))
            for _, part in samples.in_shards.parts()
            for first in range(part.start, part.stop, CHUNK_ROWS)
        ]
        with row_workers() as do_all:
            do_all([partial(fill, rows) for rows in chunks])
        return result

    def _never_negative(self) -> Mapping[str, ArrayLike]:
        share = network_share(self.weights_)
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

    def _seen(self, samples: Samples) -> Samples:
        """Returns the rows with those fields alone that the method may look at."""
        if samples.features is None:
            return samples
        columns = self._columns(samples.features.shape[1])
        if columns is None:
            return samples
        knots = samples.numeric_knots
        chosen = None if knots is None else tuple(knots[column] for column in columns)
        return replace(samples, features=samples.features[:, columns], numeric_knots=chosen)

    # What the base class asks for

    def _recent_shift(self, samples: Samples) -> float:
        return self._level if "carry_" in vars(self) else super()._recent_shift(samples)

    def _receive_embeddings(self, embeddings: Sequence[NDArray[np.float32]] | None) -> None:
        self._embeddings = embeddings
