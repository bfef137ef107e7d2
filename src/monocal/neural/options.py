"""The arguments that all neural methods share, the presets behind them, and what they mean for a fit."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from monocal.calibrators.base import LogitCalibrator
from monocal.calibrators.curve import Base
from monocal.carry_over.shrinkage import Carry
from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput
from monocal.core.fields import FieldSchema
from monocal.core.process import usable_cores
from monocal.wide.solver import Penalty

if TYPE_CHECKING:
    from monocal.neural.losses import Loss
    from monocal.neural.train import TrainingOptions

Embeddings = Literal["auto", "own", "ranker", "none"]
Preset = Literal["monocal", "paper", "authors"]

STOPPING_SHARE = 0.1
"""Most recent rows that choose when to stop, if nothing else judges the network."""


@dataclass(frozen=True)
class FitSettings:
    """The choices of one preset; a calibrator's own arguments replace them one by one.

    Attributes:
        wide: One shift per field value beside the network.
        warm_start: Starts the network as the identity on top of a logistic fit instead of at random.
        carry: How much of the fields' effects and of the network is carried into the future.
        held_out_share: Most recent rows kept for early stopping; None keeps a tenth unless `carry` judges the network.
        recent_share: Most recent rows that set the last intercept.
        n_epochs: Passes over the rows.
        batch_rows: Rows per step; None adapts it to the number of rows.
        learning_rate: Adam's rate.
        schedule: Of the rate.
    """

    wide: bool
    warm_start: bool
    carry: Carry
    held_out_share: float | None
    recent_share: float
    n_epochs: int
    batch_rows: int | None
    learning_rate: float
    schedule: Literal["cosine", "constant"]

    @property
    def stopping_share(self) -> float:
        """Most recent rows that choose when to stop."""
        if self.held_out_share is not None:
            return self.held_out_share
        return STOPPING_SHARE if self.carry == "none" else 0.0


_PUBLISHED = FitSettings(
    wide=False,
    warm_start=False,
    carry="none",
    held_out_share=0.0,
    recent_share=0.0,
    n_epochs=20,
    batch_rows=16_384,
    learning_rate=1e-3,
    schedule="constant",
)

PRESETS: dict[str, FitSettings] = {
    "monocal": FitSettings(
        wide=True,
        warm_start=True,
        carry="auto",
        held_out_share=None,
        recent_share=0.2,
        n_epochs=2,
        batch_rows=None,
        learning_rate=4e-3,
        schedule="cosine",
    ),
    "paper": _PUBLISHED,
    "authors": _PUBLISHED,
}
"""`paper` and `authors` train every method as UMC's publication and released code do: at random start, twenty epochs
at a constant rate, on all rows, nothing held out. They differ in the smooth calibration loss."""

_FEWEST_STEPS = 45
_SMALLEST_BATCH, _LARGEST_BATCH = 256, 4096


def batch_rows_for(n_rows: int) -> int:
    """Returns a power of two that leaves about 45 steps per epoch, between 256 and 4096 rows.

    Example:
        >>> [batch_rows_for(n) for n in (1_000, 40_000, 180_000, 8_000_000)]
        [256, 1024, 4096, 4096]
    """
    wanted = n_rows / _FEWEST_STEPS
    size = _SMALLEST_BATCH
    while size * 1.5 <= wanted and size < _LARGEST_BATCH:
        size *= 2
    return size


Auxiliary = Literal["sc", "field", "mse"]


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralArguments(LogitCalibrator):
    r"""The arguments of a neural method: presets, vectors, shifts, loss, training.

    A method is a dataclass: its fields are its arguments. Those below are declared here once for all methods.

    Arguments:
        preset: `monocal`, or `paper` and `authors` for training as UMC's publication and code do it (see
            `PRESETS`), with their form of the smooth calibration loss. The arguments below whose default is None are
            taken from it.
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
        show_progress: True or False; None asks whether somebody watches.
        recent_share: See `Calibrator`; None takes the preset's.
        level_share: Share of the level that the most recent rows ask for (see `recent_share`) that is kept. `auto`
            keeps half of it with `carry`, because levels of weeks often go as they came, and all of it without, or
            where `recent_share` is given.
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
    show_progress: bool | None = None
    recent_share: float | None = None  # type: ignore[assignment]  # None asks the preset
    level_share: float | Literal["auto"] = "auto"

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
        decided = [field.name for field in fields(FitSettings) if field.name != "schedule"]
        given = {name: getattr(self, name) for name in decided if getattr(self, name) is not None}
        settings = PRESETS[self.preset]
        if self.preset == "monocal":
            settings = replace(settings, n_epochs=self.default_epochs)
        return replace(settings, **given)

    def _objective(self, fields: FieldSchema) -> Loss:
        """Returns cross-entropy, plus the auxiliary loss times its weight if that is positive."""
        from monocal.neural import losses

        weight = self._published_sc_weight() if self.sc_weight is None else self.sc_weight
        if weight == 0.0:
            return losses.CrossEntropy()
        second: Loss
        if self.auxiliary == "mse":
            second = losses.SquaredError()
        elif self.auxiliary == "field":
            if not len(fields):
                raise InvalidInput.of("auxiliary", '"field" without features', "features", 'pass features, or use "sc"')
            numeric = None if fields.is_identity else fields.is_numeric.tolist()
            second = losses.FieldCalibrationLoss(fields.sizes.tolist(), self.tau, numeric)
        else:
            second = losses.SmoothCalibrationLoss(self.n_bins, self.tau, self.preset)
        return losses.WeightedSum([(1.0, losses.CrossEntropy()), (weight, second)])

    def _options(self, settings: FitSettings, rows: Dataset) -> TrainingOptions:
        from monocal.neural.train import TrainingOptions

        return TrainingOptions(
            n_epochs=settings.n_epochs,
            batch_rows=settings.batch_rows or batch_rows_for(rows.n_rows),
            learning_rate=settings.learning_rate,
            schedule=settings.schedule,
            seed=self.seed,
            show_progress=self.show_progress,
        )

    # What the base class asks for

    def _recent_share(self) -> float:
        return self._settings().recent_share

    @property
    def looks_at_time(self) -> bool:
        settings = self._settings()
        return super().looks_at_time or settings.stopping_share > 0.0 or self._carries(settings)
