"""A neural fit as a sequence of wishes for a trained map, so that several fits can have one network trained for all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.calibrators.neural.arrays.context_table import Weights
from monocal.calibrators.neural.fitting.warm_start import Start
from monocal.core.samples import Samples

Trained = tuple[Weights, dict[str, Any]]
"""A map's arrays, and how its training went."""


@final
@dataclass(frozen=True)
class Wish:
    """What a map is to be trained on.

    Attributes:
        older: The rows to train on.
        held_out: Rows that choose when to stop.
        start: Slope, intercept and shifts that stay while the map is trained.
        hidden: Fields whose values all count as unseen in the map's context; None for none.
        is_trial: Whether the map is only trained to be judged on later rows.
        following: Returns what the fit will ask for next unless the judgement says otherwise, the same object every
            time; None if that is not known yet.
    """

    older: Samples
    held_out: Samples | None
    start: Start
    hidden: NDArray[np.bool_] | None = None
    is_trial: bool = False
    following: Callable[[], Wish] | None = None


Result = TypeVar("Result")
Steps = Generator[Wish, Trained, Result]
"""A fit that asks for trained maps and goes on with them."""


def run_alone(steps: Steps[Result], train: Callable[[Wish], Trained], *, n_threads: int = 1) -> Result:
    """Fulfils one fit's wishes, one after the other.

    With a second thread a trial is trained while the training that will follow it goes ahead in this one. If the trial
    says that it is not wanted, it was in vain. Trainings do not know of each other, so the result is the same.

    Arguments:
        steps: The fit.
        train: Trains a map.
        n_threads: How many trainings may go on at once; more than two are never asked for.

    Example:
        >>> def fit() -> Steps[str]:
        ...     weights, history = yield Wish(Samples(np.zeros(1)), None, Start())
        ...     return f"slope {weights['slope'][0]}"
        >>> run_alone(fit(), lambda wish: ({"slope": np.array([2.0])}, {}))
        'slope 2.0'
    """
    ahead: list[tuple[Wish, Trained]] = []

    def fulfil(wishes: Mapping[int, Wish]) -> Mapping[int, Trained]:
        wish = wishes[0]
        if ahead and ahead[0][0] is wish:
            return {0: ahead.pop()[1]}
        if n_threads < 2 or wish.following is None:
            return {0: train(wish)}
        trial = _Beside(lambda: train(wish))
        following = wish.following()
        ahead.append((following, train(following)))
        return {0: trial.result()}

    return run_together([steps], fulfil)[0]


class _Beside:
    """A job in a thread of its own, which an interrupted program does not wait for."""

    def __init__(self, job: Callable[[], Trained]) -> None:
        self._found: list[Trained] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, args=(job,), name="monocal-trial", daemon=True)
        self._thread.start()

    def _run(self, job: Callable[[], Trained]) -> None:
        try:
            self._found.append(job())
        except BaseException as error:  # told to the thread that asks
            self._error = error

    def result(self) -> Trained:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found[0]


def run_together(
    fits: Sequence[Steps[Result]], train: Callable[[Mapping[int, Wish]], Mapping[int, Trained]]
) -> list[Result]:
    """Fulfils the wishes of several fits, those of the same kind at once: trials first, then the last trainings.

    Arguments:
        fits: The fits.
        train: Trains one network for the wishes of some fits, by their number.
    """
    results: dict[int, Result] = {}
    wishes: dict[int, Wish] = {}

    def advance(number: int, trained: Trained | None) -> None:
        try:
            wishes[number] = next(fits[number]) if trained is None else fits[number].send(trained)
        except StopIteration as end:
            results[number] = end.value

    for number in range(len(fits)):
        advance(number, None)
    while wishes:
        chosen = [number for number, wish in wishes.items() if wish.is_trial] or list(wishes)
        # nothing here holds a wish while its fit goes on, because its rows may be copies
        for number, trained in train({number: wishes.pop(number) for number in chosen}).items():
            advance(number, trained)
    return [results[number] for number in range(len(fits))]
