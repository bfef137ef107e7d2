"""What a fit measures for intervals and learns about later rows takes no more memory than it must."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from monocal.calibrators import calibrator
from monocal.carry_over.blocks import TimeBlocks
from monocal.carry_over.shares import ValidationRows, rolling_origin_fits, solve_shares, validation_rows
from monocal.carry_over.shrinkage import CarryOver, fit_effects, line_beside
from monocal.core.dataset import Dataset
from monocal.core.fields import FieldSchema
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.thread_reducer import run_members
from monocal.models.fit import fit_log
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary
from monocal.wide.intervals import unexplained_at_fit
from monocal.wide.solver import Search, WideParameters

SIZES = ["core.reduce.BLOCK_ROWS", "core.dataset.BLOCK_ROWS", "core.fields._BLOCK_ROWS", "core.fields._BLOCK_ROWS"]
SIZES += ["wide.intervals._BLOCK_ROWS", "wide.intervals.MOST_ROWS", "calibrators.curve._BLOCK_ROWS"]
SIZES += ["models.facts._MOST_HELD", "models.facts.BLOCK_ROWS"]
SIZES += ["neural.base.CHUNK_ROWS"]


def peak_of(work):
    """Bytes that something holds at its peak, beyond what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rows_of(n_rows, n_fields, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(1, 5, (n_rows, n_fields)).astype(np.int32)
    labels = (random.random(n_rows) < 0.12).astype(np.float64)
    return Dataset(random.normal(-2.0, 1.0, n_rows), labels, ids=ids, schema=FieldSchema.of([5] * n_fields))


def test_the_spread_of_a_fit_takes_memory_for_its_newest_rows_alone():
    data = rows_of(600_000, 10)
    posterior = {"penalties": np.ones(10), "information": np.full(50, 100.0)}
    # one double per row and field would be 48 MB
    assert peak_of(lambda: unexplained_at_fit([data.z], data, posterior, None)) < 8 * data.ids.size


def test_shares_are_learned_with_memory_for_a_block_of_rows(monkeypatch):
    monkeypatch.setattr("monocal.core.dataset.BLOCK_ROWS", 4096)  # as small beside these rows as it is beside millions
    random = np.random.default_rng(0)
    parts, block = random.normal(size=(200_000, 20)), np.arange(200_000, dtype=np.int32) // 20_000
    data = Dataset(np.zeros(200_000), (random.random(200_000) < 0.3).astype(np.float64))
    rows = ValidationRows(data, lambda some: parts[some], block, block)
    # a step's products of a block are three times the block's contributions; a column of all rows would be 1.6 MB
    assert peak_of(lambda: solve_shares(rows, np.ones(20))) < 4 * 8 * 4096 * 20


def test_levels_and_blocks_of_validation_rows_take_four_bytes_each():
    data = rows_of(4000, 1)
    blocks = TimeBlocks.of(data)
    rows = validation_rows(data, rolling_origin_fits(data, blocks, 1.0), blocks)
    assert (rows.levels.itemsize, rows.blocks.itemsize) == (4, 4)


def test_a_fit_that_leaves_a_field_out_takes_no_copy_of_the_ids_of_the_others(monkeypatch):
    monkeypatch.setattr("monocal.core.dataset.BLOCK_ROWS", 4096)
    data = rows_of(200_000, 40)
    nothing, kept = np.full(40, np.nan), np.arange(40) > 0
    carry_over = CarryOver(np.where(kept, 1.0, 0.0), nothing, np.ones(40), kept, TimeBlocks.of(data))

    def fit(rows):
        return fit_effects(rows, carry_over, 1.0, Search(1e-3, 2))

    fit(data.take(slice(0, 20_000)))
    assert peak_of(lambda: fit(data)) < 0.6 * data.ids.nbytes


def test_a_line_beside_effects_takes_nine_columns():
    data = rows_of(300_000, 1)
    effects = WideParameters.at(np.linspace(-0.1, 0.1, 5))
    assert peak_of(lambda: line_beside(data, effects)) < 9.5 * 8 * data.n_rows


@pytest.mark.parametrize(
    ("method", "arguments"), [("wide_logistic", {"max_iterations": 2}), ("umc", {"curve_rows": 4096, "n_epochs": 1})]
)
def test_a_member_of_a_team_holds_less_than_150_bytes_for_each_of_its_rows(monkeypatch, method, arguments):
    """Row numbers, scores, labels, logits and a few columns of answers; no ids, which stay in the log."""
    # blocks, the newest rows that members show each other, and their cells take as little beside many rows
    for place in SIZES:
        monkeypatch.setattr(f"monocal.{place}", 2048)
    monkeypatch.setattr("monocal.wide.intervals._CELL_BITS", 8)
    n_rows, n_fields = 200_000, 21
    random = np.random.default_rng(0)
    features = random.integers(1, 5, (n_rows, n_fields)).astype(np.int32)
    names = [f"f{number}" for number in range(n_fields)]
    vocabulary = Vocabulary(tuple(FieldVocabulary(name, pa.array(["a", "b", "c", "d"])) for name in names))
    roles = Roles(score="p", label="y", fields=names)
    labels, scores = {"y": random.random(n_rows) < 0.2}, {"y": random.uniform(0.1, 0.3, n_rows)}
    log = EncodedLog.of(features, labels, vocabulary, roles, scores=scores).as_table()
    asked = calibrator(method, **arguments)
    run_members(2, lambda team: fit_log(log.take(slice(0, 20_000)), asked, team=team))
    assert peak_of(lambda: run_members(2, lambda team: fit_log(log, asked, team=team))) / n_rows < 100
