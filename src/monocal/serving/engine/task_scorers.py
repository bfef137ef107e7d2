"""The calibrators of a model as one function: tasks that have one network pass it once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from monocal.calibrators import Calibrator
from monocal.calibrators.neural.umc.shared_arrays import shared_scorers
from monocal.core.samples import Ids
from monocal.core.spaces import Floats


@final
class TaskScorers:
    """Scores the tasks of a request.

    Arguments:
        calibrators: Task to fitted calibrator.
    """

    def __init__(self, calibrators: Mapping[str, Calibrator]) -> None:
        self._shared = shared_scorers(calibrators)
        together = {task for scorer in self._shared for task in scorer.tasks}
        self._alone = {
            task: calibrator.row_scorer() for task, calibrator in calibrators.items() if task not in together
        }

    def __call__(self, logits: dict[str, Floats], ids: Ids, columns: Floats | None = None) -> dict[str, Floats]:
        """Returns the probabilities of the tasks that `logits` has.

        Arguments:
            logits: By task.
            ids: Field ids.
            columns: The same logits as one array `(tasks, rows)`, if there is one.
        """
        if not self._shared:
            return {task: self._alone[task](z, ids) for task, z in logits.items()}
        asked = (*logits,)
        if columns is not None and self._shared[0].tasks == asked:
            return dict(zip(asked, self._shared[0].score(columns, ids), strict=True))
        found: dict[str, Floats] = {}
        for scorer in self._shared:
            mine = logits if scorer.tasks == asked else {task: z for task, z in logits.items() if task in scorer.tasks}
            if mine:
                found |= scorer(mine, ids)
        for task, z in logits.items():
            if task not in found:
                found[task] = self._alone[task](z, ids)
        return found
