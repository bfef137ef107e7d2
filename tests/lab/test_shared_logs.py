"""The real logs beside the checkout, if they are there."""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from monocal.lab.prepare.encoder import encode_log
from monocal.lab.sources import Avazu, Criteo, KuaiRandPure, Retrosheet

SHARED = Path(os.environ.get("MONOCAL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))

pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the real logs are not beside the checkout"),
]


def _ids_match(log, path, field, rows):
    column = log.field_names.index(field)
    values = [None, *log.vocabulary[field].values.to_pylist()]
    known = log.features[:, column] > 0
    decoded = np.array([values[i] for i in log.features[:, column]], dtype=object)
    raw = np.array(pq.read_table(path, columns=[field])[field].to_pylist(), dtype=object)[rows]
    return np.array_equal(decoded[known], raw[known]) and known.mean() > 0.5


def test_kuairand_pure(tmp_path):
    path = SHARED / "kuairand_pure.parquet"
    raw = pq.read_table(path, columns=["is_dup", "is_click", "long_view"])
    rows = raw["is_dup"].to_numpy() == 0
    log = encode_log(KuaiRandPure().open(path), None, tmp_path / "log")
    assert log.n_rows == int(rows.sum()) == 228_329 - 5_460
    assert np.array_equal(log.labels["click"], raw["is_click"].to_numpy()[rows])
    assert np.array_equal(log.labels["long_view"], raw["long_view"].to_numpy()[rows])
    assert np.all(np.diff(log.times) >= 0)
    for field in ("user_id", "video_id", "tag", "hour", "onehot_feat3"):
        assert _ids_match(log, path, field, rows)
    train = log.part("train")
    assert set(np.unique(train.features[:, 4])) <= set(range(log.field_sizes[4]))
    assert [log.part(name).n_rows for name in log.parts] == [133_721, 44_574, 44_574]


def test_retrosheet(tmp_path):
    path = SHARED / "retrosheet_pa.parquet"
    log = encode_log(Retrosheet(["strikeout", "home_run"]).open(path), None, tmp_path / "log")
    assert log.n_rows == 1_722_088
    assert abs(log.labels["strikeout"].mean() - 0.222) < 0.001
    assert abs(log.labels["home_run"].mean() - 0.031) < 0.001
    assert _ids_match(log, path, "pitcher", slice(None))


def test_raw_heads_of_avazu_and_criteo(tmp_path):
    heads = SHARED / "raw_samples"
    avazu = encode_log(Avazu().open(heads / "avazu_train_head.csv"), None, tmp_path / "avazu", min_count=1)
    criteo = encode_log(Criteo().open(heads / "criteo_train_head.tsv"), None, tmp_path / "criteo", min_count=1)
    assert (avazu.n_rows, avazu.n_fields) == (199, 21)
    assert (criteo.n_rows, criteo.n_fields) == (200, 39)
