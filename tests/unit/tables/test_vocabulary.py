from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from monocal.core.errors import ArtefactError, InvalidInput, UnknownName
from monocal.lab.value_counts import ValueCounts
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary
from monocal.tables.vocabulary_file import load_vocabulary, save_vocabulary

FORMS = {
    "text": lambda values: pa.array(values, pa.string()),
    "large text": lambda values: pa.array(values, pa.large_string()),
    "text view": lambda values: pa.array(values, pa.string_view()),
    "dictionary": lambda values: pa.array(values, pa.string()).dictionary_encode(),
    "slice of a dictionary": lambda values: pa.array(["x", *values, "y"], pa.string()).dictionary_encode()[1:-1],
    "chunks": lambda values: pa.chunked_array([pa.array(values[:2], pa.string()), pa.array(values[2:], pa.string())]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_arrow_form_of_a_column_gives_the_same_ids(form):
    values = ["b", "a", None, "z", "b", ""]
    vocabulary = Vocabulary.of_table(pa.table({"f": FORMS[form](["b", "a", None, "b", "", "", ""])}), ["f"])
    assert vocabulary["f"].values.to_pylist() == ["", "b", "a", None]
    assert vocabulary.encode(pa.table({"f": FORMS[form](values)}))[:, 0].tolist() == [2, 3, 4, 0, 2, 1]


def test_min_count_and_max_size_keep_the_most_frequent_values():
    table = pa.table({"f": ["a"] * 5 + ["d"] * 3 + ["c"] * 3 + ["b"] * 3 + ["e"]})
    assert Vocabulary.of_table(table, ["f"])["f"].values.to_pylist() == ["a", "b", "c", "d", "e"]
    assert Vocabulary.of_table(table, ["f"], min_count=3)["f"].values.to_pylist() == ["a", "b", "c", "d"]
    assert Vocabulary.of_table(table, ["f"], max_size=2)["f"].values.to_pylist() == ["a", "b"]
    assert Vocabulary.of_table(table, ["f"], max_size=0)["f"].size == 1
    assert Vocabulary.of_table(table, ["f"], min_count=9)["f"].size == 1


def test_counts_of_a_stream_keep_the_order_of_appearance():
    counts, seen = ValueCounts("f"), Counter()
    for batch in (["c", "a"], [None, "c"], ["b", "a", "a"], ["d", None], [], ["c"]):
        counts.add(pa.array(batch, pa.string()))
        seen.update(batch)
    values, rows = counts.in_order_of_appearance()
    assert values.to_pylist() == ["c", "a", "b", "d", None]
    assert dict(zip(values.to_pylist(), rows.tolist(), strict=True)) == seen


def test_the_result_does_not_depend_on_row_order_or_batches():
    rng = np.random.default_rng(0)
    values = np.char.add("v", rng.integers(0, 300, 5000).astype(str))
    whole = Vocabulary.of_table(pa.table({"f": values}), ["f"], min_count=2)
    counts = ValueCounts("f")
    for batch in pa.table({"f": rng.permutation(values)}).to_batches(max_chunksize=321):
        counts.add(batch["f"])
    assert counts.frequent(min_count=2).equals(whole["f"].values)
    names, counts = np.unique(values, return_counts=True)
    order = np.lexsort((names, -counts))
    assert whole["f"].values.to_pylist() == [str(names[i]) for i in order if counts[i] >= 2]


def test_hashed_fields_need_no_values_and_spread_evenly(tmp_path):
    table = pa.table({"f": ["a"] * 8000, "g": [f"user {i}" for i in range(8000)]})
    vocabulary = Vocabulary((FieldVocabulary("f", pa.array(["a"])), FieldVocabulary.hashed("g", 16)))
    ids = vocabulary.encode(table)[:, 1]
    assert vocabulary.sizes == (2, 17)
    counts = np.bincount(ids, minlength=17)
    assert counts[0] == 0
    assert counts[1:].min() > 400
    save_vocabulary(vocabulary, tmp_path / "v.arrow")
    loaded = load_vocabulary(tmp_path / "v.arrow")
    assert np.array_equal(loaded.encode(table), vocabulary.encode(table))
    assert loaded.fingerprint == vocabulary.fingerprint
    assert loaded["g"].encode(pa.array([None, "user 1"])).tolist() == [0, ids[1]]


def test_saved_values_come_back_in_order(tmp_path):
    vocabulary = Vocabulary(
        (FieldVocabulary("f", pa.array(["b", None, "a"])), FieldVocabulary("empty", pa.array([], pa.string())))
    )
    save_vocabulary(vocabulary, tmp_path / "v.arrow")
    loaded = load_vocabulary(tmp_path / "v.arrow")
    assert [field.values.to_pylist() for field in loaded.fields] == [["b", None, "a"], []]
    assert loaded.encode(pa.table({"f": ["a", None, "c"], "empty": ["x"] * 3})).tolist() == [[3, 0], [2, 0], [0, 0]]
    (tmp_path / "v.arrow").write_bytes((tmp_path / "v.arrow").read_bytes()[:-30])
    with pytest.raises(ArtefactError, match=r"vocabulary v\.arrow cannot be read"):
        load_vocabulary(tmp_path / "v.arrow")


def test_fingerprint_changes_with_values_order_names_and_buckets():
    def made(name="f", values=("a", "b"), n_buckets=None):
        return Vocabulary((FieldVocabulary(name, pa.array(values, pa.string()), n_buckets),)).fingerprint

    assert len({made(), made(name="g"), made(values=("b", "a")), made(values=("ab",)), made(n_buckets=3)}) == 5
    assert made() == made()


def test_what_cannot_be_encoded_is_named():
    vocabulary = Vocabulary.of_table(pa.table({"site": ["a"]}), ["site"])
    with pytest.raises(UnknownName, match=r"field column: got 'site'; .* did you mean 'site_id'"):
        vocabulary.encode(pa.table({"site_id": ["a"]}))
    with pytest.raises(InvalidInput, match="field 'site': got 0.5 in a column of type double"):
        vocabulary.encode(pa.table({"site": [0.5]}))
    with pytest.raises(InvalidInput, match="values of field 'f': got a value twice"):
        FieldVocabulary("f", pa.array(["a", "a"])).encode(pa.array(["a"]))
    with pytest.raises(InvalidInput, match="buckets of field 'site': got 0"):
        FieldVocabulary.hashed("site", 0)
