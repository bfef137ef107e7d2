"""A model that is judged on rows it was fitted on says so."""

import warnings
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.evaluation.table import evaluate_table
from monocal.models.facts import N_KEPT
from monocal.monitoring.gate import gate
from monocal.reports.data import build_report

FIELDS = ["device", "country"]


@pytest.fixture(scope="module")
def log():
    return monocal.simulate_log(6_000, seed=1).table()


@pytest.fixture(scope="module")
def model(log):
    return monocal.fit(log.slice(0, 4_000), method="platt", score="pctr", label="click", fields=FIELDS)


@contextmanager
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def judge(model, table):
    return evaluate_table(table, model=model, metrics=["pcoc"], n_bootstrap=5)


def test_rows_of_the_fit_are_recognised_in_any_order_and_company(model, log):
    mixed = log.take(np.random.default_rng(0).permutation(6_000))
    with pytest.warns(MonocalWarning, match=r"fitted on about 6[0-9]% of the rows that it is judged on"):
        judge(model, mixed)
    with pytest.warns(MonocalWarning, match=r"fitted on about (6[0-9]|7[0-9])% of the rows"):
        judge(model, log.slice(2_000, 3_000))
    # few rows of a large fit
    with pytest.warns(MonocalWarning, match="fitted on about 100% of the rows"):
        judge(model, log.slice(1_000, 300))


def test_few_rows_of_the_fit_among_many_others_are_no_matter(model, log):
    with no_warning():
        judge(model, log.slice(3_900))  # 100 of 2,100
        judge(model, log.slice(4_000))
    alike = {"p": [0.1, 0.2] * 500, "y": [0, 1] * 500}
    assert monocal.fit(alike, method="platt", score="p", label="y").info["row_sample"] == {}


def test_rows_of_a_refresh_and_of_the_fit_before_it_are_recognised(model, log):
    following = model.refresh(log.slice(4_000, 1_000))
    assert len(following.info["row_sample"]["marks"]) == N_KEPT
    for first in (0, 4_000):
        with pytest.warns(MonocalWarning, match="fitted on about 100% of the rows"):
            judge(following, log.slice(first, 1_000))
    with no_warning():
        judge(following, log.slice(5_000))


def test_rows_that_look_like_those_of_the_fit_by_chance_are_not_complained_about():
    """Scores of few digits: a fifth of the new rows looks like a row of the fit."""
    rng = np.random.default_rng(3)
    p = np.round(rng.uniform(0.0, 1.0, 8_000), 4).clip(1e-4, 0.9999)
    y = (rng.uniform(size=8_000) < p).astype(int)
    model = monocal.fit({"p": p[:2_000], "y": y[:2_000]}, method="platt", score="p", label="y")
    with no_warning():
        judge(model, {"p": p[2_000:], "y": y[2_000:]})


@pytest.fixture(scope="module")
def leaves():
    """The scores of a small tree, so that two fifths of the rows look like another one."""
    rng = np.random.default_rng(5)
    leaf, site = rng.integers(1, 60, 12_000), rng.zipf(1.3, 12_000).clip(max=500)
    p = leaf / 61.0
    return pa.table({"p": p, "y": (rng.random(12_000) < p).astype(int), "site": site.astype(str)})


def test_rows_of_the_fit_are_recognised_where_many_look_alike(leaves):
    models = [
        monocal.fit(leaves.slice(0, 6_000), method=method, score="p", label="y", fields=["site"])
        for method in ("platt", "temperature")
    ]
    fitted, new = leaves.slice(1_000, 4_000), leaves.slice(6_000)
    marks = set(zip(*(fitted[name].to_pylist() for name in leaves.column_names), strict=True))
    assert len(marks) < 0.8 * fitted.num_rows
    with pytest.warns(MonocalWarning, match=r"fitted on about (9[0-9]|100)% of the rows"):
        judge(models[0], fitted)
    with pytest.raises(InvalidInput, match=r"4,000 rows, about (9[0-9]|100)% of which the old model learned from"):
        gate(*models, fitted)
    with no_warning():
        judge(models[0], new)
        gate(*models, new)


def test_exactly_the_rows_of_the_fit_are_recognised_even_if_no_row_differs_from_all_others(leaves):
    """Sixty scores and no fields: no row alone says where it comes from, all of them together do."""
    columns = leaves.select(["p", "y"])
    model = monocal.fit(columns.slice(0, 6_000), method="platt", score="p", label="y")
    assert model.info["row_sample"] == {}
    with pytest.warns(MonocalWarning, match="fitted on about 100% of the rows"):
        judge(model, columns.slice(0, 6_000).take(np.arange(6_000)[::-1]))
    with no_warning():
        judge(model, columns.slice(6_000))


@pytest.mark.extras
def test_the_report_says_it_among_its_facts_and_in_the_terminal(model, log, tmp_path, capsys):
    with pytest.warns(MonocalWarning, match="about 100%"):
        found = build_report(model, log.slice(0, 4_000), n_bootstrap=5, n_floor=5)
    assert dict(found.provenance.facts)["Rows measured that it was fitted on"].startswith("about 100%")
    model.save(tmp_path / "model")
    pq.write_table(log.slice(0, 1_000), tmp_path / "log.parquet")
    paths = [str(tmp_path / name) for name in ("model", "log.parquet", "r")]
    assert main(["report", *paths[:2], "--out", paths[2]]) == 0
    assert "warning: the model was fitted on about 100% of the rows that it is judged on" in capsys.readouterr().err
