"""Spellings of true and false, of which a field usually knows one."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from monocal.core.samples import Ids

SPELLINGS = (("true", "True", "TRUE"), ("false", "False", "FALSE"))
"""As Arrow, JSON and Spark write them, as Python does, and as spreadsheets do."""


def other_spellings(ids_of: Callable[[pa.Array], Ids]) -> dict[str, int]:
    """Returns spellings of true and false that are not among a field's values, with the id of the one that is.

    A data frame's True comes out of a CSV file as another text than out of a Parquet file. Where a field has several
    spellings of one boolean among its values, they were told apart when it was learned, and nothing is added.

    Arguments:
        ids_of: Ids of texts among the values, 0 for one that is not there.

    Example:
        >>> import numpy as np
        >>> other_spellings(lambda texts: np.array([7 if text == "True" else 0 for text in texts.to_pylist()]))
        {'true': 7, 'TRUE': 7}
    """
    found: dict[str, int] = {}
    for words in SPELLINGS:
        ids = ids_of(pa.array(words)).tolist()
        known = [place for place in ids if place > 0]
        if len(known) == 1:
            found |= {word: known[0] for word, place in zip(words, ids, strict=True) if place == 0}
    return found
