"""Drawings: what is drawn is what was measured, and a drawing stands alone in a notebook or a file."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import monocal
from monocal.reports import build_report, plots

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def task():
    log = monocal.simulate_log(8_000, seed=2).table()
    log = log.append_column("price", [np.random.default_rng(0).lognormal(size=8_000)])
    columns = {"fields": ["device"], "numeric": ["price"]}
    model = monocal.fit(log.slice(0, 4_000), method="wide_logistic", score="pctr", label="click", **columns)
    return build_report(model, log.slice(4_000), time="timestamp", n_bootstrap=2, n_floor=2).task()


@pytest.fixture(scope="module")
def drawings(task):
    return {
        "reliability": plots.reliability_plot(task.reliability),
        "ratio": plots.ratio_plot(task.reliability),
        "drift": plots.drift_plot(task.drift),
        "rates": plots.rates_plot(task.drift),
        "curves": plots.curves_plot(task.curves),
        "effect": plots.effect_plot(task.numeric[0]),
    }


def test_every_drawing_is_a_file_with_its_colours_its_words_and_its_legend(drawings, tmp_path):
    for name, drawing in drawings.items():
        root = ElementTree.parse(drawing.save(tmp_path / f"{name}.svg")).getroot()
        assert root.find(f"{SVG}title").text == drawing.words
        assert "prefers-color-scheme: dark" in root.find(f"{SVG}style").text
        written = [text.text for text in root.iter(f"{SVG}text")]
        assert written[len(written) - len(drawing.legend) :] == [meaning for _, meaning in drawing.legend]
        assert drawing._repr_html_().startswith("<img alt=")


def test_marks_lie_where_the_numbers_are(task, drawings):
    curve = task.reliability.curves["after"]
    drawn = re.findall(r'class="dot after" cx="([\d.]+)"', drawings["ratio"].marks)
    at = np.array(drawn, dtype=float)
    # equal steps of the logarithm are equal steps of the drawing
    expected = np.interp(np.log(curve.predicted), np.log(curve.predicted[[0, -1]]), at[[0, -1]])
    assert at == pytest.approx(expected, abs=0.11)
    assert len(re.findall('class="dot before"', drawings["drift"].marks)) == task.drift.windows.n_windows
    assert len(re.findall('<path class="curve', drawings["curves"].marks)) == len(task.curves.curves)
