"""The learned curves and the check that they rise."""

from __future__ import annotations

import numpy as np

from monocal.core.numbers import count, percent, significant
from monocal.findings.learned_curves import LearnedCurve, LearnedCurves
from monocal.findings.monotone_sweep import MonotoneSweep
from monocal.findings.report_data import TaskReport
from monocal.report.page.elements import badge, figure, pair, section, text
from monocal.report.svg.plot import Plot
from monocal.report.svg.scale import Scale, around

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM = 440, 380, 56, 428, 336


def learned_curves(task: TaskReport, identifier: str) -> str:
    """The section of learned curves."""
    found = task.curves
    which = (
        "What the calibrator turns a score into: for a typical row, for the rows it moves most, and for a row of "
        "unseen values."
        if len(found.curves) > 1
        else "What the calibrator turns a score into. It looks at the score alone, so there is one curve."
    )
    lead = (
        f"{which} The dashed diagonal leaves the score as it is; the shaded range holds the middle 90&nbsp;% of the "
        "scores."
    )
    return section(
        identifier,
        "Learned curves",
        lead,
        pair(figure(drawing(found), "Score → probability", legend=False, note=_legend(found)), _sweep(found)),
    )


def drawing(found: LearnedCurves) -> str:
    """Calibrated probability against score, on logarithmic axes where scores are small."""
    log = float(np.median(found.scores)) < 0.2
    seen = np.concatenate([found.scores, *(curve.calibrated for curve in found.curves)])
    low, high = around(np.maximum(seen, 1e-6), logarithmic=log, must_hold=() if log else (0.0,))
    low, high = max(low, 0.0), min(high, 1.0)
    x, y = Scale(low, high, _LEFT, _RIGHT, log), Scale(low, high, _BOTTOM, 12, log)
    plot = Plot(x, y, _WIDTH, _HEIGHT)
    plot.box(x.at(found.middle[0]), 12, x.at(found.middle[1]) - x.at(found.middle[0]), _BOTTOM - 12, "middle")
    plot.axes("score", "calibrated probability", _tick, _tick, x_ticks=5)
    plot.line([low, high], [low, high], "diagonal")
    for place, curve in enumerate(found.curves):
        plot.line(found.scores, curve.calibrated, f"curve c{place}")
        every = range(0, len(found.scores), 10)
        plot.dots(
            found.scores[::10],
            curve.calibrated[::10],
            f"point c{place}",
            [
                f"{_name(curve)}: score {percent(float(found.scores[at]))} → {percent(float(curve.calibrated[at]))}"
                for at in every
            ],
            radius=2.6,
        )
    return plot.svg(
        f"Learned maps from score to probability for {len(found.curves)} kinds of rows; all axes are rates."
    )


def _legend(found: LearnedCurves) -> str:
    items = "".join(
        f'<li><span class="swatch c{place}"></span>{text(_name(curve))} '
        f"<small>({text(significant(curve.shift, 2))} in logit)</small></li>"
        for place, curve in enumerate(found.curves)
    )
    return f'<span class="hidden">Curves:</span><ul class="keylist">{items}</ul>'


def _sweep(found: LearnedCurves) -> str:
    sweep = found.sweep
    if sweep.holds:
        verdict = badge("no decrease found", "good")
    else:
        verdict = badge("decreases found", "bad" if sweep.guarantee != "none" else "neutral")
    ties = f"<li>{text(count(sweep.n_ties))} steps left the probability unchanged (ties).</li>" if sweep.n_ties else ""
    refit = (
        f"<li>After fitting, everything was shifted by {text(significant(found.recent_shift))} in logit to match the "
        "most recent rows.</li>"
        if found.recent_shift
        else ""
    )
    return (
        f'<div class="proof"><h3>Monotonicity</h3><p>{verdict}</p><ul>'
        f"<li>The score was raised step by step through its whole range for {text(count(sweep.n_contexts))} feature "
        f"row{'s' if sweep.n_contexts > 1 else ''}, in places from one floating-point number to the next: "
        f"{text(count(sweep.n_steps))} steps in all.</li>"
        f"<li>{text(_sentence(sweep.fall)) if sweep.fall else 'No step decreased the probability.'}</li>"
        f"{ties}<li>The method guarantees: {_guarantee(sweep)}.</li>{refit}</ul></div>"
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _guarantee(sweep: MonotoneSweep) -> str:
    guarantees = {
        "strict": "strictly rising in the score for fixed features",
        "weak": "never falling in the score for fixed features; ties are allowed",
        "none": "nothing about the order",
    }
    return guarantees.get(sweep.guarantee, sweep.guarantee)


def _name(curve: LearnedCurve) -> str:
    values = ", ".join(f"{field}={value[:24]}" for field, value in curve.values)
    return f"{curve.name}: {values}" if values else curve.name


def _tick(rate: float) -> str:
    return percent(rate, 2)
