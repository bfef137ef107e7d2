"""Methods judged on rows that their fits have not seen."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import monocal
from monocal.lab.simulator import simulate_log
from monocal.tables.encoded import save_encoded
from monocal.tables.roles import Roles
from monocal.tables.split import hold_out
from monocal.tables.table import Table

LOG = simulate_log(10_000, world="default").table()
QUICK = {"n_bootstrap": 10}
COLUMNS = {"score": "pctr", "label": "click", "fields": ["site_id", "device"], "time": "timestamp"}


def test_labels_of_held_out_rows_do_not_reach_the_model():
    flipped = np.array(LOG["click"].to_numpy(), copy=True)
    flipped[8_000:] = 1 - flipped[8_000:]
    place = LOG.column_names.index("click")
    other = LOG.set_column(place, "click", pa.array(flipped))
    found = (monocal.compare(log, methods=["wide_logistic"], **COLUMNS, **QUICK) for log in (LOG, other))
    one, two = (each.result("wide_logistic") for each in found)
    np.testing.assert_array_equal(one.model.predict(LOG), two.model.predict(LOG))
    older = monocal.fit(LOG.slice(0, 8_000), method="wide_logistic", **COLUMNS)
    np.testing.assert_allclose(one.model.predict(LOG), older.predict(LOG), rtol=1e-9)
    assert one.evaluation.value("log_loss") < two.evaluation.value("log_loss")


def test_rows_out_of_order_are_split_by_time():
    shuffled = LOG.take(np.random.default_rng(0).permutation(10_000))
    columns = {"group": "user_id", **COLUMNS, **QUICK}
    one, two = (monocal.compare(log, methods=["platt"], **columns).best.evaluation for log in (LOG, shuffled))
    assert "gauc" in one.names
    assert one.value("log_loss") == pytest.approx(two.value("log_loss"))


def test_metric_fields_tell_unseen_values_apart():
    table = Table.read(LOG, Roles(**COLUMNS))
    for rows in (hold_out(table), hold_out(table.encoded())):
        unseen = rows.features[:, 0] == 0
        assert unseen.any()
        assert len(np.unique(rows.test.fields["site_id"].ids[unseen])) > 1


def test_a_log_with_parts_is_split_by_them(tmp_path):
    rows = Table.read(LOG, Roles(**COLUMNS)).encoded()
    log = save_encoded(replace(rows, parts={"calibration": (6_000, 8_000), "test": (8_000, 10_000)}), tmp_path / "log")
    judged = monocal.compare(log, methods=["platt"], **QUICK)
    assert monocal.fit(log, method="platt").info["n_rows"] == 4_000
    assert (judged.holdout.n_fit, judged.holdout.n_test) == (2_000, 2_000)
    assert judged.holdout.explanation.startswith("the log's own parts")
