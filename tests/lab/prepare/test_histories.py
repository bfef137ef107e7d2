"""Histories hold the strictly earlier rows of the same user, and nothing that was not known when a row was ranked."""

from dataclasses import replace

import numpy as np
import pytest

from monocal.lab.prepare import histories
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.prepare.histories import with_histories
from monocal.lab.simulator.search import SearchWorld, simulate_search
from monocal.tables.roles import Roles


@pytest.fixture(scope="module")
def log():
    return simulate_search(3_000, seed=4, world=SearchWorld(n_users=60, n_items=80, n_queries=20)).encoded()


def check_only_the_past(log):
    past = log.histories
    for row in range(log.n_rows):
        events = past.order[past.first[row] : past.stop[row]]
        assert np.all(log.times[events] < log.times[row]), f"row {row} knows its own moment or the future"
        assert np.all(log.groups[events] == log.groups[row]), f"row {row} knows another user's events"


@pytest.mark.parametrize("window", [7, 500, 1 << 18])
def test_the_past_is_every_strictly_earlier_row_of_the_user(log, window, monkeypatch):
    monkeypatch.setattr(histories, "_WINDOW_ROWS", window)
    found = with_histories(log, "user_id").histories
    for row in range(0, log.n_rows, 7):
        expected = np.flatnonzero((log.groups == log.groups[row]) & (log.times < log.times[row]))
        assert np.array_equal(found.order[found.first[row] : found.stop[row]], expected)


def test_the_last_events_come_newest_first(log):
    found = with_histories(log, "user_id").histories
    row = int(np.argmax(found.stop - found.first))
    whole = found.order[found.first[row] : found.stop[row]]
    assert found.last(slice(row, row + 1), 5)[0].tolist() == whole[::-1][:5].tolist()
    assert found.last(np.array([0]), 3).tolist() == [[-1, -1, -1]]


def test_users_that_are_not_known_have_no_past(log):
    features = log.features.copy()
    features[:, 0] = np.where(features[:, 0] == features[-1, 0], 0, features[:, 0])
    unknown = EncodedLog.of(
        features, log.labels, log.vocabulary, Roles.from_dict({**log.roles.to_dict(), "group": None})
    )
    found = with_histories(unknown, "user_id").histories
    of_nobody = features[:, 0] == 0
    assert np.all((found.stop - found.first)[of_nobody] == 0)
    assert (found.stop - found.first)[~of_nobody].max() > 0


def test_parts_remember_what_happened_in_earlier_parts(log):
    whole = with_histories(log, "user_id")
    part = whole.part("test")
    start = whole.parts["test"].start
    assert np.array_equal(part.histories.last(slice(0, 9), 20), whole.histories.last(slice(start, start + 9), 20))
    chosen = part.take(np.array([5, 3]))
    assert np.array_equal(chosen.histories.last(slice(0, 2), 20), part.histories.last(np.array([5, 3]), 20))


def test_an_encoded_log_keeps_histories_on_disk(tmp_path):
    simulated = simulate_search(2_000, seed=5, world=SearchWorld(n_users=40, n_items=60, n_queries=10))
    table = simulated.table()
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    fields = ["query", "item_id", "topic", "style"]
    schema = Roles(label="click", fields=fields, time="timestamp", group="user_id")
    encoded = encode_log(shuffled, schema, tmp_path / "log", min_count=1, history="user_id")
    assert encoded.histories is not None
    check_only_the_past(encoded)
    in_memory = with_histories(replace(encoded, histories=None), "user_id")
    for name in ("order", "first", "stop"):
        assert np.array_equal(getattr(encoded.histories, name), getattr(in_memory.histories, name))
    copied = in_memory.save(tmp_path / "copy")
    assert np.array_equal(copied.histories.stop, encoded.histories.stop)
    assert in_memory.part("test").save(tmp_path / "part").histories is None
    without = encode_log(shuffled, schema, tmp_path / "log", min_count=1)
    assert without.histories is None
    assert without.fingerprint != encoded.fingerprint
