"""Fields as ids: how many each has, where they stand in one table, and the basis that a field of numbers enters by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monocal.core.errors import InvalidInput
from monocal.core.scores import Floats, check_length

Ids = NDArray[np.int32]

NULL_ID, FIRST_ID = 1, 2
"""Id 0 stays the unseen value; a null is a value of its own."""

STEPS = 2048
"""Ids between two knots. A number is rounded to the nearest: what a model adds for it is off by at most 1/4096 of the
difference between two neighbouring knots, far below what any log can tell."""

MOST_KNOTS = 17
OUTER_QUANTILES = 0.01, 0.99
"""Beyond the outer knots everything is constant, so that no outlier stretches the last piece."""

_BLOCK_ROWS = 1 << 16


def check_ids(features: Any, n_rows: int) -> Ids:
    """Returns field ids as an int32 matrix without copying one that already is (memory maps stay on disk)."""
    # ids of chosen rows stand where an array stands, and are not read here
    matrix: Any = features if hasattr(features, "dtype") and hasattr(features, "shape") else np.array(features)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise InvalidInput.of(
            "features", f"an array of shape {matrix.shape}", "a matrix (rows, fields) of ids", "stack fields as columns"
        )
    check_length(matrix, n_rows, "features")
    if matrix.dtype.kind not in "iu":
        raise InvalidInput.of(
            "features",
            f"values of type {matrix.dtype}",
            "integer ids per field value (0 = unseen)",
            "use monocal.fit on a table with raw values, or encode them with monocal.vocabulary.Vocabulary",
        )
    for start in range(0, n_rows, _BLOCK_ROWS):
        block = np.asarray(matrix[start : start + _BLOCK_ROWS])
        if block.size and int(block.min()) < 0:
            row, field = (int(i) for i in np.argwhere(block < 0)[0])
            raise InvalidInput.of(
                "features", f"{block[row, field]} at row {start + row}, field {field}", "ids ≥ 0", "use 0 for unseen"
            )
    result: Ids = matrix if matrix.dtype == np.int32 else matrix.astype(np.int32)
    return result


# Numbers as ids


def learn_knots(values: ArrayLike, counts: ArrayLike) -> tuple[float, ...]:
    """Returns up to seventeen knots at equally spaced quantiles; all the values if there are no more than that.

    Arguments:
        values: Distinct numbers; NaN is left out.
        counts: How many rows have each.

    Example:
        >>> learn_knots([3.0, 1.0, np.nan], [5, 5, 9])
        (1.0, 3.0)
        >>> knots = learn_knots(np.arange(1000.0), np.ones(1000))
        >>> len(knots), knots[0], knots[8], knots[-1]
        (17, 9.0, 499.0, 989.0)
    """
    numbers, masses = np.asarray(values, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    known = np.isfinite(numbers) & (masses > 0.0)
    numbers, masses = numbers[known], masses[known]
    order = np.argsort(numbers, kind="stable")
    numbers, masses = numbers[order], masses[order]
    if len(numbers) > MOST_KNOTS:
        mass = np.cumsum(masses)
        wanted = np.linspace(*OUTER_QUANTILES, MOST_KNOTS) * mass[-1]
        numbers = numbers[np.minimum(np.searchsorted(mass, wanted - 1e-9), len(numbers) - 1)]
    return tuple(float(number) for number in np.unique(numbers))


def n_numeric_ids(n_knots: int) -> int:
    """Returns how many ids a field with so many knots has, those of unseen and null included."""
    return FIRST_ID + max(n_knots - 1, 0) * STEPS + 1


def ids_of_numbers(numbers: Floats, knots: NDArray[np.float64]) -> Ids:
    """Returns the id of every number; beyond the outer knots that of the knot, and of NaN that of a null.

    Example:
        >>> ids_of_numbers(np.array([1.0, 1.5, 2.0, 99.0, np.nan]), np.array([1.0, 2.0])).tolist()
        [2, 1026, 2050, 2050, 1]
    """
    if not len(knots):
        return np.where(np.isnan(numbers), NULL_ID, FIRST_ID).astype(np.int32)
    places = np.interp(numbers, knots, np.arange(len(knots), dtype=np.float64))
    steps = np.rint(np.nan_to_num(places) * STEPS) + FIRST_ID
    return np.where(np.isnan(numbers), NULL_ID, steps).astype(np.int32)


def numbers_of_ids(ids: Ids, knots: NDArray[np.float64]) -> Floats:
    """Returns the number that each id stands for; NaN for a null and for an unseen value.

    Example:
        >>> numbers_of_ids(np.array([0, 1, 1026], dtype=np.int32), np.array([1.0, 2.0])).tolist()
        [nan, nan, 1.5]
    """
    if not len(knots):
        return np.full(ids.shape, np.nan)
    found = np.interp((ids - FIRST_ID) / STEPS, np.arange(len(knots)), knots)
    return np.where(ids >= FIRST_ID, found, np.nan)


@lru_cache(maxsize=32)
def smooth_basis(n_knots: int) -> Floats:
    r"""Returns `(ids, coefficients)`: what each coefficient adds at every id of a field with so many knots.

    Between knots a shift is a straight line, so it is its values β at the knots. With D the second differences,

    .. math:: \beta = s\,l + D^{+} r, \qquad \tfrac{\lambda}{2}\big(s^2 + \|r\|^2\big)

    is a straight line l with slope s plus what bends, and the penalty is that of the second differences beside a
    weaker one of the slope. Coefficients are those along the singular vectors of :math:`D^{+}`: with knots at
    quantiles they are nearly independent, which the solver and the estimate of λ rely on. Line and bends are scaled
    to a mean square of 1 each, so that λ is 1 over the variance of the shift, as in other fields.

    The first coefficient is that of the unseen value and adds nothing; the second is the shift of a null.

    References:
        Eilers, Marx. Flexible smoothing with B-splines and penalties. 1996.

    Arguments:
        n_knots: How many knots the field has.

    Example:
        Four knots have a line and two bends, none of which moves the mean over the knots.

        >>> basis = smooth_basis(4)
        >>> basis.shape, np.abs(basis[FIRST_ID::STEPS, 2:].mean(axis=0)).max().round(9).item()
        ((6147, 5), 0.0)
    """
    basis = np.zeros((n_numeric_ids(n_knots), 2 + max(n_knots - 1, 0)))
    basis[NULL_ID, 1] = 1.0
    if n_knots > 1:
        line = np.arange(n_knots) - (n_knots - 1) / 2.0
        at_knots = (line / np.sqrt(np.mean(line**2)))[:, None]
        if n_knots > 2:
            curved, sizes, _ = np.linalg.svd(np.linalg.pinv(np.diff(np.eye(n_knots), n=2, axis=0)), full_matrices=False)
            curved = curved * sizes
            at_knots = np.column_stack([at_knots, curved / np.sqrt(np.sum(curved**2) / n_knots)])
        places = np.arange(basis.shape[0] - FIRST_ID) / STEPS
        left = np.minimum(places.astype(np.int64), n_knots - 2)
        share = (places - left)[:, None]
        basis[FIRST_ID:, 2:] = (1.0 - share) * at_knots[left] + share * at_knots[left + 1]
    basis.flags.writeable = False
    return basis


# Fields


@final
@dataclass(frozen=True, eq=False)
class FieldSchema:
    """What is known of the fields of rows, and how each of them enters a model.

    A model has one number per id in one table, field after field: its shifts. A category enters by its own shift. A
    number enters by a smooth curve, whose few coefficients stand behind the shifts of its many ids (`smooth_basis`).
    Whoever learns shifts asks the schema and never what kind a field is.

    Attributes:
        sizes: How many ids each field has, id 0 included.
        n_knots: Knots per field of numbers, 0 for categories.
        columns: Which column of the rows' ids each field is; None where all columns are the fields, in order.

    Example:
        >>> schema = FieldSchema(np.array([3, n_numeric_ids(2)]), (0, 2))
        >>> shifts = schema.expand(np.array([0.0, 0.5, -0.5, 0.0, 0.1, 2.0]))
        >>> shifts[:5].tolist(), shifts[5].item(), shifts[-1].item(), schema.starts.tolist()
        ([0.0, 0.5, -0.5, 0.0, 0.1], -2.0, 2.0, [0, 3, 6])
        >>> schema.coefficients(shifts).round(9).tolist()
        [0.0, 0.5, -0.5, 0.0, 0.1, 2.0]
    """

    sizes: NDArray[np.int64]
    n_knots: tuple[int, ...]
    columns: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, sizes: ArrayLike, n_knots: Sequence[int] | None = None) -> FieldSchema:
        """Returns fields with so many ids each; None means that none holds numbers."""
        counts = np.asarray(sizes, dtype=np.int64).reshape(-1)
        return cls(counts, (0,) * counts.size if n_knots is None else tuple(int(n) for n in n_knots))

    @classmethod
    def of_offsets(cls, offsets: NDArray[np.int64], n_knots: Sequence[int] | None = None) -> FieldSchema:
        """Returns the fields of a table whose fields start at `offsets`, as fits keep them."""
        return cls.of(np.diff(offsets), None if n_knots is None else tuple(n_knots)[: len(offsets) - 1])

    @classmethod
    def of_ids(cls, ids: Ids | None, n_knots: Sequence[int] | None = None) -> FieldSchema:
        """Returns the fields of a matrix of ids, each as large as its largest id or its knots ask for."""
        if ids is None:
            return cls.of([])
        largest = np.zeros(ids.shape[1], dtype=np.int64)
        for start in range(0, ids.shape[0], _BLOCK_ROWS):
            largest = np.maximum(largest, np.asarray(ids[start : start + _BLOCK_ROWS]).max(axis=0))
        knots = (0,) * len(largest) if n_knots is None else tuple(n_knots)
        return cls.of([n_numeric_ids(n) if n else int(last) + 1 for n, last in zip(knots, largest, strict=True)], knots)

    def __len__(self) -> int:
        return int(self.sizes.shape[0])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where each field's ids start in the table; the last entry is the total."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """The column of each field among the rows' ids."""
        return np.arange(self.sizes.size) if self.columns is None else self.columns

    @property
    def n_ids(self) -> int:
        """Entries of the table."""
        return int(self.offsets[-1])

    @property
    def n_values(self) -> NDArray[np.int64]:
        """Values that a person would count: knots of a field of numbers, ids but the unseen one of others."""
        knots = np.asarray(self.n_knots, dtype=np.int64)
        return np.where(knots > 0, knots, self.sizes - 1)

    @property
    def is_numeric(self) -> NDArray[np.bool_]:
        """Which fields hold numbers."""
        return np.asarray(self.n_knots, dtype=np.int64) > 0

    @property
    def is_identity(self) -> bool:
        """Whether every coefficient is the shift of one id."""
        return not any(self.n_knots)

    def chosen(self, fields: NDArray[np.int64]) -> FieldSchema:
        """Returns some of the fields, of rows that keep the ids of all."""
        return FieldSchema(self.sizes[fields], tuple(self.n_knots[field] for field in fields), self.places[fields])

    def alone(self) -> FieldSchema:
        """Returns the same fields of rows whose ids have these fields alone."""
        return FieldSchema(self.sizes, self.n_knots)

    def by_id(self, of_fields: NDArray[Any]) -> NDArray[Any]:
        """Returns a number per field as a number per id."""
        return np.repeat(of_fields, self.sizes)

    def ids_of(self, field: int) -> slice:
        """Returns where a field stands in the table."""
        return slice(int(self.offsets[field]), int(self.offsets[field + 1]))

    # What a row gets from a table

    def add_shifts(self, logits: Floats, ids: Ids | None, shifts: Floats) -> Floats:
        """Returns `logits` plus every row's shifts; ids beyond a field's table count as unseen (id 0).

        Example:
            >>> schema = FieldSchema.of([3])
            >>> schema.add_shifts(np.zeros(3), np.array([[1], [2], [7]], np.int32), np.array([0.0, 0.5, -1.0])).tolist()
            [0.5, -1.0, 0.0]
        """
        total = np.array(logits, dtype=np.float64)
        if ids is None:
            return total
        # by blocks, whose columns of places stay small beside many rows
        for first in range(0, total.shape[0], _BLOCK_ROWS):
            rows = slice(first, first + _BLOCK_ROWS)
            block = np.asarray(ids[rows])
            for start, end, column in zip(self.offsets[:-1], self.offsets[1:], self.places, strict=True):
                own = block[:, column]
                total[rows] += shifts[start + np.where(own < end - start, own, 0)]
        return total

    def sums(self, ids: Ids, columns: Floats) -> Floats:
        """Returns the sum of a number per row over the rows of every id."""
        total = np.zeros(self.offsets[-1])
        for start, end, column in zip(self.offsets[:-1], self.offsets[1:], self.places, strict=True):
            total[start:end] += np.bincount(ids[:, column], columns, end - start)
        return total

    def between_knots(self, field: int, ids: NDArray[Any]) -> NDArray[Any]:
        """Returns a field's ids with all numbers between two knots as one value."""
        if not self.n_knots[field]:
            return ids
        return np.where(ids < FIRST_ID, ids, FIRST_ID + (ids - FIRST_ID) // STEPS)

    # Coefficients behind a table

    @cached_property
    def _bases(self) -> list[Floats | None]:
        return [smooth_basis(n) if n else None for n in self.n_knots]

    @cached_property
    def n_coefficients(self) -> NDArray[np.int64]:
        """How many coefficients each field has."""
        pairs = zip(self.sizes, self._bases, strict=True)
        return np.array([size if basis is None else basis.shape[1] for size, basis in pairs], dtype=np.int64)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each field's coefficients start; the last entry is the total."""
        return np.concatenate([[0], np.cumsum(self.n_coefficients)]).astype(np.int64)

    def expand(self, coefficients: Floats) -> Floats:
        """Returns the shift of every id."""
        return self._each(coefficients, self.starts, lambda basis, values: basis @ values)

    def coefficients(self, shifts: Floats) -> Floats:
        """Returns the coefficients of shifts that have some."""
        return self._each(shifts, self.offsets, _coefficients_of)

    def contract(self, by_id: Floats) -> Floats:
        """Returns the gradient by coefficients, from the one by ids."""
        return self._each(by_id, self.offsets, lambda basis, values: basis.T @ values)

    def contract_curvature(self, by_id: Floats) -> Floats:
        """Returns the diagonal of the second derivative by coefficients, from the one by ids."""
        return self._each(by_id, self.offsets, lambda basis, values: (basis**2).T @ values)

    def common(self, ids: Ids) -> NDArray[Any]:
        """Returns what every row's fields add when all coefficients of one field are 1, `(n, F)`.

        Arguments:
            ids: Of the fields alone.
        """
        if self.is_identity:
            return ids > 0
        columns = [
            (ids[:, f] > 0).astype(np.float64) if basis is None else basis[:, 1:].sum(axis=1)[ids[:, f]]
            for f, basis in enumerate(self._bases)
        ]
        return np.column_stack(columns)

    def of_field(self, field: int, shifts: Floats, curvature: Floats) -> tuple[Floats, Floats]:
        """Returns a field's coefficients and their curvature, from the tables of all ids; those of the unseen first."""
        here, basis = self.ids_of(field), self._bases[field]
        if basis is None:
            return shifts[here], curvature[here]
        return _coefficients_of(basis, shifts[here]), (basis**2).T @ curvature[here]

    def variances(self, field: int, information: Floats, formula: Callable[[Floats], Floats]) -> Floats:
        """Returns the variance that a field's coefficients leave every one of its ids.

        Arguments:
            field: Which.
            information: Curvature of the loss along the shift of each of its ids.
            formula: The variance of coefficients with so much information.
        """
        basis = self._bases[field]
        if basis is None:
            return formula(information)
        squares = basis**2
        result: Floats = squares @ formula(squares.T @ information)
        return result

    def known_values(self, with_rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Returns which ids stand for a value that had rows: between its knots one number is as known as another."""
        known = with_rows.copy()
        for field in np.flatnonzero(self.is_numeric):
            numbers = slice(self.offsets[field] + FIRST_ID, self.offsets[field + 1])
            known[numbers] = known[numbers].any()
        known[self.offsets[:-1]] = False
        return known

    def _each(self, values: Floats, offsets: NDArray[np.int64], turn: Callable[[Floats, Floats], Floats]) -> Floats:
        if self.is_identity:
            return values
        parts = []
        for f, basis in enumerate(self._bases):
            here = values[offsets[f] : offsets[f + 1]]
            parts.append(here if basis is None else turn(basis, here))
        return np.concatenate(parts)


def _coefficients_of(basis: Floats, shifts: Floats) -> Floats:
    knots = np.r_[0, NULL_ID, FIRST_ID : basis.shape[0] : STEPS]
    return np.asarray(np.linalg.lstsq(basis[knots], shifts[knots], rcond=None)[0], dtype=np.float64)
