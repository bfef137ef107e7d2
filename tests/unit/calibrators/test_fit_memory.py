"""What a fit measures for intervals and learns about later rows takes no more memory than it must."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from monocal.calibrators.statistical import curve_solver, row_variance, unexplained, wide_solver
from monocal.calibrators.statistical.carry_over import CarryOver, TimeBlocks, fit_carried, line_beside
from monocal.calibrators.statistical.carry_over.chain import forward_chain, judged_rows
from monocal.calibrators.statistical.carry_over.shares import LaterRows, solve_shares
from monocal.calibrators.statistical.refreshing import posterior
from monocal.calibrators.statistical.row_variance import spread_at_fit
from monocal.calibrators.statistical.wide_solver import WideParameters
from monocal.core import samples, team
from monocal.core.samples import Samples
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.models import facts, learned_rows
from monocal.models.fit import FitOptions, fit_log
from monocal.neural import neural_calibrator
from monocal.neural.fitting import field_values
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary
from monocal.testing.teams import run_team


def test_the_spread_of_a_fit_takes_memory_for_its_newest_rows_alone():
    n_rows, n_fields = 600_000, 10
    random = np.random.default_rng(0)
    features = random.integers(1, 5, (n_rows, n_fields)).astype(np.int32)
    logits = np.full(n_rows, -2.0)
    samples = Samples(logits, (random.random(n_rows) < 0.12).astype(np.float64), features)
    posterior = {"penalties": np.ones(n_fields), "information": np.full(5 * n_fields, 100.0)}
    tracemalloc.start()
    try:
        spread_at_fit(logits, samples, posterior, 5 * np.arange(n_fields + 1), None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # one double per row and field would be 48 MB
    assert peak < 8 * n_rows * n_fields


def test_shares_are_learned_with_memory_for_a_block_of_rows(monkeypatch):
    monkeypatch.setattr(team, "BLOCK_ROWS", 4096)  # as small beside these rows as the real one is beside millions
    random = np.random.default_rng(0)
    parts, block = random.normal(size=(200_000, 20)), np.arange(200_000, dtype=np.int32) // 20_000
    labels = (random.random(200_000) < 0.3).astype(np.float64)
    rows = LaterRows(np.zeros(200_000), parts, labels, np.ones(200_000), block, block)
    tracemalloc.start()
    try:
        solve_shares(rows, np.ones(20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # a step's products of a block are three times the block's contributions; a column of all rows would be 1.6 MB
    assert peak < 4 * 8 * 4096 * 20


def test_levels_and_blocks_of_judged_rows_take_four_bytes_each():
    samples = Samples.of(
        np.linspace(-2.0, 2.0, 4000), np.arange(4000) % 2, features=np.ones((4000, 1), np.int32), scores_are="logit"
    )
    blocks = TimeBlocks.of(samples)
    cuts = forward_chain(samples, np.array([2]), blocks, 1.0)
    rows = judged_rows(samples, cuts, blocks)
    assert (rows.levels.itemsize, rows.blocks.itemsize) == (4, 4)


def test_a_fit_that_leaves_a_field_out_takes_no_copy_of_the_ids_of_the_others(monkeypatch):
    monkeypatch.setattr(wide_solver, "_BLOCK_ROWS", 4096)
    n_rows, n_fields = 200_000, 40
    random = np.random.default_rng(0)
    features = random.integers(1, 5, (n_rows, n_fields)).astype(np.int32)
    samples = Samples(np.full(n_rows, -2.0), (random.random(n_rows) < 0.12).astype(np.float64), features)
    nothing, kept = np.full(n_fields, np.nan), np.arange(n_fields) > 0
    believed = CarryOver(np.where(kept, 1.0, 0.0), nothing, np.ones(n_fields), kept, TimeBlocks.of(samples))
    sizes = np.full(n_fields, 5)
    fit_carried(samples.take(slice(0, 20_000)), sizes, believed, l2=1.0, tolerance=1e-3, max_iterations=2)
    tracemalloc.start()
    try:
        fit_carried(samples, sizes, believed, l2=1.0, tolerance=1e-3, max_iterations=2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * features.nbytes


def test_a_line_beside_effects_takes_nine_columns():
    n_rows = 300_000
    random = np.random.default_rng(0)
    features = random.integers(1, 5, (n_rows, 1)).astype(np.int32)
    labels = (random.random(n_rows) < 0.2).astype(np.float64)
    samples = Samples(random.normal(-2.0, 1.0, n_rows), labels, features)
    effects = WideParameters(1.0, 0.0, np.linspace(-0.1, 0.1, 5), np.array([0, 5]), np.ones(5))
    tracemalloc.start()
    try:
        line_beside(effects, samples)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 9.5 * 8 * n_rows


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("wide_logistic", {"max_iterations": 2}), ("umc", {"curve_rows": 4096, "n_epochs": 1})],
)
def test_a_member_of_a_team_holds_less_than_150_bytes_for_each_of_its_rows(monkeypatch, method, arguments):
    """Row numbers, scores, labels, logits and a few columns of answers; no ids, which stay in the log."""
    # blocks, the newest rows that members show each other, and their cells take as little beside many rows
    for place in (team, learned_rows, facts):
        monkeypatch.setattr(place, "BLOCK_ROWS", 2048)
    for place in (wide_solver, field_values, posterior, curve_solver):
        monkeypatch.setattr(place, "_BLOCK_ROWS", 2048)
    monkeypatch.setattr(neural_calibrator, "CHUNK_ROWS", 2048)
    monkeypatch.setattr(learned_rows, "_MOST_HELD", 2048)
    monkeypatch.setattr(samples, "_CHECK_ROWS", 2048)
    monkeypatch.setattr(row_variance, "MOST_ROWS", 2048)
    monkeypatch.setattr(unexplained, "_CELL_BITS", 8)
    n_rows, n_fields = 200_000, 21
    random = np.random.default_rng(0)
    features = random.integers(1, 5, (n_rows, n_fields)).astype(np.int32)
    names = [f"f{number}" for number in range(n_fields)]
    vocabulary = Vocabulary(tuple(FieldVocabulary(name, pa.array(["a", "b", "c", "d"])) for name in names))
    roles = Roles.of(score="p", label="y", fields=names)
    labels, scores = {"y": random.random(n_rows) < 0.2}, {"y": random.uniform(0.1, 0.3, n_rows)}
    log = EncodedLog.of(features, labels, vocabulary, roles, scores=scores).as_table()
    asked = FitOptions(method, arguments)
    run_team(2, lambda team: fit_log(log.take(slice(0, 20_000)), asked, team=team))
    tracemalloc.start()
    try:
        run_team(2, lambda team: fit_log(log, asked, team=team))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / n_rows < 100
