import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.lab.sources.side_files import first_features

FIELDS = ["101", "205", "109_14"]


def _packed(entries):
    return "\x01".join(f"{field}\x02{feature}\x03{value}" for field, feature, value in entries)


entry = st.tuples(
    st.sampled_from([*FIELDS, "10", "1011", "853", "a_very_long_field"]),
    st.integers(0, 10**12),
    st.sampled_from(["1.0", "", "0.69315"]),
)


@settings(deadline=None)
@given(st.lists(st.lists(entry, max_size=6), max_size=8))
def test_the_first_entry_of_a_field_counts_and_a_missing_one_is_zero(rows):
    found, bad = first_features(pa.array([_packed(row) for row in rows], pa.string()), FIELDS)
    assert not bad.any()
    for field in FIELDS:
        expected = [next((feature for name, feature, _ in row if name == field), 0) for row in rows]
        assert found[field].tolist() == expected


@pytest.mark.parametrize(
    "broken",
    [
        "205\x0242",
        "205",
        "205\x0342\x021.0",
        "205\x0242\x031.0\x01",
        "\x01205\x0242\x031.0",
        "205\x0242\x031.0\x03",
        "205\x02\x031.0",
        "205\x024x\x031.0",
        "205\x02-4\x031.0",
        "205\x02" + "9" * 19 + "\x031.0",
        "301\x025\x031.0\x01205",
    ],
)
def test_a_broken_list_is_seen_and_its_neighbours_are_not_touched(broken):
    good = _packed([("205", 7, "1.0"), ("101", 8, "1.0")])
    found, bad = first_features(pa.array([good, broken, good]), FIELDS)
    assert bad.tolist() == [False, True, False]
    assert found["205"][[0, 2]].tolist() == [7, 7]
    assert found["101"][[0, 2]].tolist() == [8, 8]


def test_slices_and_empty_arrays():
    lists = pa.array([_packed([("205", i, "1")]) for i in range(10)])
    found, _ = first_features(lists.slice(3, 4), ["205"])
    assert np.array_equal(found["205"], [3, 4, 5, 6])
    found, bad = first_features(pa.array([], pa.string()), ["205"])
    assert len(found["205"]) == len(bad) == 0
