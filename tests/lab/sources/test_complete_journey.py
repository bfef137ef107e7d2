"""The source of promotions on a few rows in the format of the package's files."""

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.sources import CompleteJourney
from monocal.lab.sources import complete_journey as module

PLACED = [
    # product, store, display, mailer, week
    (11, 7, "9", "0", 1),
    (11, 7, "9", "0", 2),
    (12, 7, "0", "A", 2),
    (12, 8, "0", "A", 2),
    (13, 8, "3", "D", 2),
    (11, 7, "0", "A", 6),
    (99, 8, "0", "0", 6),
    (11, 7, "0", "A", 53),
]
BOUGHT = [
    # household, store, product, quantity, coupon, matched coupon, week
    (1, 7, 11, 1, 0.0, 0.0, 1),
    (1, 7, 11, 2, 0.0, 0.0, 2),
    (1, 7, 11, 1, 0.0, 0.0, 2),
    (1, 8, 12, 1, 0.0, 0.0, 2),
    (2, 8, 12, 1, 0.5, 0.0, 2),
    (3, 7, 12, 0, 0.0, 0.0, 2),
    (3, 8, 13, 1, 0.0, 0.0, 3),
    (3, 8, 99, 1, 0.0, 0.25, 6),
]


def write(folder, placed=PLACED, bought=BOUGHT):
    folder.mkdir(parents=True, exist_ok=True)
    names = ("product_id", "store_id", "display_location", "mailer_location", "week")
    pq.write_table(
        pa.table(dict(zip(names, map(list, zip(*placed, strict=True)), strict=True))), folder / "promotions.parquet"
    )
    names = ("household_id", "store_id", "product_id", "quantity", "coupon_disc", "coupon_match_disc", "week")
    table = dict(zip(names, map(list, zip(*bought, strict=True)), strict=True))
    table |= {"basket_id": [5] * len(bought), "sales_value": [1.5] * len(bought), "retail_disc": [0.0] * len(bought)}
    table |= {"transaction_timestamp": pa.array([datetime(2017, 1, 3)] * len(bought), pa.timestamp("ns"))}
    pq.write_table(pa.table(table), folder / "transactions.parquet")
    products = {
        "product_id": [13, 11, 12],
        "manufacturer_id": [2, 69, 69],
        "department": ["MEAT", "GROCERY", "GROCERY"],
        "brand": ["Private", "National", "National"],
        "product_category": ["HAM", None, "SALT"],
        "product_type": ["HAM SLICED", "ICE", "SEA SALT"],
        "package_size": [None, "22 LB", "1 LB"],
    }
    pq.write_table(pa.table(products), folder / "products.parquet")
    return folder


def rows_of(folder, tasks=module.TASKS):
    found = []
    for batch in CompleteJourney(tasks).open(folder).batches():
        found += batch.to_pylist()
    return {(int(row["product_id"]), int(row["store_id"]), row["week"]): row for row in found}


def test_labels_are_purchases_of_the_same_product_store_and_week(tmp_path):
    rows = rows_of(write(tmp_path))
    labels = {key: (row["sold"], row["sold_twice"], row["with_coupon"]) for key, row in rows.items()}
    assert labels == {
        (11, 7, 2): (1, 0, 0),  # one household, two purchases
        (12, 7, 2): (0, 0, 0),  # a quantity of 0 is no purchase
        (12, 8, 2): (1, 1, 1),
        (13, 8, 2): (0, 0, 0),  # bought a week later
        (11, 7, 6): (0, 0, 0),
        (99, 8, 6): (1, 0, 1),
    }


def test_fields_come_from_the_placement_and_the_product_alone(tmp_path):
    rows = rows_of(write(tmp_path))
    row = rows[13, 8, 2]
    assert (row["display_location"], row["mailer_location"], row["placement"]) == ("3", "D", "3/D")
    assert (row["department"], row["manufacturer_id"], row["package_size"]) == ("MEAT", "2", None)
    assert rows[99, 8, 6]["department"] is None  # a product that the products' file lacks
    assert (row["month"], rows[11, 7, 6]["month"]) == ("01", "01")
    assert set(CompleteJourney().schema.fields).isdisjoint({"quantity", "sales_value", "household_id", "coupon_disc"})


def test_rows_of_a_week_come_in_an_order_that_is_random_and_always_the_same(tmp_path, monkeypatch):
    placed = [(product, 7, "0", "A", week) for week in (2, 3) for product in range(1, 301)]
    folder = write(tmp_path, placed)
    stream = CompleteJourney().open(folder)
    first, again = (
        [(row["week"], int(row["product_id"])) for batch in stream.batches() for row in batch.to_pylist()]
        for _ in range(2)
    )
    assert first == again
    assert [week for week, _ in first] == [2] * 300 + [3] * 300
    products = np.array([product for _, product in first])
    assert sorted(products[:300]) == list(range(1, 301))
    assert abs(np.corrcoef(products[:300], np.arange(300))[0, 1]) < 0.2
    assert not np.array_equal(products[:300], products[300:])
    monkeypatch.setattr(module, "_BATCH_ROWS", 70)
    assert [(r["week"], int(r["product_id"])) for b in stream.batches() for r in b.to_pylist()] == first


def test_what_is_missing_or_out_of_order_is_named(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match=r"promotions\.parquet"):
        CompleteJourney().open(tmp_path)
    with pytest.raises(UnknownName, match="did you mean 'sold_twice'"):
        CompleteJourney(["sold_twise"])
    folder = write(tmp_path, PLACED[::-1])
    with pytest.raises(InvalidInput, match="week 6 after week 53"):
        list(CompleteJourney().open(folder).batches())
    monkeypatch.setattr("monocal.lab.prepare.source.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"monocal\[promotions\]"):
        module.installed_folder()
