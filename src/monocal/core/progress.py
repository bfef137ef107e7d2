"""Progress bars for anything that takes more than a few seconds; silent when nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Progress(Protocol):
    """What a long step reports to."""

    def advance(self, amount: int) -> None:
        """Says that `amount` more units are done."""

    def note(self, text: str) -> None:
        """Shows a short remark beside the bar, such as the current loss."""


class _Silent:
    def advance(self, amount: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class _Bar:
    def __init__(self, bars: Any, task: Any) -> None:
        self._bars, self._task = bars, task

    def advance(self, amount: int) -> None:
        self._bars.advance(self._task, amount)

    def note(self, text: str) -> None:
        self._bars.update(self._task, note=text)


@contextmanager
def progress(label: str, total: int | None, unit: str = "rows", show: bool | None = None) -> Iterator[Progress]:
    """Yields a bar with rate and time left on standard error; a silent one when that is not a terminal.

    Arguments:
        label: What is being done, a few words.
        total: How many units there are, or None if unknown.
        unit: What is counted.
        show: True or False to decide; None asks whether standard error is a terminal.

    Example:
        >>> with progress("counting", 3, show=False) as bar:
        ...     bar.advance(3)
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield _Silent()
        return
    with _display() as (bars, is_inner):
        task = bars.add_task(label, total=total, note="", unit=unit)
        try:
            yield _Bar(bars, task)
        finally:
            if is_inner:
                bars.remove_task(task)


_shown: Any = None


@contextmanager
def _display() -> Iterator[tuple[Any, bool]]:
    """Yields the display; a step inside another one adds its line to the display that is there."""
    global _shown
    if _shown is not None:
        yield _shown, True
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        _text_column(lambda task: f"{task.percentage:>3.0f}%" if task.total else ""),
        _text_column(_rate),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}"),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bars:
        _shown = bars
        try:
            yield bars, False
        finally:
            _shown = None


def _rate(task: Any) -> str:
    speed = task.finished_speed or task.speed
    return f"{speed:,.0f} {task.fields['unit']}/s" if speed else ""


def _text_column(text: Callable[[Any], str]) -> Any:
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Words(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(text(task))

    return Words()
