"""A model that is judged on rows it was fitted on says so."""

import warnings

import numpy as np
import pytest

import monocal
from monocal.core.errors import MonocalWarning
from monocal.findings.build import build_report
from monocal.judging.evaluate_table import evaluate_table
from monocal.models.row_sample import N_KEPT

FIELDS = ["device", "country"]


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(6_000, seed=1).table()


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log.slice(0, 4_000), method="platt", score="pctr", label="click", fields=FIELDS)


def judge(model, table):
    return evaluate_table(table, model=model, metrics=["pcoc"], n_bootstrap=5)


def test_rows_of_the_fit_are_recognised_in_any_order_and_company(model, log):
    mixed = log.take(np.random.default_rng(0).permutation(6_000))
    with pytest.warns(MonocalWarning, match="about 100% of the rows that the model was fitted on are among the rows"):
        judge(model, mixed)
    with pytest.warns(MonocalWarning, match=r"about (4[0-9]|5[0-9]|60)% of the rows"):
        judge(model, log.slice(2_000, 3_000))


def test_later_rows_are_not_complained_about(model, log):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judge(model, log.slice(4_000))


def test_a_saved_model_remembers(model, log, tmp_path):
    model.save(tmp_path / "model")
    with pytest.warns(MonocalWarning, match="about 100%"):
        judge(monocal.load(tmp_path / "model"), log)


def test_the_sample_is_small_and_empty_where_rows_look_alike(model):
    assert len(model.info["row_sample"]) == N_KEPT
    alike = {"p": [0.1, 0.2] * 500, "y": [0, 1] * 500}
    assert monocal.fit(alike, method="platt", score="p", label="y").info["row_sample"] == []


def test_the_report_says_it_among_its_facts(model, log):
    facts = dict(build_report(model, log, n_bootstrap=5, n_floor=5).provenance.facts)
    assert facts["Of those, among the rows measured"].startswith("about 100%")
