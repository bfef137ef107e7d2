"""How training went."""

from __future__ import annotations

import numpy as np

from monocal.evaluation.html_report.numbers import significant
from monocal.evaluation.html_report.page.elements import figure, pair, section
from monocal.evaluation.html_report.report_data import TaskReport
from monocal.evaluation.html_report.sections.history import TrainingHistory
from monocal.evaluation.html_report.svg.plot import Plot
from monocal.evaluation.html_report.svg.scale import Scale, around

_WIDTH, _HEIGHT = 440, 260


def history(task: TaskReport, identifier: str) -> str:
    """The section of training; nothing when the calibrator was not trained in epochs."""
    found = task.history
    if found is None:
        return ""
    drawings = [figure(series(found, name), name.replace("_", " "), legend=False) for name in found.series]
    lead = f"{found.n_epochs} epoch{'s' if found.n_epochs > 1 else ''}."
    return section(identifier, "Training", lead, pair(*drawings))


def series(found: TrainingHistory, name: str) -> str:
    """One number per epoch."""
    numbers = found.series[name]
    epochs = np.arange(1, numbers.size + 1)
    low, high = around(numbers)
    x = Scale(0.5 if numbers.size == 1 else 1.0, max(float(numbers.size), 1.5), 72, 428)
    plot = Plot(x, Scale(low, high, 212, 12), _WIDTH, _HEIGHT)
    plot.axes("epoch", "", lambda one: f"{one:g}" if float(one).is_integer() else "", lambda one: significant(one, 5))
    plot.line(epochs, numbers, "line after")
    plot.dots(
        epochs,
        numbers,
        "dot after",
        [f"epoch {epoch}: {significant(float(one), 6)}" for epoch, one in zip(epochs, numbers, strict=True)],
        radius=2.8,
    )
    return plot.svg(
        f"{name} per epoch, from {significant(float(numbers[0]), 5)} to {significant(float(numbers[-1]), 5)}."
    )
