"""The top of a task: what to tell others, and the figures they remember."""

from __future__ import annotations

from monocal.findings.numbers import count, percent
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import text

_SIGNS = {"good": "✓", "bad": "✕", "mixed": "≈", "neutral": "≈"}


def overview(task: TaskReport, identifier: str) -> str:
    """The headline card of a task."""
    head = task.headline
    tiles = "".join(
        f'<div class="tile {figure.mood}"><dt>{text(figure.title)}</dt>'
        f'<dd><span class="was"><span class="hidden">before </span>{text(figure.before)}</span>'
        f'<span class="to" aria-hidden="true">→</span>'
        f'<span class="is"><span class="hidden">after </span>{text(figure.after)}</span>'
        f"<small>{text(figure.note)}</small></dd></div>"
        for figure in head.figures
    )
    sentences = "".join(f"<li>{text(sentence)}</li>" for sentence in head.sentences)
    warning = (
        '<p class="warning">The calibrator fell back to the uncalibrated score: on its own recent rows the fit was '
        "worse. Before and after are the same.</p>"
        if task.fell_back
        else ""
    )
    return (
        f'<section class="part top {head.mood}" id="{identifier}" aria-labelledby="{identifier}-t">'
        f'<h2 id="{identifier}-t" class="verdict"><span class="sign" aria-hidden="true">{_SIGNS[head.mood]}</span>'
        f"{text(head.verdict)}</h2>"
        f'<p class="lead">Method <b>{text(task.method)}</b>: {text(task.method_summary)} Measured on '
        f"{text(count(task.weight))} rows with {text(count(task.observed))} positives "
        f"({text(percent(task.observed / task.weight if task.weight else float('nan')))}); "
        f"score <code>{text(task.score)}</code>, label <code>{text(task.label)}</code>.</p>{warning}"
        f'<dl class="tiles">{tiles}</dl><ul class="facts">{sentences}</ul></section>'
    )
