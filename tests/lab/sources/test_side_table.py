import pyarrow as pa
import pytest

from monocal.lab.sources.side_files import SideTable


def _columns(table, keys, **options):
    return {name: column.to_pylist() for name, column in table.look_up(pa.array(keys), **options).items()}


def test_rows_are_found_across_batches_and_the_first_row_of_a_key_counts():
    table = SideTable(["a", "b"])
    table.add(pa.array(["k1", "k2"]), {"a": pa.array(["x", "y"]), "b": pa.array(["1", None])})
    table.add(pa.array(["k2", "k3", "k3"]), {"a": pa.array(["z", "y", "w"]), "b": pa.array(["9", "2", "3"])})
    assert len(table) == 3
    assert _columns(table, ["k3", "k2", "k1", "k3"]) == {"a": ["y", "y", "x", "y"], "b": ["2", None, "1", "2"]}


def test_an_unknown_key_and_a_missing_attribute_are_null_or_what_is_asked():
    table = SideTable(["a"])
    table.add(pa.array(["k"]), {"a": pa.array([None], pa.string())})
    assert _columns(table, ["k", "other", None]) == {"a": [None, None, None]}
    assert _columns(table, ["k", "other", None], missing="0") == {"a": ["0", "0", "0"]}


def test_an_empty_table_knows_nothing():
    assert _columns(SideTable(["a"]), ["k", "l"]) == {"a": [None, None]}


def test_rows_added_after_a_look_up_are_found():
    table = SideTable(["a"])
    assert _columns(table, ["k"]) == {"a": [None]}
    table.add(pa.array(["k"]), {"a": pa.array(["x"])})
    assert _columns(table, ["k"]) == {"a": ["x"]}


def test_a_look_up_carries_the_values_of_its_rows_only():
    table = SideTable(["a"])
    keys = pa.array([str(i) for i in range(1000)])
    table.add(keys, {"a": keys})
    found = table.look_up(pa.array(["7", "7", "8"]).dictionary_encode())
    assert found["a"].dictionary.to_pylist() == ["7", "8"]
    with pytest.raises(KeyError):
        table.add(keys, {})
