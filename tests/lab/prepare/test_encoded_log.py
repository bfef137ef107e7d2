import json
import shutil

import numpy as np
import pyarrow as pa
import pytest

from monocal.core.errors import ArtefactError, InvalidInput, UnknownName
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import Vocabulary

SCHEMA = Roles(labels=["click", "buy"], fields=["site", "hour"], time="t", group="u", weight="w")


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


def test_types_are_the_promised_ones():
    log = _log(sampling_rates=np.full(50, 0.5))
    assert log.features.dtype == np.int32
    assert {column.dtype for column in log.labels.values()} == {np.dtype(np.int8)}
    kinds = (log.times.dtype, log.groups.dtype, log.weights.dtype, log.scores["click"].dtype, log.sampling_rates.dtype)
    assert [str(kind) for kind in kinds] == ["int64", "int32", "float32", "float64", "float64"]


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


def test_take_copies_the_chosen_rows_in_order():
    log = _log()
    rows = np.array([5, 3, 40])
    taken = log.take(rows)
    assert np.array_equal(taken.features, log.features[rows])
    assert np.array_equal(taken.times, [5, 3, 40])


def test_parts_are_three_one_one_unless_told_otherwise():
    log = _log()
    assert [log.part(name).n_rows for name in ("train", "calibration", "test")] == [30, 10, 10]
    assert np.array_equal(log.part("test").times, np.arange(40, 50))
    with pytest.raises(UnknownName, match=r"part: got 'tests'.*did you mean 'test'"):
        log.part("tests")


def test_batches_carry_all_tasks_weights_and_rows():
    log = _log()
    seen = []
    for batch in log.batches(16, seed=1, epoch=2, with_rows=True):
        seen.extend(batch.rows.tolist())
        assert np.array_equal(batch.features, log.features[batch.rows])
        assert np.array_equal(batch.labels["buy"], log.labels["buy"][batch.rows])
        assert np.array_equal(batch.weights, log.weights[batch.rows])
    assert sorted(seen) == list(range(50))
    first = next(iter(_log(weights=None).batches(16)))
    assert first.weights is None
    assert first.rows is None


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


def test_an_empty_log_survives(tmp_path):
    log = _log(0)
    opened = log.save(tmp_path / "log")
    assert opened.n_rows == 0
    assert opened.n_fields == 2
    assert list(opened.batches(4)) == []


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


def test_labels_other_than_zero_one_and_missing_are_refused():
    log = _log()
    with pytest.raises(InvalidInput, match="label of task 'click': got 2; expected 0, 1, or -1"):
        EncodedLog.of(log.features, {"click": np.full(50, 2)}, log.vocabulary, SCHEMA)


def test_features_must_have_the_fields_of_the_vocabulary():
    log = _log()
    with pytest.raises(InvalidInput, match="features: got 1 fields; expected 2"):
        EncodedLog.of(log.features[:, :1], {"click": np.zeros(50)}, log.vocabulary, SCHEMA)


def test_damage_is_refused(tmp_path):
    folder = tmp_path / "log"

    def damaged(change, message, **options):
        shutil.rmtree(folder, ignore_errors=True)
        _log().save(folder)
        change()
        with pytest.raises(ArtefactError, match=message):
            EncodedLog.open(folder, **options)

    features = folder / "00_features.npy"
    manifest = folder / "manifest.json"
    damaged(manifest.unlink, "there is no such (file|folder); an encoded log is a folder with manifest.json in it")
    damaged(lambda: manifest.write_text(manifest.read_text()[:-20]), "manifest.json: not a whole JSON file")
    damaged(lambda: manifest.write_text("[]"), "manifest.json: not a monocal encoded log")
    damaged(features.unlink, "00_features.npy: missing; nothing was loaded. Hint: run encode_log again")
    damaged(lambda: features.write_bytes(features.read_bytes()[:-4]), "bytes instead of")
    flipped = bytes([255 - features.read_bytes()[-1]]) if features.exists() else b"\xff"
    damaged(
        lambda: features.write_bytes(features.read_bytes()[:-1] + flipped),
        "do not match the manifest's fingerprint",
        check_contents=True,
    )

    def newer():
        entries = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(entries | {"schema_version": 99}))

    def tampered():
        entries = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(entries | {"parts": {"train": [0, 50]}}))

    damaged(newer, "schema version 99.*Hint: upgrade monocal")
    damaged(tampered, "the contents do not match their fingerprint")
    with pytest.raises(ArtefactError, match=r"there is no such (file|folder)"):
        EncodedLog.open(tmp_path / "nowhere")
