"""Which processes are here now: a store that outlives them may still hold the words of those that ended."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Protocol

from monocal.core.errors import LostMember

_SHORTEST_WAIT, _LONGEST_WAIT = 0.01, 0.5
"""Seconds between two looks: a hundred members that wait must not keep the store busy."""


class Store(Protocol):
    """Texts by name, which all members see."""

    def set(self, key: str, value: str, /) -> None: ...

    def get(self, key: str, /) -> bytes: ...

    def check(self, keys: list[str], /) -> bool: ...


def roll_call(store: Store, rank: int, size: int, said: str, seconds: float) -> tuple[str, list[str]]:
    """Returns a name that was never used before, the same for all members, and what each of them said, by rank.

    The first member calls under a new name, the others answer each with a number of its own, and the first repeats all
    answers. Whoever finds its own number among them has been heard by a member that is here now. A name that an ended
    member left behind repeats other numbers, so it is passed over until the present first member calls. No number of
    attempts is needed, which hosts would have to agree on.

    Arguments:
        store: Where all members read and write; it may be older than they are.
        rank: Which member this process is.
        size: How many there are.
        said: What the others should know of this one.
        seconds: How long to wait for all of them.

    Example:
        >>> class Texts(dict):
        ...     set = dict.__setitem__
        >>> name, everybody = roll_call(Texts(), 0, 1, "10.0.0.1", 1.0)
        >>> everybody
        ['10.0.0.1']
    """
    number, end = uuid.uuid4().hex, time.monotonic() + seconds
    if rank:
        return _answer(store, rank, json.dumps([number, said]), end)
    store.set("call", number)
    answers = [[number, said]]
    for other in range(1, size):
        key = f"{number}/{other}"
        for _ in _looks(end, f"process {other} of {size}"):
            if store.check([key]):
                break
        answers.append(json.loads(store.get(key)))
    store.set(f"{number}/all", json.dumps(answers))
    return number, [words for _, words in answers]


def _answer(store: Store, rank: int, own: str, end: float) -> tuple[str, list[str]]:
    answered = None
    for _ in _looks(end, "the first process"):
        if not store.check(["call"]):
            continue
        call = store.get("call").decode()
        if call != answered:
            store.set(f"{call}/{rank}", own)
            answered = call
        if store.check([f"{call}/all"]):
            answers = json.loads(store.get(f"{call}/all"))
            if answers[rank] == json.loads(own):
                return call, [words for _, words in answers]
    raise AssertionError("looks end with an error")


def _looks(end: float, who: str) -> Iterator[None]:
    """Yields once per look, with growing pauses; raises when the time is up."""
    pause = _SHORTEST_WAIT
    while time.monotonic() < end:
        yield
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_WAIT)
    raise LostMember.of(f"{who} did not come in time")
