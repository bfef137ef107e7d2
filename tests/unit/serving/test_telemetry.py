"""Numbers that count traffic, and logs that machines read and that give nothing away."""

import json
import logging
import math

import numpy as np
import pyarrow.compute as pc
import pytest

from monocal.core.errors import MonocalWarning
from monocal.reports.data import build_report
from monocal.serving import Engine, Request
from monocal.serving.telemetry import LOGGER, JsonLines, LiveMetrics, log_failure

FIELDS = ["site_id", "ad_id", "country", "hour", "position", "device"]


def scraped(metrics):
    """Returns a scrape as name with labels to value."""
    lines = metrics.exposition({"model": "v1"}).decode().splitlines()
    return {
        head: float(value) for head, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }


@pytest.fixture
def engine(model):
    return Engine(model)


@pytest.fixture
def metrics(engine):
    made = LiveMetrics()
    made.follow(engine)
    return made


def answer_of(engine, scores, **fields):
    given = {name: fields.get(name, "site_1") for name in FIELDS}
    return engine.calibrate(Request({"click": scores}, shared=given))


def test_a_new_model_starts_the_drift_comparison_anew(model, engine, metrics):
    metrics.observe(answer_of(engine, [0.99] * 50), engine)
    assert scraped(metrics)['monocal_score_drift_psi{task="click"}'] > 1.0
    metrics.follow(Engine(model, version="another"))
    found = scraped(metrics)
    assert math.isnan(found['monocal_score_drift_psi{task="click"}'])
    assert found["monocal_rows_total"] == 50.0


def test_score_bins_are_those_of_the_fit(model, engine, metrics, log):
    scores = log.column("pctr").to_pylist()
    for start in range(0, 4000, 500):
        rows = log.slice(start, 500).to_pydict()
        fields = {name: rows[name] for name in FIELDS}
        asked = Request({"click": scores[start : start + 500]}, fields=fields)
        metrics.observe(engine.calibrate(asked), engine)
    found = scraped(metrics)
    counts = [found[f'monocal_score_window_rows{{bin="{place}",task="click"}}'] for place in range(20)]
    expected = np.array(model.info["tasks"]["click"]["score_shares"]) * 4000
    assert counts == pytest.approx(expected)
    assert found['monocal_score_drift_psi{task="click"}'] < 1e-4


def test_the_service_and_the_report_find_the_same_drift(model, engine, metrics, log):
    low = log.filter(pc.less(log["pctr"], 0.15))
    rows = low.to_pydict()
    request = Request({"click": rows["pctr"]}, fields={name: rows[name] for name in FIELDS})
    metrics.observe(engine.calibrate(request), engine)
    found = scraped(metrics)
    with pytest.warns(MonocalWarning, match="fitted on about"):
        reported = build_report(model, low, n_bootstrap=2, n_floor=2).task().drift.score_shift
    assert found['monocal_score_drift_psi{task="click"}'] == pytest.approx(reported.value, rel=1e-6)
    assert found['monocal_score_drift_noise{task="click"}'] == pytest.approx(reported.noise, rel=1e-6)
    assert reported.value > 0.5


@pytest.fixture
def lines(caplog):
    """Returns what was logged, as the service writes it."""
    caplog.set_level(logging.INFO, logger=LOGGER.name)
    return lambda: [JsonLines().format(record) for record in caplog.records]


def test_of_an_unexpected_error_only_type_and_place_are_logged(lines):
    def inner():
        raise KeyError("a feature value")

    try:
        inner()
    except KeyError as error:
        log_failure("request failed", error, path="/v1/calibrate")
    (line,) = lines()
    said = json.loads(line)
    assert said["exception"] == "KeyError"
    assert said["where"].startswith("inner:")
    assert "a feature value" not in line
