"""Hashed fields have the same ids online as offline."""

import pyarrow as pa
import pytest

from monocal.core.errors import InvalidInput
from monocal.serving.engine.field_lookup import FieldLookup
from monocal.vocabulary.vocabulary import FieldVocabulary


def test_hashed_field_is_looked_up_as_it_is_encoded():
    field = FieldVocabulary.hashed("device", 50)
    texts = ["a99f214a", "7", "true", ""]
    assert [FieldLookup(field)[text] for text in texts] == field.encode(pa.array(texts)).tolist()
    assert FieldLookup(field)[7] == FieldLookup(field)["7"]
    assert FieldLookup(field)[True] == FieldLookup(field)["true"]
    assert FieldLookup(field)[None] == field.encode(pa.array([None], pa.string()))[0]


def test_a_text_of_megabytes_is_refused_before_it_is_hashed():
    device = FieldLookup(FieldVocabulary.hashed("device", 50))
    assert device["x" * 1000] > 0
    with pytest.raises(InvalidInput, match="field 'device': got a text of 8388608 characters; wanted at most 1000"):
        device["x" * (8 << 20)]


def test_many_values_of_a_hashed_field_are_hashed_at_once_and_alike(monkeypatch):
    field = FieldVocabulary.hashed("device", 50)
    lookup = FieldLookup(field)
    values = [*(f"device {k}" * (k % 90) for k in range(200)), 7, None, True]
    one_by_one = [lookup[value] for value in values]
    monkeypatch.setattr(FieldVocabulary, "hashed_id", None)  # a body of eight megabytes would take a second this way
    assert list(lookup.ids_of(values)) == one_by_one
    with pytest.raises(InvalidInput, match="got a text of 1001 characters"):
        lookup.ids_of([*values, "x" * 1001])
    with pytest.raises(InvalidInput, match="got 0.5; wanted text, an integer"):
        lookup.ids_of([*values, 0.5])
