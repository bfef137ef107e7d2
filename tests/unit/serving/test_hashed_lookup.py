"""Hashed fields have the same ids online as offline."""

import pyarrow as pa

from monocal.serving.engine.field_lookup import FieldLookup
from monocal.vocabulary.vocabulary import FieldVocabulary


def test_hashed_field_is_looked_up_as_it_is_encoded():
    field = FieldVocabulary.hashed("device", 50)
    texts = ["a99f214a", "7", "true", ""]
    assert [FieldLookup(field)[text] for text in texts] == field.encode(pa.array(texts)).tolist()
    assert FieldLookup(field)[7] == FieldLookup(field)["7"]
    assert FieldLookup(field)[True] == FieldLookup(field)["true"]
    assert FieldLookup(field)[None] == field.encode(pa.array([None], pa.string()))[0]
