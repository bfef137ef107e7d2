"""The fields of one request as a matrix of ids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, final

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.samples import Ids
from monocal.serving.engine.field_lookup import FieldLookup
from monocal.serving.engine.number_lookup import NumberLookup
from monocal.serving.engine.request import Request
from monocal.vocabulary.vocabulary import NumericField, Vocabulary


@final
class FieldEncoder:
    """Turns a request's raw values into the ids that `Vocabulary.encode` would give them, without Arrow.

    Arguments:
        vocabulary: Values and ids of the model's fields.
        missing_fields: `"refuse"` a request without one of the fields, or take its values as `"unseen"`.
    """

    def __init__(self, vocabulary: Vocabulary, missing_fields: str) -> None:
        self._lookups: dict[str, FieldLookup | NumberLookup] = {
            one.name: NumberLookup(one) if isinstance(one, NumericField) else FieldLookup(one)
            for one in vocabulary.fields
        }
        self._columns = [(name, place, lookup) for place, (name, lookup) in enumerate(self._lookups.items())]
        self._sizes = np.array(vocabulary.sizes, dtype=np.int64)
        self._refuses_missing = missing_fields == "refuse"

    @property
    def n_bytes(self) -> int:
        return sum(one.n_bytes for one in self._lookups.values())

    def encode(self, request: Request, n_rows: int, *, refuses_missing: bool | None = None) -> Ids:
        """Returns the ids `(n_rows, fields)`; `refuses_missing` overrides what the encoder does by itself."""
        if request.ids is not None:
            return self._checked_ids(request, n_rows)
        try:
            refuses = self._refuses_missing if refuses_missing is None else refuses_missing
            return self._look_up(request, n_rows, refuses)
        except TypeError:
            self._refuse_nested(request)
            raise

    def _look_up(self, request: Request, n_rows: int, refuses_missing: bool) -> Ids:
        fields, shared = request.fields, request.shared
        n_columns = len(self._columns)
        row = [0] * n_columns
        varying: list[int] = []
        parts: list[Any] = []
        n_given = 0
        for name, place, lookup in self._columns:
            if name in fields:
                n_given += 1
                column = fields[name]
                if type(column) is not list:
                    column = _as_list(column, name)
                if len(column) != n_rows:
                    raise InvalidInput.of(
                        f"field {name!r}",
                        f"{len(column)} values",
                        f"{n_rows}, one per candidate",
                        "send a value that all candidates share once, under shared",
                    )
                if n_rows == 1:
                    row[place] = lookup[column[0]]
                    continue
                varying.append(place)
                parts.append(lookup.ids_of(column))
            elif name in shared:
                n_given += 1
                row[place] = lookup[shared[name]]
            elif refuses_missing:
                raise InvalidInput.of(
                    f"field {name!r}",
                    "no values",
                    "every field the model was fitted on",
                    'send it under fields or shared, or start the service with missing fields taken as "unseen"',
                )
        if n_given != len(fields) + len(shared):
            self._refuse_strangers(request)
        if n_rows == 1:
            return np.array([row], dtype=np.int32)
        found = np.fromiter(chain.from_iterable(parts), dtype=np.int32, count=len(varying) * n_rows)
        columns = found.reshape(len(varying), n_rows)
        if len(varying) == n_columns:
            return np.ascontiguousarray(columns.T)
        ids = np.empty((n_rows, n_columns), dtype=np.int32)
        ids[:] = row
        if varying:
            ids[:, varying] = columns.T
        return ids

    def _checked_ids(self, request: Request, n_rows: int) -> Ids:
        if request.fields or request.shared:
            raise InvalidInput.of("ids", "ids and field values", "one of the two", "leave out fields and shared")
        ids = np.asarray(request.ids)
        if ids.shape != (n_rows, self._sizes.shape[0]) or (ids.size and ids.dtype.kind not in "iu"):
            raise InvalidInput.of(
                "ids",
                f"an array of shape {ids.shape} and type {ids.dtype}",
                f"integers of shape ({n_rows}, {self._sizes.shape[0]})",
                "send one id per candidate and field, in the model's field order",
            )
        if ids.size and int(ids.min()) < 0:
            raise InvalidInput.of("ids", int(ids.min()), "ids ≥ 0", "use 0 for unseen")
        if ids.size and bool((ids >= self._sizes).any()):
            ids = np.where(ids < self._sizes, ids, 0)
        return np.ascontiguousarray(ids, dtype=np.int32)

    def _refuse_strangers(self, request: Request) -> None:
        for name in [*request.fields, *request.shared]:
            if name not in self._lookups:
                raise UnknownName.among("field", name, self._lookups)
        twice = next(name for name in request.fields if name in request.shared)
        raise InvalidInput.of(f"field {twice!r}", "values under both fields and shared", "one of the two", "drop one")

    def _refuse_nested(self, request: Request) -> None:
        given = chain(((name, [one]) for name, one in request.shared.items()), request.fields.items())
        for name, column in given:
            for value in column:
                if not isinstance(value, str | int | float | None):
                    self._lookups[name].__missing__(value)


def _as_list(column: Any, name: str) -> list[Any]:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        values: list[Any] = column.tolist()
        return values
    if isinstance(column, Sequence) and not isinstance(column, str | bytes | bytearray):
        return list(column)
    raise InvalidInput.of(
        f"field {name!r}", f"a {type(column).__name__}", "a list with one value per candidate", "wrap it in a list"
    )
