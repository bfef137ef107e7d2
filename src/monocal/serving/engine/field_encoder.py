"""The fields of one request as a matrix of ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import numba_is_installed
from monocal.compiled.limits import TEXT_ROOM
from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.samples import Ids
from monocal.serving.engine.field_texts import FieldTexts
from monocal.serving.engine.number_lookup import NumberLookup
from monocal.serving.engine.range_checks import range_checks
from monocal.serving.engine.request import Request
from monocal.tables.vocabulary import NumericField, Vocabulary

if TYPE_CHECKING:
    from monocal.serving.engine.text_table import TextTable

_END, _PADDING = "\0", "\0" * TEXT_ROOM
"""What ends a text, and what follows the last one."""

_LISTS = {list}

_MOST_LAYOUTS = 64
"""Different ways to give the fields that are remembered; callers have one or two, and none can make it grow."""


class _Layout(NamedTuple):
    """Which fields a request has, and how: known by the names it gives, so that these are checked once."""

    columns: NDArray[np.int64]
    n_varying: int
    has_only_categories: bool


@final
class FieldEncoder:
    """Turns a request's raw values into the ids that `Vocabulary.encode` would give them.

    Arguments:
        vocabulary: Values and ids of the model's fields.
        missing_fields: `"refuse"` a request without one of the fields, or take its values as `"unseen"`.
    """

    def __init__(self, vocabulary: Vocabulary, missing_fields: str) -> None:
        self._lookups: dict[str, FieldTexts | NumberLookup] = {
            field.name: NumberLookup(field) if isinstance(field, NumericField) else FieldTexts(field)
            for field in vocabulary.fields
        }
        self._places = {name: place for place, name in enumerate(self._lookups)}
        self._sizes = np.array(vocabulary.sizes, dtype=np.int64)
        self._refuses_missing = missing_fields == "refuse"
        self._table = _table_of(vocabulary)
        self._layouts: dict[Any, _Layout] = {}
        self._sizes_32 = np.minimum(self._sizes, np.iinfo(np.int32).max).astype(np.int32)
        self.checks = range_checks(is_compiled=self._table is not None)

    @property
    def n_bytes(self) -> int:
        return 0 if self._table is None else self._table.n_bytes

    def encode(self, request: Request, n_rows: int) -> Ids:
        """Returns the ids `(n_rows, fields)`."""
        if request.ids is not None:
            return self._checked_ids(request, n_rows)
        fields, shared = request.fields, request.shared
        names = (*fields, None, *shared)
        layout = self._layouts.get(names) or self._new_layout(names, request)
        ids = np.zeros((n_rows, self._sizes.shape[0]), dtype=np.int32)
        columns: Any = fields.values()
        values: Any = shared.values()
        if (
            layout.has_only_categories
            and _LISTS.issuperset(map(type, columns))
            and (n_rows == 1 or {n_rows}.issuperset(map(len, columns)))
        ):
            try:
                given = [text for (text,) in columns] if n_rows == 1 else [*map(_END.join, columns)]
                texts = _END.join([*given, *values, _PADDING])
            except (TypeError, ValueError):  # not all of them are text, or one list has not one
                pass
            else:
                if self._find(texts, layout, ids):
                    return ids
        return self._encode_mixed(request, layout, ids)

    def _find(self, texts: str, layout: _Layout, ids: Ids) -> bool:
        return self._table is not None and self._table.find(texts, layout.columns, layout.n_varying, ids)

    def _encode_mixed(self, request: Request, layout: _Layout, ids: Ids) -> Ids:
        """Looks up values of all kinds: texts, integers, nulls, numbers of numeric fields."""
        n_rows = ids.shape[0]
        columns = {name: _column(column, n_rows, name) for name, column in request.fields.items()}
        columns |= {name: [value] for name, value in request.shared.items()}
        texts: dict[str, list[str | None]] = {}
        for name, column in columns.items():
            lookup = self._lookups[name]
            if isinstance(lookup, NumberLookup):
                ids[:, self._places[name]] = lookup.ids_of(column)
            else:
                texts[name] = lookup.texts_of(column)
        given = [text or "" for column in texts.values() for text in column]
        if self._table is not None and not self._find(_END.join([*given, _PADDING]), layout, ids):
            self._table.find_each(given, layout.columns, layout.n_varying, ids)
        for name, column in texts.items():
            place, lookup = self._places[name], self._lookups[name]
            assert isinstance(lookup, FieldTexts)
            if self._table is None:
                ids[:, place] = lookup.encode(column)
            elif None in column:
                is_null = np.array([text is None for text in column])
                ids[:, place] = np.where(is_null, lookup.null_id, ids[:, place])
        return ids

    def _new_layout(self, names: tuple[Any, ...], request: Request) -> _Layout:
        """Checks which fields are given; a request with the same names need not be checked again."""
        fields, shared = request.fields, request.shared
        given = [name for name in self._places if name in fields or name in shared]
        if self._refuses_missing and len(given) < len(self._places):
            missing = next(name for name in self._places if name not in given)
            raise InvalidInput.of(
                f"field {missing!r}",
                "no values",
                "every field the model was fitted on",
                'send it under fields or shared, or start the service with missing fields taken as "unseen"',
            )
        if len(given) != len(fields) + len(shared):
            self._refuse_strangers(request)
        varying, single = (
            [self._places[name] for name in part if isinstance(self._lookups[name], FieldTexts)]
            for part in (fields, shared)
        )
        columns = np.array([*varying, *single], np.int64)
        layout = _Layout(columns, len(varying), len(columns) == len(given))
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        self._layouts[names] = layout
        return layout

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
        if ids.dtype == np.int32 and ids.flags.carray and self.checks.all_known(ids, self._sizes_32):
            return ids
        if ids.size and int(ids.min()) < 0:
            raise InvalidInput.of("ids", int(ids.min()), "ids ≥ 0", "use 0 for unseen")
        if ids.size and bool((ids >= self._sizes).any()):
            ids = np.where(ids < self._sizes, ids, 0)
        found = np.ascontiguousarray(ids, dtype=np.int32)
        # compiled loops would be compiled anew for ids that are read-only, such as those of a binary body
        return found if found.flags.writeable else found.copy()

    def _refuse_strangers(self, request: Request) -> None:
        for name in [*request.fields, *request.shared]:
            if name not in self._lookups:
                raise UnknownName.among("field", name, self._lookups)
        twice = next(name for name in request.fields if name in request.shared)
        raise InvalidInput.of(f"field {twice!r}", "values under both fields and shared", "one of the two", "drop one")


def _table_of(vocabulary: Vocabulary) -> TextTable | None:
    """The compiled look-up; None without numba or without categories, where Arrow does the same."""
    if not vocabulary.category_names or not numba_is_installed():
        return None
    # defining the loops loads numba, which a model without categories does not need
    from monocal.serving.engine.text_table import TextTable

    return TextTable(vocabulary)


def _column(column: Any, n_rows: int, name: str) -> list[Any]:
    values = column if type(column) is list else _as_list(column, name)
    if len(values) != n_rows:
        raise InvalidInput.of(
            f"field {name!r}",
            f"{len(values)} values",
            f"{n_rows}, one per candidate",
            "send a value that all candidates share once, under shared",
        )
    return values


def _as_list(column: Any, name: str) -> list[Any]:
    if isinstance(column, np.ndarray) and column.ndim == 1:
        values: list[Any] = column.tolist()
        return values
    if isinstance(column, Sequence) and not isinstance(column, str | bytes | bytearray):
        return list(column)
    raise InvalidInput.of(
        f"field {name!r}", f"a {type(column).__name__}", "a list with one value per candidate", "wrap it in a list"
    )
