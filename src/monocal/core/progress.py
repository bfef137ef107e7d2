"""Progress bars for anything that takes more than a few seconds; silent when nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

_display: Any = None
"""The display that is shown; a step inside another one adds its line there."""


@final
class Progress:
    """What a long step reports to.

    Arguments:
        bars: The display; None for a silent bar.
        task: The number of its line there.
    """

    def __init__(self, bars: Any = None, task: Any = None) -> None:
        self._bars, self._task = bars, task

    def advance(self, amount: int) -> None:
        """Says that `amount` more units are done."""
        if self._bars is not None:
            self._bars.advance(self._task, amount)

    def note(self, text: str) -> None:
        """Shows a short remark beside the bar, such as the current loss."""
        if self._bars is not None:
            self._bars.update(self._task, note=text)


@contextmanager
def progress(label: str, total: int | None, unit: str = "rows", show: bool | None = None) -> Iterator[Progress]:
    """Yields a bar with the time left on standard error; a silent one when that is not a terminal.

    Arguments:
        label: What is being done, a few words.
        total: How many units there are, or None if unknown.
        unit: What is counted.
        show: True or False to decide; None asks whether standard error is a terminal.

    Example:
        >>> with progress("counting", 3, show=False) as bar:
        ...     bar.advance(3)
    """
    global _display
    if show is False or (show is None and not sys.stderr.isatty()):
        yield Progress()
        return
    if _display is not None:
        task = _display.add_task(label, total=total, note="", unit=unit)
        try:
            yield Progress(_display, task)
        finally:
            _display.remove_task(task)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} {task.fields[unit]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}"),
    )
    with Display(*columns, console=Console(stderr=True), transient=True) as _display:
        try:
            yield Progress(_display, _display.add_task(label, total=total, note="", unit=unit))
        finally:
            _display = None
