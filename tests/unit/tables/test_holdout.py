"""Cutting off the most recent rows, and the vocabulary that the older rows alone would give."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.core.errors import InvalidInput
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.tables.roles import Roles
from monocal.tables.split import hold_out_recent, keep_values_of
from monocal.tables.vocabulary import Vocabulary


@settings(deadline=None)
@given(times=st.lists(st.integers(0, 6), min_size=2, max_size=40), share=st.floats(0.05, 0.9))
def test_rows_of_one_moment_are_never_torn_apart(times, share):
    ordered = np.array(sorted(times))
    cut = hold_out_recent(len(times), share, times=ordered)
    assert cut.n_fit >= 1
    assert cut.n_test >= 1
    assert cut.n_fit + cut.n_test == len(times)
    if len(set(times)) > 1:
        assert ordered[cut.n_fit - 1] < ordered[cut.n_fit]


def test_explanations():
    moments = np.array(["2024-05-01T10", "2024-05-02T11", "2024-05-03T12"], dtype="datetime64[us]").view(np.int64)
    told = hold_out_recent(3, 0.34, times=moments, time_column="ts", is_clock=True).explanation
    assert told == (
        "split by time: fitted on 2 rows with ts 2024-05-01 10:00:00 to 2024-05-02 11:00:00, "
        "held out the 1 rows from 2024-05-03 12:00:00 on"
    )
    assert "split by row order, taken as time order" in hold_out_recent(10).explanation
    assert hold_out_recent(10, 0.0).n_test == 0


def test_bad_shares_and_too_few_rows():
    with pytest.raises(InvalidInput, match=r"holdout: got 1.0; expected a share in \[0, 1\)"):
        hold_out_recent(10, 1.0)
    with pytest.raises(InvalidInput, match="expected rows to fit and rows to judge"):
        hold_out_recent(1, 0.5)


def log_of(sites):
    table = pa.table({"site": sites})
    vocabulary = Vocabulary.of_table(table, ["site"])
    log = EncodedLog.of(vocabulary.encode(table), {"y": np.zeros(len(sites))}, vocabulary, Roles("y", fields=["site"]))
    return log.as_table()


@settings(max_examples=40, deadline=None)
@given(
    sites=st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=2, max_size=30),
    min_count=st.integers(1, 3),
    max_size=st.none() | st.integers(1, 3),
    data=st.data(),
)
def test_known_values_are_those_of_the_fitting_rows_alone(sites, min_count, max_size, data):
    cut = data.draw(st.integers(1, len(sites)))
    found = keep_values_of(log_of(sites), 0, cut, min_count=min_count, max_size=max_size)
    column = pa.table({"site": pa.array(sites, pa.string())})
    expected = Vocabulary.of_table(column.slice(0, cut), ["site"], min_count=min_count, max_size=max_size)
    assert set(found.vocabulary["site"].values.to_pylist()) <= set(sites[:cut])
    if max_size is None:
        assert set(found.vocabulary["site"].values.to_pylist()) == set(expected["site"].values.to_pylist())
    assert found.vocabulary.encode(column).tolist() == found.features.tolist()
    assert found.fingerprint != log_of(sites).fingerprint
