"""Tables whose rows come in another order whenever they are asked for, as those of Spark do."""

import numpy as np
import pytest

import monocal
from monocal.lab.simulator import simulate_log
from monocal.tables.source import open_table

LOG = simulate_log(12_000, world="affine", seed=2).table()


class Frame:
    """Stands for a `pyspark.sql.DataFrame`: lazy columns, and no order."""

    def __init__(self, table, asked=None):
        self.table, self.asked = table, [] if asked is None else asked

    def mapInArrow(self, *_):
        raise AssertionError("rows are judged here")

    def limit(self, n_rows):
        return Frame(self.table.slice(0, n_rows), self.asked)

    def select(self, *names):
        return Frame(self.table.select([name.strip("`") for name in names]), self.asked)

    def toArrow(self):
        if self.table.num_rows:
            self.asked.append(self.table.column_names)
        return self.table.take(np.random.default_rng(len(self.asked)).permutation(self.table.num_rows))


def test_only_columns_that_are_asked_for_are_brought_and_only_once():
    frame = Frame(LOG)
    stream = open_table(frame)
    assert stream.column_names == LOG.column_names
    assert frame.asked == []
    first, again = (list(stream.batches(["pctr", "click"])) for _ in range(2))
    assert frame.asked == [["pctr", "click"]]
    assert first == again


def test_a_gate_pairs_the_rows_of_models_with_other_columns():
    fit, fresh = LOG.slice(0, 6_000), LOG.slice(6_000)
    given = {"score": "pctr", "label": "click"}
    old = monocal.fit(fit, method="platt", **given)
    new = monocal.fit(fit, method="wide_logistic", fields=["device"], **given)
    frame = Frame(fresh)
    found, expected = (monocal.gate(old, new, rows).tasks["click"].overall for rows in (frame, fresh))
    assert len(frame.asked) == 1
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
