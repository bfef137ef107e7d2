"""Texts of requests have the same ids online as offline, whatever they hold and however they are looked up."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monocal.compiled.jit import LONGEST_VALUE
from monocal.core.errors import InvalidInput
from monocal.serving import encode
from monocal.serving.encode import FieldEncoder
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

KNOWN = ["news", "", "7", "true", None, "a" * 8, "a" * 9, "Zürich", "9", "x" * 900, "in\0side"]
SITE = FieldVocabulary("site", pa.array(KNOWN))
DEVICE = FieldVocabulary.hashed("device", 50)
PLAIN = FieldVocabulary("plain", pa.array(["news", ""]))
ENCODER = FieldEncoder(Vocabulary((SITE, DEVICE, PLAIN)), refuses_missing=False)

VALUES = st.sampled_from([*KNOWN, 7, True, 9.0, "shop", "\0", "a\0b", 2**63, float("nan")]) | st.text(max_size=20)


def offline(field, values):
    """What a table with these values would give: integers and whole numbers as text, NaN as null."""
    texts = []
    for value in values:
        whole = isinstance(value, float) and value.is_integer()
        is_null = value is None or value != value
        text = "true" if value is True else str(int(value) if whole else value)
        texts.append(None if is_null else text)
    return field.encode(pa.array(texts, pa.string())).tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=12), VALUES)
def test_values_of_all_kinds_are_looked_up_as_they_are_encoded(values, shared):
    ids = ENCODER.encode({"device": values, "site": values}, {"plain": shared}, None, len(values))
    expected = [offline(SITE, values), offline(DEVICE, values), offline(PLAIN, [shared]) * len(values)]
    assert ids.T.tolist() == expected


def test_a_machine_without_compiled_loops_finds_the_same_ids(monkeypatch):
    values = [*KNOWN[:9], 7, "shop", "\ud800"]
    asked = {"site": values, "device": [*values[:-1], "end"], "plain": values}
    compiled = ENCODER.encode(asked, {}, None, len(values))
    monkeypatch.setattr(encode, "numba_is_installed", lambda: False)
    plain = FieldEncoder(Vocabulary((SITE, DEVICE, PLAIN)), refuses_missing=False)
    assert plain._table is None
    assert np.array_equal(plain.encode(asked, {}, None, len(values)), compiled)


def test_a_long_text_is_unseen_online_as_offline():
    longest = "ü" * (LONGEST_VALUE // 2)
    for values in (
        ["x" * 1001],
        [longest],
        [longest + "x"],
        ["x" * (8 << 20)],
        ["\0" + "x" * 5_000],
        ["a", longest * 2, 7],
    ):
        ids = ENCODER.encode({"device": values, "site": values, "plain": values}, {}, None, len(values))
        assert ids.T.tolist() == [offline(field, values) for field in (SITE, DEVICE, PLAIN)]
        assert (ids[:, 1] > 0).tolist() == [len(str(value).encode()) <= LONGEST_VALUE for value in values]


def test_a_fraction_among_the_values_of_a_field_is_refused():
    for values in (["news", 0.5], [None, 0.5]):
        with pytest.raises(InvalidInput, match="got 0.5; expected text, an integer"):
            ENCODER.encode({"site": values}, {}, None, 2)


def test_orders_of_the_fields_are_remembered_within_bounds_and_change_nothing():
    names = [f"field_{place}" for place in range(6)]
    values = [f"value {place}" for place in range(9)]
    encoder = FieldEncoder(
        Vocabulary(tuple(FieldVocabulary(name, pa.array(values)) for name in names)), refuses_missing=True
    )
    rng = np.random.default_rng(0)
    for _ in range(200):
        order = [int(value) for value in rng.permutation(6)]
        n_shared = int(rng.integers(0, 6))
        shared = {names[place]: values[place] for place in order[:n_shared]}
        fields = {names[place]: [values[place], values[8]] for place in order[n_shared:]}
        ids = encoder.encode(fields, shared, None, 2).tolist()
        assert ids == [[1, 2, 3, 4, 5, 6], [place + 1 if names[place] in shared else 9 for place in range(6)]]
    assert len(encoder._layouts) <= encode._MOST_LAYOUTS
