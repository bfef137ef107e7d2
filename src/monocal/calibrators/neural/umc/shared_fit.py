"""Fits the UMC calibrators of several tasks with one network for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.base import Calibrator
from monocal.calibrators.neural.arrays.context_table import SHARED, Weights
from monocal.calibrators.neural.fitting.encoders import encoder_arrays
from monocal.calibrators.neural.fitting.field_values import field_sizes
from monocal.calibrators.neural.fitting.map_inputs import MapInputs
from monocal.calibrators.neural.fitting.steps import Trained, Wish, run_together
from monocal.calibrators.neural.umc.calibrator import UmcCalibrator
from monocal.calibrators.statistical.wide_solver import add_shifts, field_offsets
from monocal.core.blas_threads import one_blas_thread
from monocal.core.errors import InvalidInput
from monocal.core.samples import Ids, Samples
from monocal.core.sampling import SamplingRate
from monocal.core.spaces import ScoreSpace

if TYPE_CHECKING:
    from monocal.training.joint_objective import JointRows


def check_can_share(calibrator: Calibrator, n_tasks: int, n_fields: int) -> UmcCalibrator:
    """Refuses a calibrator, or a model, that has no network which tasks could share."""
    wish = ""
    if not isinstance(calibrator, UmcCalibrator) or calibrator.integrand != "knots" or calibrator.preset != "monocal":
        wish = 'the method "umc" with the integrand at knots, its default'
    elif not (calibrator.umnn and calibrator.use_features and calibrator.embeddings != "none") or n_fields == 0:
        wish = "fields, and a network that looks at them"
    elif n_tasks < 2:
        wish = "several tasks"
    elif calibrator.curve_rows is not None:
        wish = "curve_rows=None: the newest labels of one task need not be those of another"
    elif calibrator.guard:
        wish = "guard=False: a task that fell back would leave the network to the others"
    elif (calibrator.sc_weight or 0.0) > 0.0:
        wish = "sc_weight=0: bins of the auxiliary loss belong to one task"
    if wish or not isinstance(calibrator, UmcCalibrator):
        got = f"{n_tasks} tasks of the method {calibrator.name!r} with {n_fields} fields"
        raise InvalidInput.of("shared_network", got, wish, "leave it out: every task gets a network of its own")
    return calibrator


def fit_together(
    calibrators: Sequence[UmcCalibrator],
    scores: Sequence[NDArray[Any]],
    labels: Sequence[NDArray[np.int8]],
    *,
    features: Ids,
    weights: NDArray[np.floating[Any]] | None = None,
    times: NDArray[Any] | None = None,
    scores_are: ScoreSpace = "probability",
    sampling_rate: SamplingRate = None,
    embeddings: Sequence[NDArray[np.float32]] | None = None,
    numeric_knots: Sequence[int] | None = None,
) -> None:
    """Fits one calibrator per task on the same rows, in time order; all have the same vectors and hidden layers.

    Everything but the network is fitted task by task, as each would be alone: slope, intercept, shifts, shares, level.
    The network sees the fields that every task carries forward. How far each task believes it is learned on rows of
    which it has seen no label of any task: the trial is trained on the rows before the earliest cut. A task that later
    rows give no share takes no part in the last training.

    Arguments:
        calibrators: One per task, with the same arguments.
        scores: One column per task.
        labels: One column per task: 0 or 1, or -1 where the task was not observed.
        features: Field ids `(n, F)`.
        weights: How often each row counts.
        times: When each row happened, rising; None if only the order is known.
        scores_are: The space of the scores.
        sampling_rate: Share of negatives the ranker was trained on, one number or one per row.
        embeddings: A ranker's frozen table per field.
        numeric_knots: As for `Calibrator.fit`.

    Example:
        Two tasks whose scores are too flat for one device and right for the other.

        >>> random = np.random.default_rng(0)
        >>> z, device = random.normal(-1, 1, (2, 20_000)), random.integers(1, 3, 20_000)
        >>> clicks, buys = random.random((2, 20_000)) < 1 / (1 + np.exp(-np.where(device == 1, 2 * z, z)))
        >>> pair = UmcCalibrator(), UmcCalibrator()
        >>> columns = clicks.astype(np.int8), buys.astype(np.int8)
        >>> fit_together(pair, list(z), columns, features=device[:, None].astype(np.int32), scores_are="logit")
        >>> same = [calibrator.weights_["curve.trunk.layers.0.weight"] for calibrator in pair]
        >>> bool((same[0] == same[1]).all())
        True
    """
    for calibrator in calibrators:
        check_can_share(calibrator, len(calibrators), features.shape[1])
    tasks = []
    for calibrator, column, known in zip(calibrators, scores, labels, strict=True):
        places = np.flatnonzero(known >= 0 if weights is None else (known >= 0) & (weights > 0.0))
        mine = slice(None) if places.size == len(known) else places
        rates = sampling_rate[mine] if isinstance(sampling_rate, np.ndarray) else sampling_rate
        columns: dict[str, Any] = {"features": features[mine], "weights": None if weights is None else weights[mine]}
        columns |= {"times": None if times is None else times[mine], "numeric_knots": numeric_knots}
        given = {"scores_are": scores_are, "sampling_rate": rates, "soft_labels": False}
        samples = calibrator._begin_fit(column[mine], known[mine], None, embeddings, columns, given)
        calibrator.fell_back_ = False
        tasks.append(_Task(calibrator, samples, places, calibrator._sizes(samples)))
    shared = _SharedTraining(tasks, features, weights)
    with one_blas_thread():
        run_together([task.calibrator._fit_steps(task.samples, task.sizes) for task in tasks], shared.train)
        for task in tasks:
            task.calibrator._end_fit(task.samples)


@dataclass(frozen=True)
class _Task:
    """A calibrator, its rows, their places among all rows, and how many ids each field has there."""

    calibrator: UmcCalibrator
    samples: Samples
    places: NDArray[np.int64]
    sizes: list[int]


@final
class _SharedTraining:
    """Trains one network for the wishes of several tasks."""

    def __init__(self, tasks: Sequence[_Task], features: Ids, weights: NDArray[np.floating[Any]] | None) -> None:
        self.tasks, self.features, self.weights = tasks, features, weights

    def train(self, wishes: Mapping[int, Wish]) -> Mapping[int, Trained]:
        """Returns every task's map, with the vectors and hidden layers of all."""
        from monocal.calibrators.neural.modules.field_map import ChosenValues
        from monocal.calibrators.neural.umc.shared_map import SharedMap
        from monocal.calibrators.neural.umc.torch_map import UmcMap
        from monocal.training.joint_objective import train_jointly

        first = next(iter(wishes))
        lead, settings = self.tasks[first].calibrator, self.tasks[first].calibrator._settings()
        places = {task: self.tasks[task].places[: wish.older.n_rows] for task, wish in wishes.items()}
        if wishes[first].is_trial:
            end = min(int(found[-1]) + 1 for found in places.values())
            places = {task: found[: np.searchsorted(found, end)] for task, found in places.items()}
        joint = self._joined(wishes, {task: wish.older for task, wish in wishes.items()}, places)
        sizes = field_sizes(joint.features, self.tasks[first].samples.numeric_knots)
        all_rows = Samples(joint.logits[:, 0], None, joint.features, joint.weights)
        encoder = lead._encoder(replace(all_rows, numeric_knots=self.tasks[first].samples.numeric_knots), sizes)
        assert isinstance(encoder, ChosenValues)
        hidden = [wish.hidden for wish in wishes.values() if wish.hidden is not None]
        if hidden:
            encoder.hide_(np.flatnonzero(np.any(hidden, axis=0)).tolist())
        maps: list[UmcMap] = []
        for task, wish in wishes.items():
            entering = wish.start.entering(wish.older.take(slice(0, len(places[task]))))
            width = encoder.width
            built = self.tasks[task].calibrator._build(
                MapInputs(entering, sizes, width, width // len(sizes), settings.warm_start)
            )
            assert isinstance(built, UmcMap)
            maps.append(built)
        network = SharedMap(maps, encoder, identity_start=settings.warm_start, seed=lead.seed)
        held_out = None
        if any(wish.held_out is not None for wish in wishes.values()):
            recent = {task: wish.held_out for task, wish in wishes.items() if wish.held_out is not None}
            ends = {task: self.tasks[task].places[-own.n_rows :] for task, own in recent.items()}
            held_out = self._joined(wishes, recent, ends)
        options = lead._wish_options(wishes[first], settings, all_rows)
        history = train_jointly(network, joint, held_out, options).as_dict()
        vectors: Weights = encoder_arrays(encoder)
        trained: dict[int, Trained] = {}
        for number, (task, wish) in enumerate(wishes.items()):
            weights = {f"curve.{name}": array for name, array in network.weights_of(number).items()}
            weights["affine"] = np.array([wish.start.slope, wish.start.intercept])
            weights[SHARED] = np.array([len(wishes)])
            trained[task] = weights | vectors, dict(history)
        return trained

    def _joined(
        self, wishes: Mapping[int, Wish], rows: Mapping[int, Samples], places: Mapping[int, NDArray[np.int64]]
    ) -> JointRows:
        """Returns the rows that any task has, the tasks' columns side by side."""
        from monocal.training.joint_objective import JointRows

        observed = np.zeros(len(self.features), np.bool_)
        for found in places.values():
            observed[found] = True
        union = np.flatnonzero(observed)
        n, n_tasks = union.size, len(wishes)
        logits, beside, labels = np.zeros((n, n_tasks)), np.zeros((n, n_tasks)), np.full((n, n_tasks), -1, np.int8)
        for column, (task, wish) in enumerate(wishes.items()):
            if task not in rows:
                continue
            mine = rows[task].take(slice(0, len(places[task])))
            at = np.searchsorted(union, places[task])
            logits[at, column] = wish.start.entering(mine).logits
            labels[at, column] = mine.known_labels
            if wish.start.shifts is not None and mine.features is not None:
                offsets = field_offsets(np.asarray(self.tasks[task].sizes))
                beside[at, column] = add_shifts(np.zeros(mine.n_rows), mine.features, wish.start.shifts, offsets)
        weights = None if self.weights is None else np.asarray(self.weights[union], dtype=np.float64)
        features = self.features[:n] if n and union[-1] == n - 1 else self.features[union]
        return JointRows(logits, beside, labels, features, weights)
