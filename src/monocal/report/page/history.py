"""How training went."""

from __future__ import annotations

import numpy as np

from monocal.core.numbers import count, significant
from monocal.core.spaces import Floats
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import figure, pair, section, text
from monocal.report.svg.plot import Plot
from monocal.report.svg.scale import Scale, around

_WIDTH, _HEIGHT, _BOTTOM = 440, 260, 212


def history(task: TaskReport, identifier: str) -> str:
    """The section of training; nothing when the calibrator was not trained step by step."""
    found = task.history
    if found is None:
        return ""
    lead = f"{text(count(found.n_steps))} steps in {text(count(found.n_epochs))} epochs. "
    if found.held_out_losses.size:
        lead += (
            f"After every check the newest rows, which training never saw, were judged; the weights of check "
            f"{found.best_check} are the result."
        )
        if found.best_check == 0:
            lead += " That is the start: no step made the forecast better on the newest rows."
    drawings = [
        figure(losses(numbers, found.best_check if held_out else -1, name), name, legend=False)
        for name, numbers, held_out in (
            ("Log-loss on held-out rows", found.held_out_losses, True),
            ("Training loss", found.train_losses, False),
        )
        if np.isfinite(numbers).any()
    ]
    return section(identifier, "Training", lead, pair(*drawings))


def losses(numbers: Floats, best_check: int, name: str) -> str:
    """One loss per check, the chosen one marked."""
    checks = np.arange(numbers.size)
    low, high = around(numbers, margin=0.1)
    plot = Plot(Scale(0.0, max(float(numbers.size - 1), 1.0), 72, 428), Scale(low, high, _BOTTOM, 12), _WIDTH, _HEIGHT)
    plot.axes("check", "", lambda tick: f"{tick:g}" if tick.is_integer() else "", lambda tick: significant(tick, 5))
    plot.line(checks, numbers, "line after")
    plot.dots(
        checks,
        numbers,
        "dot after",
        [f"check {check}: {significant(float(loss), 6)}" for check, loss in zip(checks, numbers, strict=True)],
    )
    if 0 <= best_check < numbers.size:
        best = float(numbers[best_check])
        plot.dots([best_check], [best], "dot before", [f"best, check {best_check}: {significant(best, 6)}"], radius=5.5)
    known = numbers[np.isfinite(numbers)]
    return plot.svg(f"{name} per check, from {significant(float(known[0]), 5)} to {significant(float(known[-1]), 5)}.")
