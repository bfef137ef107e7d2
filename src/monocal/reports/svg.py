"""Drawing by hand: scales with round ticks, marks on axes, and a finished drawing for a page, a notebook or a file."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.files import atomic_file, output_file
from monocal.core.scores import Floats

Label = Callable[[float], str]


@final
@dataclass(frozen=True)
class Drawing:
    """A finished drawing: part of a page, a picture in a notebook, or a file.

    Attributes:
        marks: What is drawn, as SVG elements with classes.
        width: Width in pixels.
        height: Height in pixels.
        words: What it shows, for those who do not see it.
        legend: Class and meaning of each line, which a page shows beside the drawing and a file below it.
    """

    marks: str
    width: int
    height: int
    words: str
    legend: Sequence[tuple[str, str]] = ()

    def __html__(self) -> str:
        """The element for a page whose style sheet paints it."""
        return (
            f'<svg class="plot" viewBox="0 0 {self.width} {self.height}" role="img" tabindex="0" '
            f'aria-label="{escape(self.words)}">{self.marks}</svg>'
        )

    @property
    def svg(self) -> str:
        """The drawing as a file of its own, with its colours for light and dark surroundings."""
        style = f"{asset('colours.css')}@media (prefers-color-scheme: dark) {{ :root {{\n{asset('dark.css')}}} }}\n"
        style += f"{asset('plot.css')}:root {{ background: var(--card); font-family: system-ui, sans-serif; }}"
        keys = [
            f'<path class="{mark}" d="M56 {self.height + 16 * place + 6}h24"/>'
            f'<text class="tick" x="88" y="{self.height + 16 * place + 10}">{escape(meaning)}</text>'
            for place, (mark, meaning) in enumerate(self.legend)
        ]
        width, height = self.width + 20, self.height + 16 * len(keys) + 4
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}"><title>{escape(self.words)}</title>'
            f"<style>{style}</style>{self.marks}{''.join(keys)}</svg>"
        )

    def save(self, path: str | Path) -> Path:
        """Writes the drawing as one SVG file, atomically."""
        target = output_file(path, "drawing")
        with atomic_file(target) as temporary:
            temporary.write_text(self.svg, encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        # as a picture, because styles of an element in a notebook's page would reach the whole page
        picture = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="{escape(self.words)}" width="{self.width + 20}" src="data:image/svg+xml;base64,{picture}">'


@cache
def asset(name: str) -> str:
    """Returns a style sheet or script of the page."""
    return resources.files("monocal.reports").joinpath("assets", name).read_text(encoding="utf-8")


@final
@dataclass(frozen=True)
class Scale:
    """A straight or logarithmic map of `[low, high]` onto pixels.

    Numbers beyond the ends are drawn at the ends.

    Example:
        >>> Scale(0.001, 0.1, 0, 200, logarithmic=True)([0.001, 0.01, 0.1]).tolist()
        [0.0, 100.0, 200.0]
    """

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def __call__(self, numbers: ArrayLike) -> Floats:
        values = np.clip(np.asarray(numbers, dtype=np.float64), self.low, self.high)
        low, high = self.low, self.high
        if self.logarithmic:
            values, low, high = np.log(values), math.log(low), math.log(high)
        share = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
        pixels: Floats = self.start + share * (self.stop - self.start)
        return pixels

    def at(self, number: float) -> float:
        return float(self(number))

    def ticks(self, at_most: int = 6) -> list[float]:
        """Returns round numbers inside the range.

        Example:
            >>> Scale(0.0, 0.23, 0, 1).ticks()
            [0.0, 0.05, 0.1, 0.15, 0.2]
            >>> Scale(0.003, 0.4, 0, 1, logarithmic=True).ticks()
            [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
            >>> Scale(0.8, 2.6, 0, 1, logarithmic=True).ticks()
            [1.0, 1.5, 2.0, 2.5]
        """
        if self.high <= self.low:
            return [self.low]
        if self.logarithmic and self.high / self.low >= 5.0:
            return _log_ticks(self.low, self.high, at_most)
        return _linear_ticks(self.low, self.high, at_most)


def around(
    numbers: Sequence[float] | Floats,
    *,
    logarithmic: bool = False,
    must_hold: Sequence[float] = (),
) -> tuple[float, float]:
    """Returns a range that holds all finite (for a logarithmic axis, positive) numbers with some air.

    Example:
        >>> around([1.0, 2.0, float("nan")], must_hold=[0.0])
        (-0.1, 2.1)
    """
    values = np.concatenate([np.asarray(numbers, dtype=np.float64).ravel(), np.asarray(must_hold, dtype=np.float64)])
    values = values[np.isfinite(values)]
    if logarithmic:
        values = values[values > 0.0]
    if not values.size:
        return (0.1, 1.0) if logarithmic else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if logarithmic:
        air = max((high / low) ** 0.05, 1.02)
        return low / air, high * air
    air = 0.05 * ((high - low) or abs(high) or 1.0)
    return low - air, high + air


@final
class Plot:
    """Collects the marks of one drawing: a frame with axes, and what is drawn in it.

    The width is that of a phone, so that text stays readable there; wider screens put plots side by side. Marks carry
    classes, never colours: the style sheet paints them, for light, for dark and for print.

    Arguments:
        x: Horizontal scale, in pixels of the drawing.
        y: Vertical scale; it usually runs upwards, from a larger pixel to a smaller one.
        width: Width of the drawing.
        height: Height of the drawing.

    Example:
        >>> plot = Plot(Scale(0, 1, 40, 200), Scale(0, 1, 90, 10), 220, 120)
        >>> plot.line([0, 1], [0, 1], "diagonal")
        >>> plot.drawing("a rising line").__html__()[:68]
        '<svg class="plot" viewBox="0 0 220 120" role="img" tabindex="0" aria'
    """

    def __init__(self, x: Scale, y: Scale, width: int, height: int) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height
        self._marks: list[str] = []

    def axes(
        self,
        x_title: str,
        y_title: str,
        x_label: Label,
        y_label: Label,
        *,
        x_marks: Sequence[tuple[float, str]] | None = None,
    ) -> None:
        """Draws grid lines, tick labels and titles; `x_marks` replaces the round numbers below by other labels."""
        left, right, bottom, top = self.x.start, self.x.stop, self.y.start, self.y.stop
        for tick in self.y.ticks():
            at = self.y.at(tick)
            self._path("grid", f"M{_round(left)} {_round(at)}H{_round(right)}")
            self.text(left - 6, at, y_label(tick), "tick", anchor="end", middle=True)
        for tick, words in x_marks or [(number, x_label(number)) for number in self.x.ticks(at_most=5)]:
            at = self.x.at(tick)
            self._path("grid", f"M{_round(at)} {_round(bottom)}V{_round(top)}")
            self.text(at, bottom + 15, words, "tick", anchor="middle")
        self.text((left + right) / 2, bottom + 32, x_title, "axis", anchor="middle")
        self.text(12, (top + bottom) / 2, y_title, "axis", anchor="middle", turned=True)

    def line(self, xs: ArrayLike, ys: ArrayLike, style: str) -> None:
        """Joins points; a NaN interrupts the line."""
        x, y = _columns(xs, ys)
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        runs = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
        self._path(style, "".join(f"M{self._points(x[run], y[run])}" for run in runs if len(run) > 1))

    def band(self, xs: ArrayLike, lows: ArrayLike, highs: ArrayLike, style: str) -> None:
        """Fills between two lines."""
        x, low, high = _columns(xs, lows, highs)
        known = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
        if known.sum() > 1:
            x, low, high = x[known], low[known], high[known]
            self._path(style, f"M{self._points(x, high)}L{self._points(x[::-1], low[::-1])}Z")

    def dots(self, xs: ArrayLike, ys: ArrayLike, style: str, tips: Sequence[str], radius: float = 3.5) -> None:
        """Draws points; each tip is shown when the point is hovered, tapped or reached with the arrow keys."""
        x, y = _columns(xs, ys)
        for place in np.flatnonzero(np.isfinite(x) & np.isfinite(y)).tolist():
            self._marks.append(
                f'<circle class="{style}" cx="{_round(self.x.at(x[place]))}" cy="{_round(self.y.at(y[place]))}" '
                f'r="{radius:g}" data-tip="{escape(tips[place])}"/>'
            )

    def whiskers(self, xs: ArrayLike, lows: ArrayLike, highs: ArrayLike, style: str) -> None:
        """Draws a vertical stroke from low to high at each x."""
        x, low, high = _columns(xs, lows, highs)
        known = np.isfinite(x) & ~np.isnan(low) & ~np.isnan(high)
        ends = zip(self.x(x[known]), self.y(low[known]), self.y(high[known]), strict=True)
        self._path(style, "".join(f"M{_round(at)} {_round(end)}V{_round(other)}" for at, end, other in ends))

    def steps(self, edges: Floats, heights: Floats, style: str) -> None:
        """Draws a histogram as a filled staircase from the scale's low end."""
        xs, ys = np.repeat(edges, 2)[1:-1], np.repeat(heights, 2)
        base = np.full(1, self.y.low)
        closed = np.concatenate([base, ys, base])
        self._path(style, f"M{self._points(np.concatenate([xs[:1], xs, xs[-1:]]), closed)}Z")

    def column(self, low: float, high: float, style: str) -> None:
        """Shades a range of x over the whole height."""
        left, right, top, bottom = (_round(at) for at in (self.x.at(low), self.x.at(high), self.y.stop, self.y.start))
        self._path(style, f"M{left} {top}H{right}V{bottom}H{left}Z")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        style: str,
        *,
        anchor: str = "start",
        middle: bool = False,
        turned: bool = False,
    ) -> None:
        """Writes words at a pixel, level or turned upwards."""
        place = f'x="{_round(x)}" y="{_round(y)}"'
        if turned:
            place = f'transform="translate({_round(x)} {_round(y)}) rotate(-90)"'
        shift = ' dy=".32em"' if middle else ""
        self._marks.append(f'<text class="{style}" {place} text-anchor="{anchor}"{shift}>{escape(words)}</text>')

    @contextmanager
    def group(self, style: str) -> Iterator[None]:
        """Puts the marks that are made inside into a group, so that one button can show and hide all of them."""
        self._marks.append(f'<g class="{style}">')
        yield
        self._marks.append("</g>")

    def include(self, other: Plot) -> None:
        """Takes over the marks of another plot that shares this one's drawing."""
        self._marks += other._marks

    def drawing(self, words: str, legend: Sequence[tuple[str, str]] = ()) -> Drawing:
        """Returns the drawing; `words` say what it shows to those who do not see it."""
        return Drawing("".join(self._marks), self.width, self.height, words, legend)

    def _path(self, style: str, steps: str) -> None:
        if steps:
            self._marks.append(f'<path class="{style}" d="{steps}"/>')

    def _points(self, xs: Floats, ys: Floats) -> str:
        return " ".join(f"{_round(x)} {_round(y)}" for x, y in zip(self.x(xs), self.y(ys), strict=True))


def _log_ticks(low: float, high: float, at_most: int) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        inside = [float(f"{tick:.6g}") for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if found and len(inside) > at_most:
            break
        found = inside
    if len(found) > at_most:
        found = found[:: math.ceil(len(found) / at_most)]
    return found


def _linear_ticks(low: float, high: float, at_most: int) -> list[float]:
    rough = (high - low) / at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{place * step:.10g}") + 0.0 for place in range(first, last + 1)]


def _columns(*columns: ArrayLike) -> list[Floats]:
    return [np.asarray(column, dtype=np.float64) for column in columns]


def _round(pixel: float) -> str:
    return f"{float(pixel):.1f}".removesuffix(".0")
