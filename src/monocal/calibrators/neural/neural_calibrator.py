"""The abstract neural calibrator: everything around the map itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.neural.arrays.context_table import ContextTable, Weights
from monocal.calibrators.neural.arrays.fitted_map import Curve, FittedMap, believed_share, by_arrays, curve_weights
from monocal.calibrators.neural.fitting.carried import Trained, fit_believed
from monocal.calibrators.neural.fitting.challenger import going_on, judge_challenger, train_challenger
from monocal.calibrators.neural.fitting.encoders import Embeddings, encoder_arrays, encoder_for
from monocal.calibrators.neural.fitting.field_values import field_sizes
from monocal.calibrators.neural.fitting.map_inputs import MapInputs
from monocal.calibrators.neural.fitting.objective import Auxiliary, objective, refuse_auxiliary
from monocal.calibrators.neural.fitting.presets import PRESETS, FitSettings, Preset, batch_rows_for
from monocal.calibrators.neural.fitting.refreshed import (
    known_by_network,
    known_to_network,
    refresh_network,
    spread_of_network,
)
from monocal.calibrators.neural.fitting.warm_start import Start, logistic_start, refit_shifts, split_off_recent
from monocal.calibrators.neural.graph_parts import write_context, write_shifts
from monocal.calibrators.neural.packages import need
from monocal.calibrators.onnx.builder import GraphBuilder
from monocal.calibrators.statistical.carry_over import Carry, carry_among
from monocal.calibrators.statistical.field_shrinkage import FIRST_PENALTY, Penalty, check_penalty
from monocal.calibrators.statistical.row_variance import spread_or_refused
from monocal.calibrators.tags import Tags
from monocal.core.errors import UnknownName
from monocal.core.row_intervals import KnownLogits
from monocal.core.samples import Ids, Samples
from monocal.core.spaces import Floats

if TYPE_CHECKING:
    from torch import nn

    from monocal.calibrators.neural.modules.monotone_map import MonotoneMap
    from monocal.losses import Loss
    from monocal.training import TrainingOptions

CHUNK_ROWS = 65_536
"""Rows predicted at a time, which bounds the memory of context rows."""


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralCalibrator(LogitCalibrator):
    r"""A monotone map trained by gradient descent, between two exact convex fits.

    .. math:: z' = (1 - \alpha)\,t + \alpha f(t,\ x) + \sum_k \alpha_k \delta_{k, x_k}, \qquad t = a z + c

    1. Shares α in [0, 1] are learned on rows later than those the effects were learned from: one per field, and one
       for the map f, which is trained on the older rows for that purpose. A field whose effect does not last, or a map
       that says nothing about later rows, gets 0.
    2. Slope a, intercept c and one L2-regularised shift δ per field value are fitted as a logistic regression on all
       rows. f starts as the identity, so training starts at that solution.
    3. f is trained on all rows, and the shifts are refitted beside it, which is convex and exact.

    With `carry="none"` all shares are 1, and the most recent rows are held out to choose when to stop.

    Fitting needs torch; predicting does not. For a fixed feature row the shifts are constants, a ≥ 0, and a mix of two
    increasing functions increases, so the whole is as monotone in the score as f.

    A method is a dataclass: its fields are its arguments, and those below are declared here for all methods.

    Arguments:
        preset: `monocal`, or `paper` and `authors` for training as UMC's publication and code do it (see
            `PRESETS`). The arguments below whose default is None are taken from it.
        embeddings: Where vectors of field values come from: `own` trains them, `ranker` takes the frozen ones handed
            to `fit`, `none` leaves the map to the score alone, `auto` prefers the ranker's if there are any.
        n_dimensions: Length of an own vector.
        min_count: Values with fewer rows share the vector of unseen ones.
        wide: Whether there are shifts per field value.
        warm_start: Whether the map starts as the identity on top of the logistic fit, or at random.
        carry: How much of what was learned is carried into the future. `auto` learns one share in [0, 1] per field and
            one for the map, on rows later than those they were learned from; `none` believes everything; a mapping
            from a field's position (by name through `monocal.fit`) to a share fixes some. See `carry_`.
        l2: Penalty :math:`\tfrac{l_2}{2}\|\delta\|^2` beside the summed loss; `auto` learns one per field from the
            scatter of its shifts.
        sc_weight: Factor λ of the auxiliary loss beside the cross-entropy; 0 leaves it out.
        sc_preset: Which form of the smooth calibration loss, see `monocal.losses.PRESETS`.
        n_bins: Its number of bins.
        tau: How much of earlier batches its averages keep.
        auxiliary: `sc` for the smooth calibration loss, `field` for its field-wise form, `mse` for squared error.
        n_epochs: Passes over the rows.
        batch_rows: Rows per step; if neither this nor the preset says so, it is adapted to the number of rows.
        learning_rate: Adam's rate at its highest.
        held_out_share: Share of the most recent rows for early stopping; 0 trains on all. With `carry` none are needed.
        seed: Of the initial weights and the row order.
        n_threads: Threads of torch while training, restored afterwards. A step's products are too small to share: a
            second thread mostly waits, and on a busy machine it waits for its turn. None keeps torch's present number.
        checkpoint: A folder from which an interrupted training goes on.
        show_progress: True or False; None asks whether somebody watches.
        recent_share: See `Calibrator`; with `carry`, a positive one asks for the level that earlier levels support.
        guard: See `Calibrator`.
    """

    class_tags: ClassVar[Tags] = Tags(monotone="weak", features="optional", weights_exactly=False)

    default_epochs: ClassVar[int] = PRESETS["monocal"].n_epochs
    """Passes over the rows with the preset `monocal`; maps that cannot start as the identity need more."""

    network_is_kept: ClassVar[bool] = True
    """Whether the arrays of a fitted map are those of its network, so that a refresh can train it on."""

    preset: Preset = "monocal"
    embeddings: Embeddings = "auto"
    n_dimensions: int = 16
    min_count: int = 20
    wide: bool | None = None
    warm_start: bool | None = None
    carry: Carry | None = None
    l2: Penalty = "auto"
    sc_weight: float | None = None
    sc_preset: str | None = None
    n_bins: int = 10
    tau: float = 0.95
    auxiliary: Auxiliary = "sc"
    n_epochs: int | None = None
    batch_rows: int | None = None
    learning_rate: float | None = None
    held_out_share: float | None = None
    seed: int = 0
    n_threads: int | None = 1
    checkpoint: str | None = None
    show_progress: bool | None = None
    recent_share: float | None = None  # type: ignore[assignment]  # None asks the preset
    guard: bool = False

    # Hooks of a method

    @abstractmethod
    def _build(self, inputs: MapInputs) -> MonotoneMap:
        """Returns the torch map to train."""

    @abstractmethod
    def _curve(self, weights: Weights) -> Curve:
        """Returns the same map on numpy arrays, from what `_weights_of` returned."""

    @abstractmethod
    def _write_curve(self, graph: GraphBuilder, weights: Weights, logits: str, context: str | None) -> str:
        """Adds the same map to an ONNX graph and returns its logits."""

    def _weights_of(self, curve: MonotoneMap) -> Weights:
        return {name: np.atleast_1d(value.numpy()) for name, value in curve.state_dict().items()}

    def _columns(self, _n_fields: int) -> list[int] | None:
        """Which fields the method may look at; None for all."""
        return None

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

    def _context(self, weights: Weights) -> Callable[[Ids], Any] | None:
        """Returns the same on numpy arrays."""
        found = ContextTable.of(weights)
        return None if found is None else found.look_up

    def _prepare(self, weights: Weights) -> FittedMap:
        """Returns the fitted map as one function, ready for many calls."""
        return by_arrays(weights, self._curve(curve_weights(weights)), self._context(weights))

    def _published_sc_weight(self) -> float:
        """The factor of the auxiliary loss that this method has by default with the present preset."""
        return 0.0

    # The fit

    def _fit_believing(self, samples: Samples, sizes: list[int], settings: FitSettings) -> None:
        older, held_out = split_off_recent(samples, settings.stopping_share)
        start = self._start(older, sizes, settings)
        self.weights_, self.history_ = self._train(older, held_out, sizes, start, settings)
        if start.shifts is not None:
            shifts = refit_shifts(self._logits(samples), samples, sizes, self.l2, start)
            self.weights_ = {**self.weights_, **shifts}

    def _fit_carried(self, samples: Samples, sizes: list[int], settings: FitSettings) -> None:
        def train(older: Samples, held_out: Samples | None, start: Start, hidden: Any, **options: Any) -> Trained:
            return self._train(older, held_out, sizes, start, settings, hidden, **options)

        columns = self._columns(self.n_fields_) or list(range(self.n_fields_))
        settings = replace(settings, carry=carry_among(settings.carry, columns))
        fitted = fit_believed(samples, sizes, settings, self.l2, train, self._map_logits)
        self.weights_, self.history_, self._level = fitted.weights, fitted.history, fitted.level
        self.carry_ = {"field": np.array(columns), **fitted.believed}

    def _fit(self, samples: Samples) -> None:
        need("torch", f"fitting {self.name!r}", "neural")
        check_penalty(self.l2)
        settings = self._settings()
        samples = self._seen(samples)
        sizes = [] if samples.features is None else field_sizes(samples.features, samples.numeric_knots)
        sizes = samples.in_shards.most(np.array(sizes, dtype=np.int64)).tolist()
        if self._carries(settings) and sizes:
            self._fit_carried(samples, sizes, settings)
        else:
            self._fit_believing(samples, sizes, settings)
        if samples.numeric_knots is None:
            logits = self._logits(samples)
            self.posterior_ = known_to_network(self.weights_, logits, samples)
            if samples.shards is None:
                shares = vars(self).get("carry_", {}).get("share")
                self.spread_ = spread_of_network(self.weights_, logits, samples, self.posterior_, shares)

    def _refresh(self, samples: Samples) -> None:
        samples, kept = self._seen(samples), vars(self).get("challenger_") or {}
        why_not = "" if self.network_is_kept else f"{self.name} keeps no network after a fit"
        judged = judge_challenger(self._map_logits, self.weights_, kept, samples, self.recent_shift_, why_not)
        found = refresh_network(
            self._map_logits, judged.weights, vars(self).get("posterior_"), self.name, samples, self.recent_shift_
        )
        self.weights_, level, self.posterior_, self.moved_ = found
        self.recent_shift_ += level
        self.moved_["trained_network"] = judged.facts
        if judged.goes_on:
            self.challenger_ = self._challenger(samples, self.weights_ | judged.challenger)

    def _challenger(self, samples: Samples, start: Weights) -> Weights:
        """Trains a second network on the rows of a refresh; the next ones will judge it."""
        settings = self._settings()
        inputs = MapInputs.going_on(start, samples, settings.warm_start)
        loss = self._objective(settings, inputs.field_sizes)
        options = going_on(self._options(settings, samples))
        curve = train_challenger(self._build(inputs), start, samples, self.recent_shift_, loss, options)
        return {f"curve.{name}": array for name, array in self._weights_of(curve).items()}

    def _known_logits(self, samples: Samples) -> KnownLogits:
        spread = spread_or_refused(vars(self).get("spread_"), self.name)
        shares = vars(self).get("carry_", {}).get("share")
        return known_by_network(self._map_logits, self.weights_, self.posterior_, spread, shares, self._seen(samples))

    def _map_logits(self, weights: Weights, samples: Samples) -> Floats:
        return self._apply(self._prepare(weights), samples)

    def _train(
        self,
        older: Samples,
        held_out: Samples | None,
        sizes: list[int],
        start: Start,
        settings: FitSettings,
        hidden: NDArray[np.bool_] | None = None,
        **options: Any,
    ) -> Trained:
        """Trains a map on top of a start and returns its arrays and how the training went.

        Arguments:
            older: The rows to train on.
            held_out: Rows that choose when to stop.
            sizes: How many ids each field has.
            start: Slope, intercept and shifts that stay while the map is trained.
            settings: Of the preset.
            hidden: Fields whose values all count as unseen in the map's context.
            options: Training options that differ from the calibrator's.
        """
        from monocal.calibrators.neural.modules.field_map import ChosenValues, FieldMap
        from monocal.calibrators.neural.modules.wide_shift import WideShift
        from monocal.training import train

        rows = start.entering(older)
        if rows.shards is not None:
            refuse_auxiliary(self._sc_weight())
        encoder = self._encoder(rows, sizes)
        if isinstance(encoder, ChosenValues) and hidden is not None:
            encoder.hide_(np.flatnonzero(hidden).tolist())
        width = int(getattr(encoder, "width", 0))
        curve = self._build(MapInputs(rows, sizes, width, width // max(len(sizes), 1), settings.warm_start))
        history = train(
            FieldMap(curve, encoder=encoder, wide=WideShift.frozen(sizes, start.shifts)),
            rows,
            held_out=None if held_out is None else start.entering(held_out),
            loss=self._objective(settings, sizes),
            options=replace(self._options(settings, rows), **options),
        )
        weights: Weights = {f"curve.{name}": array for name, array in self._weights_of(curve).items()}
        weights["affine"] = np.array([start.slope, start.intercept])
        if isinstance(encoder, ChosenValues):
            weights |= encoder_arrays(encoder)
        return weights, history.as_dict()

    def _threads(self, rows: Samples) -> int | None:
        return self.n_threads if rows.shards is None else 1  # members of a team must round alike

    def _carries(self, settings: FitSettings) -> bool:
        """Whether effects are judged on later rows; that needs a start and shifts to judge."""
        return settings.carry != "none" and settings.wide and settings.warm_start

    def _adds_shifts(self) -> bool:
        return self._settings().wide

    def _settings(self) -> FitSettings:
        if self.preset not in PRESETS:
            raise UnknownName.among("preset", self.preset, PRESETS)
        given = {
            name: getattr(self, name)
            for name in (
                "wide",
                "warm_start",
                "carry",
                "held_out_share",
                "recent_share",
                "n_epochs",
                "batch_rows",
                "learning_rate",
                "sc_preset",
            )
            if getattr(self, name) is not None
        }
        settings = PRESETS[self.preset]
        if self.preset == "monocal":
            settings = replace(settings, n_epochs=self.default_epochs)
        return replace(settings, **given)

    def _start(self, older: Samples, sizes: Sequence[int], settings: FitSettings) -> Start:
        wide = settings.wide and bool(sizes)
        if settings.warm_start:
            return logistic_start(older, sizes if wide else None, self.l2)
        penalty = FIRST_PENALTY if self.l2 == "auto" else self.l2
        return Start(shifts=np.zeros(sum(sizes)), penalties=np.full(len(sizes), penalty)) if wide else Start()

    def _sc_weight(self) -> float:
        return self._published_sc_weight() if self.sc_weight is None else self.sc_weight

    def _objective(self, settings: FitSettings, sizes: Sequence[int]) -> Loss:
        return objective(self.auxiliary, self._sc_weight(), settings.sc_preset, self.n_bins, self.tau, sizes)

    def _options(self, settings: FitSettings, rows: Samples) -> TrainingOptions:
        from monocal.training import TrainingOptions

        n_rows = int(rows.in_shards.team.count(np.array([rows.n_rows]))[0])
        return TrainingOptions(
            n_epochs=settings.n_epochs,
            batch_rows=settings.batch_rows or batch_rows_for(n_rows),
            learning_rate=settings.learning_rate,
            schedule=settings.schedule,
            seed=self.seed,
            n_threads=self._threads(rows),
            checkpoint=self.checkpoint,
            show_progress=self.show_progress,
        )

    # Prediction

    def _predict_logits(self, samples: Samples) -> Floats:
        return self._logits(self._seen(samples))

    def _logits(self, samples: Samples) -> Floats:
        return self._apply(self._fitted_map(), samples)

    @staticmethod
    def _apply(fitted: FittedMap, samples: Samples) -> Floats:
        result = np.empty(samples.n_rows)
        # chunks end with a shard, because a matrix product may round by the number of rows
        for _, part in samples.in_shards.parts():
            for first in range(part.start, part.stop, CHUNK_ROWS):
                rows = slice(first, min(first + CHUNK_ROWS, part.stop))
                ids = None if samples.features is None else samples.features[rows]
                result[rows] = fitted(samples.logits[rows], ids)
        return result

    def _write_onnx(self, graph: GraphBuilder, logits: str, features: str) -> str:
        chosen = self._columns(self.n_fields_) if features else None
        if chosen is not None:
            features = graph.apply("Gather", features, graph.constant(chosen, np.int64), axis=1)
        slope, intercept = (float(number) for number in self.weights_["affine"])
        entering = graph.add(graph.multiply(logits, slope), intercept)
        share, values = believed_share(self.weights_), entering
        if share > 0.0:
            context = self._write_context(graph, features)
            values = self._write_curve(graph, curve_weights(self.weights_), entering, context)
        if 0.0 < share < 1.0:
            values = graph.add(graph.multiply(entering, 1.0 - share), graph.multiply(values, share))
        shifts = write_shifts(graph, self.weights_, features)
        return values if shifts is None else graph.add(values, shifts)

    def _write_context(self, graph: GraphBuilder, features: str) -> str | None:
        return write_context(graph, self.weights_, features)

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

    def _recent_share(self) -> float:
        return self._settings().recent_share

    def _looks_at_time(self) -> bool:
        settings = self._settings()
        return super()._looks_at_time() or settings.stopping_share > 0.0 or self._carries(settings)

    def _recent_shift(self, samples: Samples) -> float:
        return self._level if "carry_" in vars(self) else super()._recent_shift(samples)

    def _receive_embeddings(self, embeddings: Sequence[NDArray[np.float32]] | None) -> None:
        self._embeddings = embeddings
