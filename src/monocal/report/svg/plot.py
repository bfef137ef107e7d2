"""One drawing: a frame with axes, and marks on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.spaces import Floats
from monocal.report.svg.scale import Scale

Label = Callable[[float], str]


@final
class Plot:
    """Collects marks and writes them as one SVG element.

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
        >>> plot.svg("a rising line")[:68]
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
        x_ticks: int = 5,
        y_ticks: int = 6,
        x_marks: Sequence[tuple[float, str]] | None = None,
    ) -> None:
        """Draws grid lines, tick labels and titles; `x_marks` replaces the round numbers below by other labels."""
        left, right, bottom, top = self.x.start, self.x.stop, self.y.start, self.y.stop
        for tick in self.y.ticks(y_ticks):
            at = _round(self.y.at(tick))
            self._marks.append(f'<path class="grid" d="M{_round(left)} {at}H{_round(right)}"/>')
            self.text(left - 6, self.y.at(tick), y_label(tick), "tick", anchor="end", middle=True)
        for tick, words in x_marks or [(number, x_label(number)) for number in self.x.ticks(x_ticks)]:
            at = _round(self.x.at(tick))
            self._marks.append(f'<path class="grid" d="M{at} {_round(bottom)}V{_round(top)}"/>')
            self.text(self.x.at(tick), bottom + 15, words, "tick", anchor="middle")
        self.text((left + right) / 2, bottom + 32, x_title, "axis", anchor="middle")
        self.text(12, (top + bottom) / 2, y_title, "axis", anchor="middle", turned=True)

    def line(self, xs: ArrayLike, ys: ArrayLike, style: str) -> None:
        """Joins points; a NaN interrupts the line."""
        path = _path(np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64), self.x, self.y)
        if path:
            self._marks.append(f'<path class="{style}" d="{path}"/>')

    def band(self, xs: ArrayLike, lows: ArrayLike, highs: ArrayLike, style: str) -> None:
        """Fills between two lines."""
        x, low, high = (np.asarray(column, dtype=np.float64) for column in (xs, lows, highs))
        known = np.isfinite(x) & np.isfinite(low) & np.isfinite(high)
        if known.sum() < 2:
            return
        upper = _points(self.x(x[known]), self.y(high[known]))
        lower = _points(self.x(x[known])[::-1], self.y(low[known])[::-1])
        self._marks.append(f'<path class="{style}" d="M{upper}L{lower}Z"/>')

    def dots(self, xs: ArrayLike, ys: ArrayLike, style: str, tips: Sequence[str], radius: float = 3.5) -> None:
        """Draws points; each tip is shown when the point is hovered, tapped or reached with the arrow keys."""
        x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
        for place in np.flatnonzero(np.isfinite(x) & np.isfinite(y)).tolist():
            self._marks.append(
                f'<circle class="{style}" cx="{_round(self.x.at(x[place]))}" cy="{_round(self.y.at(y[place]))}" '
                f'r="{radius:g}"{tip(tips[place])}/>'
            )

    def whiskers(self, xs: ArrayLike, lows: ArrayLike, highs: ArrayLike, style: str) -> None:
        """Draws a vertical stroke from low to high at each x."""
        x, low, high = (np.asarray(column, dtype=np.float64) for column in (xs, lows, highs))
        known = np.isfinite(x) & ~np.isnan(low) & ~np.isnan(high)
        path = "".join(
            f"M{_round(a)} {_round(b)}V{_round(c)}"
            for a, b, c in zip(self.x(x[known]), self.y(low[known]), self.y(high[known]), strict=True)
        )
        if path:
            self._marks.append(f'<path class="{style}" d="{path}"/>')

    def steps(self, edges: ArrayLike, heights: ArrayLike, style: str) -> None:
        """Draws a histogram as a filled staircase from the scale's low end."""
        edge, height = np.asarray(edges, dtype=np.float64), np.asarray(heights, dtype=np.float64)
        x, y = np.repeat(self.x(edge), 2)[1:-1], np.repeat(self.y(height), 2)
        base = _round(self.y.at(self.y.low))
        self._marks.append(
            f'<path class="{style}" d="M{_round(x[0])} {base}L{_points(x, y)}L{_round(x[-1])} {base}Z"/>'
        )

    def box(
        self, left: float, top: float, width: float, height: float, style: str, hint: str = "", extra: str = ""
    ) -> None:
        """Draws a rectangle in pixels."""
        self._marks.append(
            f'<rect class="{style}" x="{_round(left)}" y="{_round(top)}" width="{_round(width)}" '
            f'height="{_round(height)}"{extra}{tip(hint) if hint else ""}/>'
        )

    def spot(self, x: float, y: float, radius: float, style: str) -> None:
        """Draws a small disc at a pixel."""
        self._marks.append(f'<circle class="{style}" cx="{_round(x)}" cy="{_round(y)}" r="{radius:g}"/>')

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
        slanted: bool = False,
    ) -> None:
        """Writes words at a pixel, level, turned upwards or slanted."""
        place = f'x="{_round(x)}" y="{_round(y)}"'
        if turned or slanted:
            place = f'transform="translate({_round(x)} {_round(y)}) rotate({-90 if turned else -45})"'
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

    def svg(self, words: str) -> str:
        """Returns the drawing; `words` say what it shows to those who do not see it."""
        return (
            f'<svg class="plot" viewBox="0 0 {self.width} {self.height}" role="img" tabindex="0" '
            f'aria-label="{escape(words)}">{"".join(self._marks)}</svg>'
        )


def tip(words: str) -> str:
    """The attribute that carries a mark's explanation."""
    return f' data-tip="{escape(words)}"'


def _path(xs: Floats, ys: Floats, x: Scale, y: Scale) -> str:
    known = np.isfinite(xs) & np.isfinite(ys)
    pieces: list[str] = []
    for run in _runs(known):
        if run.stop - run.start > 1:
            pieces.append("M" + _points(x(xs[run]), y(ys[run])))
    return "".join(pieces)


def _runs(known: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Iterable[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _points(xs: Floats, ys: Floats) -> str:
    return " ".join(f"{_round(a)} {_round(b)}" for a, b in zip(xs, ys, strict=True))


def _round(pixel: float) -> str:
    return f"{float(pixel):.1f}".removesuffix(".0")
