"""Where an experiment takes place: a logged period to fit on, and requests after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.samples import Ids
from monocal.core.spaces import Floats


@final
@dataclass(frozen=True)
class LoggedPeriod:
    """Impressions that calibrators are fitted on.

    Attributes:
        features: Field ids.
        times: When each was shown.
        scores: Task to the ranker's scores.
        labels: Task to what happened.
    """

    features: Ids
    times: NDArray[np.int64]
    scores: dict[str, Floats]
    labels: dict[str, NDArray[np.int8]]


class Candidates(Protocol):
    """Some requests: per candidate its features and the ranker's scores, request by request."""

    @property
    def n_candidates(self) -> int: ...

    @property
    def users(self) -> NDArray[np.integer[Any]]: ...

    @property
    def features(self) -> Ids: ...

    @property
    def scores(self) -> dict[str, Floats]: ...


Asked = TypeVar("Asked", bound=Candidates)


class Stage(Protocol[Asked]):
    """A world with a ranker in it."""

    @property
    def logged(self) -> LoggedPeriod: ...

    def requests(self, number: int, n_requests: int) -> Asked:
        """Draws requests; the same number gives the same ones."""

    def react(self, requests: Asked, order: NDArray[np.intp]) -> dict[str, Floats]:
        """Returns what each request brought: clicks, effective views, long views and seconds watched.

        Arguments:
            requests: Who asked, and for what.
            order: Rows shown per request, best first, `(requests, shown)`.
        """
