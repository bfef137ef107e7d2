import numpy as np
import pyarrow as pa
import pytest

from monocal.core.errors import InvalidInput
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import Vocabulary

SCHEMA = Roles(tasks={"click": "click", "buy": "buy"}, fields=["site", "hour"], time="t", group="u", weight="w")


def _log(n_rows=50, **changes):
    rng = np.random.default_rng(0)
    table = pa.table({"site": rng.integers(0, 9, n_rows), "hour": rng.integers(0, 24, n_rows)})
    vocabulary = Vocabulary.of_table(table, ["site", "hour"])
    labels = {"click": rng.integers(0, 2, n_rows), "buy": rng.integers(-1, 2, n_rows)}
    others = {
        "times": np.arange(n_rows),
        "groups": rng.integers(0, 5, n_rows),
        "weights": rng.random(n_rows),
        "scores": {"click": rng.random(n_rows)},
    }
    return EncodedLog.of(vocabulary.encode(table), labels, vocabulary, SCHEMA, **(others | changes))


def _same(left, right):
    assert np.array_equal(left.features, right.features)
    for name in ("times", "groups", "weights", "sampling_rates"):
        a, b = getattr(left, name), getattr(right, name)
        assert (a is None) == (b is None)
        assert a is None or (np.array_equal(a, b) and a.dtype == b.dtype)
    for name in ("labels", "scores"):
        a, b = getattr(left, name), getattr(right, name)
        assert list(a) == list(b)
        assert all(np.array_equal(a[task], b[task]) and a[task].dtype == b[task].dtype for task in a)


def test_saved_log_opens_as_memory_maps_with_equal_contents(tmp_path):
    log = _log()
    opened = log.save(tmp_path / "log")
    _same(log, opened)
    assert isinstance(opened.features, np.memmap)
    assert opened.roles == SCHEMA
    assert opened.field_names == ("site", "hour")
    assert opened.field_sizes == log.field_sizes
    assert opened.parts == log.parts
    assert opened.fingerprint == EncodedLog.open(tmp_path / "log", check_contents=True).fingerprint


def test_a_slice_is_a_view_and_knows_another_fingerprint(tmp_path):
    log = _log().save(tmp_path / "log")
    middle = log.slice(10, 20)
    assert middle.n_rows == 10
    assert np.shares_memory(middle.features, log.features)
    assert np.array_equal(middle.labels["buy"], log.labels["buy"][10:20])
    assert len({log.fingerprint, middle.fingerprint, log.slice(10, 21).fingerprint}) == 3
    assert log.slice(10, 20).fingerprint == middle.fingerprint
    with pytest.raises(ValueError, match="read-only"):
        middle.features[0, 0] = 1


def test_batches_carry_all_tasks_weights_and_rows():
    log = _log()
    seen = []
    for batch in log.batches(16):
        seen.extend(batch.rows.tolist())
        assert np.array_equal(batch.features, log.features[batch.rows])
        assert np.array_equal(batch.labels["buy"], log.labels["buy"][batch.rows])
        assert np.array_equal(batch.weights, log.weights[batch.rows])
    assert seen == list(range(50))
    assert next(iter(_log(weights=None).batches(16))).weights is None


def test_fingerprint_changes_with_any_content():
    base = _log()
    changed = [
        _log(times=np.arange(50) + 1),
        _log(weights=None),
        _log(scores=None),
        _log(shares={"train": 1, "test": 1}),
    ]
    assert len({log.fingerprint for log in [base, *changed]}) == 5
    assert _log().fingerprint == base.fingerprint


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"times": np.arange(3)}, "time: got 3 rows; expected 50 rows"),
        ({"scores": {"click": np.zeros(2)}}, "score:click: got 2 rows"),
    ],
)
def test_columns_of_other_lengths_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        _log(**arguments)
