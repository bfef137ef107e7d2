"""Encoded log to scored log to a fitted model, with a deep ranker and its embeddings."""

import numpy as np
import pytest

import monocal
from monocal.lab.rankers import rank_log, ranker
from monocal.lab.simulator import simulate_log


def test_neural_model_uses_the_rankers_embeddings(tmp_path):
    log = simulate_log(3_000, seed=3).encoded().save(tmp_path / "encoded")
    scored = rank_log(log, ranker("deepfm", batch_rows=128, hidden=(32, 16)), tmp_path / "ranked")
    rows = scored.part("calibration")
    model = monocal.fit(rows, method=monocal.Umc(embeddings="ranker", n_epochs=1))
    features, logits = np.asarray(rows.log.features), {"click": np.asarray(rows.logits["click"])}
    p = model.predict_ids(features, logits)["click"]
    assert p.mean() == pytest.approx(np.mean(rows.log.labels["click"]), rel=0.15)
    again = monocal.load(model.save(tmp_path / "model"))
    assert np.array_equal(again.predict_ids(features, logits)["click"], p)
