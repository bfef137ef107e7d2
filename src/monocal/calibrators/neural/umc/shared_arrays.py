"""The calibrators of several tasks as one function, where they have one network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monocal.calibrators.base import Calibrator
from monocal.calibrators.neural.arrays.context_table import SHARED, ContextTable, Weights
from monocal.calibrators.neural.arrays.fitted_map import believed_share, curve_weights
from monocal.calibrators.neural.umc.arrays import per_id, sizes_of
from monocal.calibrators.neural.umc.calibrator import UmcCalibrator
from monocal.core.samples import Ids
from monocal.core.spaces import Floats
from monocal.kernels.compiled import numba_is_installed


@final
class SharedScorer:
    """Probabilities of several tasks from one pass through the network that they share.

    The numbers are those of each calibrator's own `row_scorer`, to the last bit.

    Arguments:
        calibrators: Task to fitted calibrator; all have the same vectors and hidden layers.
    """

    def __init__(self, calibrators: Mapping[str, UmcCalibrator]) -> None:
        from monocal.kernels.umc_heads import heads_predictor

        self.tasks = tuple(calibrators)
        self._numbers = {task: number for number, task in enumerate(self.tasks)}
        self._curves = [calibrator.base_curve for calibrator in calibrators.values()]
        self._has_curves = any(curve is not None for curve in self._curves)
        arrays = [calibrator.weights_ for calibrator in calibrators.values()]
        context = ContextTable.of(arrays[0])
        assert context is not None
        sizes = np.max([sizes_of(weights) for weights in arrays], axis=0)
        shifts = [_wide(weights, sizes) for weights in arrays if "wide.shifts" in weights]
        self._predictor = heads_predictor(
            [curve_weights(weights) for weights in arrays],
            field_sizes=sizes.tolist(),
            vectors=per_id(context.vectors(), context.offsets, sizes),
            wide_shifts=np.stack(shifts, axis=1) if shifts else None,
            own=[_own_part(calibrator.weights_, calibrator.recent_shift_) for calibrator in calibrators.values()],
        )

    def __call__(self, logits: Mapping[str, Floats], ids: Ids) -> dict[str, Floats]:
        """Returns the probabilities of the tasks that `logits` has; all of them must be of this scorer."""
        asked = tuple(logits)
        chosen = None if asked == self.tasks else [self._numbers[task] for task in asked]
        return dict(zip(asked, self.score(np.array([*logits.values()]), ids, chosen), strict=True))

    def score(self, columns: Floats, ids: Ids, tasks: Sequence[int] | None = None) -> Floats:
        """Returns the probabilities `(tasks, n)`.

        Arguments:
            columns: Logits `(tasks, n)`, float64, C-contiguous.
            ids: Field ids `(n, F)`, int32, C-contiguous.
            tasks: Which tasks the rows of `columns` belong to; None for all, in order.
        """
        if self._has_curves:
            curves = self._curves if tasks is None else [self._curves[number] for number in tasks]
            columns = np.array([z if curve is None else curve(z) for z, curve in zip(columns, curves, strict=True)])
        found = self._predictor.score(columns, ids, tasks)
        expit(found, found)
        return found


def shared_scorers(calibrators: Mapping[str, Calibrator]) -> list[SharedScorer]:
    """Returns one scorer for every set of tasks that have one network; tasks beside them have their own.

    Arguments:
        calibrators: Task to fitted calibrator.
    """
    groups: list[dict[str, UmcCalibrator]] = []
    for task, calibrator in calibrators.items():
        if (
            not isinstance(calibrator, UmcCalibrator)
            or SHARED not in calibrator.weights_
            or believed_share(calibrator.weights_) == 0.0
        ):
            continue
        for group in groups:
            if _have_one_network(next(iter(group.values())).weights_, calibrator.weights_):
                group[task] = calibrator
                break
        else:
            groups.append({task: calibrator})
    return [SharedScorer(group) for group in groups if len(group) > 1 and _sum_alike(list(group.values()))]


def _have_one_network(weights: Weights, other: Weights) -> bool:
    trunk = "curve.trunk.layers."
    last = max(int(name.split(".")[3]) for name in weights if name.startswith(trunk))
    names = [name for name in weights if name.startswith(trunk) and int(name.split(".")[3]) < last]
    names += ["encoder.table", "encoder.slots", "encoder.offsets"]
    return ("wide.shifts" in weights) == ("wide.shifts" in other) and all(
        name in other and (weights[name] is other[name] or np.array_equal(weights[name], other[name])) for name in names
    )


def _sum_alike(calibrators: Sequence[UmcCalibrator]) -> bool:
    if not numba_is_installed():
        return False
    from monocal.kernels.umc_heads import sums_alike

    arrays = [calibrator.weights_ for calibrator in calibrators]
    states = [curve_weights(weights) for weights in arrays]
    return sums_alike([sizes_of(weights).tolist() for weights in arrays], states, wide="wide.shifts" in arrays[0])


def _wide(weights: Weights, sizes: NDArray[np.int64]) -> NDArray[Any]:
    return per_id(weights["wide.shifts"] / believed_share(weights), weights["wide.offsets"], sizes)


def _own_part(weights: Weights, shift: float) -> dict[str, Any]:
    share = believed_share(weights)
    slope, intercept = (float(number) for number in weights["affine"])
    constant = float(weights["wide.intercept"][0]) / share if "wide.intercept" in weights else 0.0
    return {"line": (slope, intercept), "share": share, "constant": constant, "shift": shift}
