"""The arguments that all neural methods share, and what they mean for a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.base_curve import Base
from monocal.carry_over.shrinkage import Carry
from monocal.core.dataset import Dataset
from monocal.core.errors import UnknownName
from monocal.core.fields import FieldSchema
from monocal.core.threads import usable_cores
from monocal.neural.fitting.encoders import Embeddings
from monocal.neural.fitting.objective import Auxiliary, objective
from monocal.neural.fitting.presets import PRESETS, FitSettings, Preset, batch_rows_for
from monocal.wide.penalties import Penalty

if TYPE_CHECKING:
    from monocal.losses import Loss
    from monocal.training import TrainingOptions


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralArguments(LogitCalibrator):
    r"""The arguments of a neural method: presets, vectors, shifts, loss, training.

    A method is a dataclass: its fields are its arguments. Those below are declared here once for all methods.

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
            one for the map, on rows later than those they were learned from; `none` carries everything; a mapping
            from a field's position (by name through `monocal.fit`) to a share fixes some. See `carry_`.
        base: How the ranker's logit enters: `slope` as it is, `curve` along a broken line that always rises, learned
            beside the shifts. `auto` leaves bends to the map; where later rows reject the map, it takes such a line
            to the share that held there (see `learn_score_curve`).
        l2: Penalty :math:`\tfrac{l_2}{2}\|\delta\|^2` beside the summed loss; `auto` learns one per field from the
            scatter of its shifts.
        sc_weight: Factor λ of the auxiliary loss beside the cross-entropy; 0 leaves it out.
        sc_preset: Which form of the smooth calibration loss, see `monocal.losses.PRESETS`.
        n_bins: Its number of bins.
        tau: How much of earlier batches its averages keep.
        auxiliary: `sc` for the smooth calibration loss, `field` for its field-wise form, `mse` for squared error.
        curve_rows: Trains the map on this many of the newest rows; slope, intercept, shifts, shares and level are
            fitted on all rows nevertheless. Values with fewer than `min_count` of the newest rows have no vector of
            their own. None trains it on all rows.
        n_epochs: Passes over the rows.
        batch_rows: Rows per step; if neither this nor the preset says so, it is adapted to the number of rows.
        learning_rate: Adam's rate at its highest.
        held_out_share: Share of the most recent rows for early stopping; 0 trains on all. With `carry` none are needed.
        seed: Of the initial weights and the row order.
        n_threads: Threads that share blocks of rows in every step but training, whose products are too small to share;
            None takes as many as the process may use. The result is the same to the bit (with the integrand `concat`
            to rounding).
        checkpoint: A folder from which an interrupted training goes on.
        show_progress: True or False; None asks whether somebody watches.
        recent_share: See `Calibrator`; with `carry`, a positive one asks for the level that earlier levels support.
        guard: See `Calibrator`.
    """

    default_epochs: ClassVar[int] = PRESETS["monocal"].n_epochs
    """Passes over the rows with the preset `monocal`; maps that cannot start as the identity need more."""

    preset: Preset = "monocal"
    embeddings: Embeddings = "auto"
    n_dimensions: int = 16
    min_count: int = 20
    wide: bool | None = None
    warm_start: bool | None = None
    carry: Carry | None = None
    base: Base = "auto"
    l2: Penalty = "auto"
    sc_weight: float | None = None
    sc_preset: str | None = None
    n_bins: int = 10
    tau: float = 0.95
    auxiliary: Auxiliary = "sc"
    curve_rows: int | None = None
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

    # What they mean for a fit

    def _published_sc_weight(self) -> float:
        """The factor of the auxiliary loss that this method has by default with the present preset."""
        return 0.0

    def _threads(self, rows: Dataset) -> int:
        if rows.partition is not None:
            return 1  # members of a team must round alike
        return usable_cores() if self.n_threads is None else self.n_threads

    def _carries(self, settings: FitSettings) -> bool:
        """Whether effects are validated on later rows; that needs a start and shifts to validate."""
        return settings.carry != "none" and settings.wide and settings.warm_start

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

    def _sc_weight(self) -> float:
        return self._published_sc_weight() if self.sc_weight is None else self.sc_weight

    def _objective(self, settings: FitSettings, fields: FieldSchema) -> Loss:
        return objective(self.auxiliary, self._sc_weight(), settings.sc_preset, self.n_bins, self.tau, fields)

    def _options(self, settings: FitSettings, rows: Dataset) -> TrainingOptions:
        from monocal.training import TrainingOptions

        return TrainingOptions(
            n_epochs=settings.n_epochs,
            batch_rows=settings.batch_rows or batch_rows_for(rows.n_rows),
            learning_rate=settings.learning_rate,
            schedule=settings.schedule,
            seed=self.seed,
            n_threads=1,
            checkpoint=self.checkpoint,
            show_progress=self.show_progress,
        )

    # What the base class asks for

    def _recent_share(self) -> float:
        return self._settings().recent_share

    def _looks_at_time(self) -> bool:
        settings = self._settings()
        return super()._looks_at_time() or settings.stopping_share > 0.0 or self._carries(settings)
