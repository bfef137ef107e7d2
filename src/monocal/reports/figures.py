"""Plots for notebooks: the drawings of a report that one wants beside one's own code, in matplotlib.

matplotlib is loaded when something is drawn, never before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.dataset import Dataset
from monocal.core.errors import InvalidInput, need
from monocal.core.numbers import percent
from monocal.core.scores import Floats
from monocal.metrics.forecast import Forecast
from monocal.reports.curves import learned_curves
from monocal.reports.plots import curve_name
from monocal.reports.reliability import (
    ReliabilityCurve,
    asks_for_logarithms,
    bins_for,
    reliability_curve,
)

if TYPE_CHECKING:
    from monocal.evaluation.compare import MethodComparison
    from monocal.evaluation.paired import Comparison
    from monocal.evaluation.result import Evaluation
    from monocal.models.model import Model

_QUIET = "0.5"
"""A grey that is seen on white and on black."""
_IDEAL = "observed as predicted"


@final
@dataclass(eq=False, repr=False)
class CalibrationDisplay:
    """Observed rate against prediction, and the band in which a perfect forecaster would lie by chance.

    Rows are sorted by prediction and cut into bins of equal mass. A bin outside the band (a filled dot) says something
    about the forecast; one inside it (an open dot) is what noise alone looks like on so few rows. Made by
    `from_predictions`, as scikit-learn's display of the same name, which has no band.

    Attributes:
        curve: The bins with their intervals.
        name: What the legend calls it.
        logarithmic: Whether axes are logarithmic.
        confidence: How often a perfect forecaster's bin lies in the band.
        ax_: The axes it was drawn on; `figure_`, `line_` and `band_` are there, too.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.uniform(0.02, 0.3, 20_000)
        >>> labels = rng.random(20_000) < truth
        >>> display = CalibrationDisplay.from_predictions(labels, truth, name="right")
        >>> wrong = CalibrationDisplay.from_predictions(labels, 1.3 * truth, name="too high", ax=display.ax_)
        >>> display.curve.n_outside <= 2, wrong.curve.n_outside > 10
        (True, True)
    """

    curve: ReliabilityCurve
    name: str | None = None
    logarithmic: bool = False
    confidence: float = 0.95

    @property
    def prob_true(self) -> Floats:
        """The observed rate of each bin."""
        return self.curve.observed

    @property
    def prob_pred(self) -> Floats:
        """The mean prediction of each bin."""
        return self.curve.predicted

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        n_bins: int | None = None,
        confidence: float = 0.95,
        pos_label: Any = None,
        **drawn: Any,
    ) -> Self:
        """Draws labels against predicted probabilities.

        Arguments:
            y_true: Two labels.
            y_prob: The probability of the positive one.
            sample_weight: How often each row counts.
            n_bins: At most so many bins; None gives each about 25 positives, and at most 20 bins.
            confidence: How often a perfect forecaster's bin lies in the band.
            pos_label: The positive label; None means 1 (or True).
            drawn: As for `plot`: `name`, `ax` and others.
        """
        labels: Any = y_true if pos_label is None else np.asarray(y_true) == pos_label
        forecast = Forecast.of(labels, y_prob, weights=sample_weight)
        if not forecast.n_rows:
            raise InvalidInput.of("y_prob", "no rows", "at least one row", "check the filter that produced the table")
        return cls.of(forecast, confidence, n_bins).plot(**drawn)

    @classmethod
    def of(cls, forecast: Forecast, confidence: float = 0.95, n_bins: int | None = None) -> Self:
        """Returns the display of checked rows, not drawn yet; where they have groups, the band is as wide as those ask.

        Arguments:
            forecast: The rows.
            confidence: As for `from_predictions`.
            n_bins: Likewise.
        """
        rate = forecast.n_positive / forecast.total_weight
        curve = reliability_curve(forecast, n_bins or bins_for(rate * forecast.n_observed_rows), confidence=confidence)
        return cls(curve, logarithmic=asks_for_logarithms(rate), confidence=confidence)

    def plot(self, *, ax: Any = None, name: str | None = None, ref_line: bool = True, **kwargs: Any) -> Self:
        """Draws it.

        Arguments:
            ax: Axes to draw on, where another forecast may be drawn already; None makes a new figure.
            name: What the legend calls it.
            ref_line: Whether to draw the diagonal, on which a right forecast lies.
            kwargs: Passed to matplotlib's `plot`, such as `color`.
        """
        self.ax_ = ax = _axes(ax, 4.8, 4.8, logarithmic=self.logarithmic)
        self.figure_, self.name = ax.figure, name or self.name
        x, y, (low, high) = self.curve.predicted, self.curve.observed, self.curve.noise_band
        if self.logarithmic:
            least = 0.5 * float(x[x > 0.0].min(initial=1.0))
            x, y, low = (np.maximum(column, least) for column in (x, y, low))
        legend = ax.get_legend_handles_labels()[1]
        words = f"a perfect forecaster, {percent(self.confidence)}"
        # opaque, so that the bands of two forecasts, which nearly coincide, do not look like a third thing
        style = {"color": _between(ax.get_facecolor(), ax.xaxis.label.get_color()), "linewidth": 0, "zorder": 0.5}
        self.band_ = ax.fill_between(x, low, high, label=None if words in legend else words, **style)
        style = {"marker": "o", "markersize": 5.0, "markerfacecolor": ax.get_facecolor(), "label": self.name}
        (self.line_,) = ax.plot(x, y, **(style | kwargs))
        style = {"marker": self.line_.get_marker(), "markersize": self.line_.get_markersize(), "linestyle": "none"}
        beyond = self.curve.is_outside
        ax.plot(x[beyond], y[beyond], color=self.line_.get_color(), **style)
        bounds = ax.dataLim.get_points()
        start, stop = max(float(bounds.min()), 0.0), min(float(bounds.max()), 1.0)
        if ref_line and _IDEAL not in legend:
            ax.axline((start, start), (stop, stop), color=_QUIET, linewidth=1, linestyle=":", label=_IDEAL)
        edge = (start * 0.85, min(stop * 1.18, 1.0)) if self.logarithmic else (-0.02 * stop, 1.05 * stop)
        ax.set(xlabel="predicted probability", ylabel="observed rate", xlim=edge, ylim=edge)
        ax.legend(loc="upper left", frameon=False)
        return self


def draw_evaluation(found: Evaluation, ax: Any = None) -> Any:
    """Draws the reliability of a forecast, and of the score before calibration if there is one; returns the axes.

    Arguments:
        found: An evaluation of rows.
        ax: Axes to draw on; None makes a new figure.
    """
    for stage, evaluation in found.stages.items():
        words = {"before": "before calibration", "after": "after calibration"}[stage] if found.before else None
        ax = CalibrationDisplay.of(evaluation.rows, evaluation.confidence).plot(name=words, ax=ax).ax_
    return ax


def draw_changes(found: Comparison, ax: Any = None) -> Any:
    """Draws what changed from the first forecast to the second, metric by metric with intervals; returns the axes.

    Differences are shares of the first value (for PCOC, of its distance from 1: points), signed so that right is
    better. Open dots are ties.

    Arguments:
        found: A comparison of two evaluations.
        ax: Axes to draw on; None makes a new figure.
    """
    rows = []
    for name in found.as_dict():
        scale = found.size(name) / found.difference(name) if found.difference(name) else 0.0
        sign = 100.0 * scale * (1.0 if found.first.metrics[name].goal.kind == "maximize" else -1.0)
        ends = [sign * end for end in found.interval(name)]
        rows.append((name, sign * found.difference(name), min(ends), max(ends), found.verdict(name)))
    ax = _intervals(rows, ax)
    ax.set_xlabel("better by, % of the first (PCOC: points)")
    return ax


def draw_methods(found: MethodComparison, ax: Any = None) -> Any:
    """Draws how far each method is behind the best, with paired intervals; returns the axes.

    Open dots are those that the data cannot tell from the best. What lies far outside, such as the score as it is, is
    written at the edge.

    Arguments:
        found: A comparison of methods.
        ax: Axes to draw on; None makes a new figure.
    """
    rows = [(found.best.method, 0.0, 0.0, 0.0, "best")]
    for result in found.results:
        change = result.against_best
        if change is not None and np.isfinite(change.difference(found.metric)):
            value, ends = change.difference(found.metric), change.interval(found.metric)
            rows.append((result.method, value, *ends, change.verdict(found.metric)))
    ax = _intervals(rows, ax)
    reach = np.sort([row[3] for row in rows])
    edge = 1.1 * float(reach[-1] if len(reach) < 3 or reach[-1] < 4.0 * reach[-2] else reach[-2])
    low, high = min(-0.05 * edge, *(1.1 * row[2] for row in rows)), edge
    for place, (_, value, *_rest) in enumerate(rows):
        if value > high:
            ax.text(0.99, place, f"{value:+.2g} →", transform=ax.get_yaxis_transform(), ha="right", va="center")
    ax.set(xlim=(low, high), xlabel=f"{found.metric.replace('_', '-')} behind {found.best.method}")
    return ax


def draw_model(model: Model, task: str | None = None, ax: Any = None) -> Any:
    """Draws the learned map from score to probability for typical and extreme rows of the fit; returns the axes.

    Arguments:
        model: A fitted model; it keeps some rows of its fit, which set the range.
        task: Which task; needed where there are several.
        ax: Axes to draw on; None makes a new figure.
    """
    chosen = model.task(task)
    place = model.task_names.index(chosen.name)
    if not model.canary:
        raise InvalidInput.of("model", "one that keeps no rows of its fit", "a fitted or loaded model", "fit it anew")
    ids, scores = model.canary["ids"], {chosen.name: model.canary[f"score{place}"]}
    rates = model.canary.get("sampling_rate", model.sampling_rate)
    data = Dataset.of(scores[chosen.name], scores_are=model.scores_are, sampling_rate=rates)
    found = learned_curves(chosen.calibrator, model.vocabulary, data.z, np.unique(ids, axis=0))
    ax = _axes(ax, 5.6, 4.4, logarithmic=asks_for_logarithms(float(np.median(found.scores))))
    for curve in found.curves:
        ax.plot(found.scores, curve.calibrated, label=curve_name(curve))
    ends = float(found.scores[0]), float(found.scores[-1])
    ax.plot(ends, ends, color=_QUIET, linewidth=1, linestyle=":", label="the score as it is")
    ax.set(xlabel=chosen.score, ylabel="calibrated probability")
    ax.legend(frameon=False)
    return ax


def _axes(ax: Any, width: float, height: float, *, logarithmic: bool | None = None) -> Any:
    """Returns the axes given or new ones; where they are of probabilities, with ticks in percent."""
    need("matplotlib", "a plot", "plot")
    from matplotlib import pyplot, ticker

    if ax is None:
        ax = pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if logarithmic:
        ax.set(xscale="log", yscale="log")
    for axis in () if logarithmic is None else (ax.xaxis, ax.yaxis):
        if logarithmic:
            axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_minor_formatter(ticker.NullFormatter())
        axis.set_major_formatter(ticker.FuncFormatter(lambda share, _: percent(share, 2)))
    return ax


def _between(background: Any, text: Any) -> Any:
    """A colour near that of the background, light or dark."""
    from matplotlib.colors import to_rgb

    return 0.85 * np.array(to_rgb(background)) + 0.15 * np.array(to_rgb(text))


def _intervals(rows: Sequence[tuple[str, float, float, float, str]], ax: Any) -> Any:
    """Draws one line per row, first on top: name, value, both ends and the verdict on it."""
    ax = _axes(ax, 6.0, 0.9 + 0.32 * len(rows))
    ax.axvline(0.0, color=_QUIET, linewidth=1, linestyle=":")
    for place, (_, value, low, high, verdict) in enumerate(rows):
        color = {"better": "C0", "best": "C0", "worse": "C3"}.get(verdict, _QUIET)
        face = color if color != _QUIET else ax.get_facecolor()
        ax.plot([low, high], [place, place], color=color, linewidth=2)
        ax.plot([value], [place], marker="o", color=color, markerfacecolor=face)
    ax.set_yticks(range(len(rows)), [row[0] for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    return ax
