"""Field ids of some rows of a log, read from where they lie whenever somebody looks at them."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

_SMALL = np.iinfo(np.int32).max


@final
class ChosenIds:
    """Stands where a matrix `(n, F)` of ids stands, and holds a row number of four bytes instead of each row's ids.

    A member of a team has blocks of rows of the log, and fits look at some of them: those before a cut, those after.
    With 21 fields a copy of the ids would be 84 bytes for each such row, of a log that lies on disk, whose pages the
    system may drop and all processes of a machine share. Choosing rows or several fields chooses among row numbers;
    a single field, or `np.asarray`, reads. So what looks at many rows does it in blocks.

    Arguments:
        log: Ids of all rows of the log, a memory map or an array.
        rows: Which of them.
        fields: Which columns; None for all.

    Example:
        >>> log = np.arange(12, dtype=np.int32).reshape(6, 2)
        >>> ids = ChosenIds(log, np.array([1, 4, 5]))
        >>> np.asarray(ids[1:]).tolist(), ids[:, 0].tolist(), ids.shape
        ([[8, 9], [10, 11]], [2, 8, 10], (3, 2))
    """

    ndim = 2

    def __init__(
        self, log: NDArray[np.int32], rows: NDArray[np.integer[Any]], fields: NDArray[np.int64] | None = None
    ) -> None:
        self._log, self._fields = log, fields
        self._rows = rows.astype(np.int32) if rows.dtype != np.int32 and log.shape[0] <= _SMALL else rows

    @property
    def shape(self) -> tuple[int, int]:
        return self._rows.shape[0], self._log.shape[1] if self._fields is None else self._fields.shape[0]

    @property
    def dtype(self) -> np.dtype[np.int32]:
        return self._log.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        rows, field = key if isinstance(key, tuple) else (key, slice(None))
        chosen = self._rows[rows]
        if isinstance(field, int | np.integer):
            return self._log[chosen, field if self._fields is None else self._fields[field]]
        every = np.arange(self._log.shape[1]) if self._fields is None else self._fields
        everything = isinstance(field, slice) and field == slice(None)
        return ChosenIds(self._log, chosen, self._fields if everything else every[field])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("ids of chosen rows are read into a new array; pass copy=None")
        ids = np.take(self._log, self._rows, axis=0)
        ids = ids if self._fields is None else ids[:, self._fields]
        return ids if dtype is None else ids.astype(dtype, copy=False)
