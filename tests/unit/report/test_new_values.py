"""The section on new and rare values: numbers of `by_times_seen` on the page, and nothing where nobody counted."""

import re
from dataclasses import replace

import pytest

import monocal
from monocal.findings.build import build_report
from monocal.report.page.new_values import new_values

QUICK = {"n_bootstrap": 5, "n_floor": 2}


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(6_000, seed=4).table()


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log.slice(0, 3_000), method="wide_logistic", score="pctr", label="click", fields=["ad_id"])


def test_the_section_shows_every_band_with_its_share_of_rows(log, model):
    task = build_report(model, log.slice(3_000), fields=[], **QUICK).task()
    bands = task.seen["ad_id"]
    assert sum(band.n_rows for band in bands) == 3_000
    html = new_values(task, "x")
    for band in bands:
        assert band.title in html
        assert f"{band.log_loss['after']:.5f}" in html
    assert len(re.findall(r"<tr[ >]", html)) == len(bands) + 1


def test_a_model_that_did_not_count_has_no_section(log, model):
    task = build_report(replace(model, value_counts=()), log.slice(3_000), fields=[], **QUICK).task()
    assert new_values(task, "x") == ""
