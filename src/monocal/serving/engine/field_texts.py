"""Raw values of one field as the texts by which its vocabulary knows them."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import pyarrow as pa

from monocal.core.errors import InvalidInput, shown
from monocal.core.samples import Ids
from monocal.tables.categories import LARGEST_WHOLE
from monocal.tables.vocabulary import FieldVocabulary

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**64 - 1


@final
class FieldTexts:
    """What values of one field count as, exactly as `FieldVocabulary.encode` sees them offline.

    Integers and booleans are compared as text, a null is a value of its own if it was one at fitting time, 9.0 is 9,
    and other fractions are refused.

    Arguments:
        vocabulary: The field.

    Example:
        >>> site = FieldTexts(FieldVocabulary("site", pa.array(["news", "7", "true"])))
        >>> site.texts_of(["news", 7, 7.0, True, None]), site.encode(["shop", 7, True, None]).tolist()
        (['news', '7', '7', 'true', None], [0, 2, 3, 0])
        >>> site.texts_of([0.5])
        Traceback (most recent call last):
        ...
        monocal.core.errors.InvalidInput: field 'site': got 0.5; expected text, an integer, true, false or null. ...
    """

    __slots__ = ("name", "null_id", "vocabulary")

    def __init__(self, vocabulary: FieldVocabulary) -> None:
        self.name = vocabulary.name
        self.vocabulary = vocabulary
        self.null_id = vocabulary.null_id

    def texts_of(self, column: list[Any]) -> list[str | None]:
        """Returns the text of every value; None for a null."""
        return [value if isinstance(value, str) else self._text_of(value) for value in column]

    def encode(self, column: list[Any]) -> Ids:
        """Returns the ids of values by way of Arrow, where there is no compiled look-up."""
        texts = self.texts_of(column)
        try:
            said = pa.array(texts, pa.string())
        except UnicodeEncodeError:  # half a character is no text that a table could hold, so it is unseen
            said = pa.array([text and text.encode("utf-8", "backslashreplace").decode() for text in texts], pa.string())
        return self.vocabulary.encode(said)

    def _text_of(self, value: Any) -> str | None:
        if value is None:
            return None
        if isinstance(value, bool | np.bool_):
            return "true" if value else "false"
        if isinstance(value, int | np.integer) and _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
            return str(value)
        number = float(value) if isinstance(value, float | np.floating) else 0.5
        if number.is_integer() and abs(number) <= LARGEST_WHOLE:
            return str(int(number))
        if np.isnan(number):
            return None
        raise InvalidInput.of(
            f"field {self.name!r}",
            "an integer beyond 64 bits" if isinstance(value, int) else shown(value),
            "text, an integer, true, false or null",
            "send the category as text; a quantity is a field that the model was fitted on with numeric",
        )
