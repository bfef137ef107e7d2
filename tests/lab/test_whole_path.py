"""Raw log to encoded log to scored log to a fitted model: with a deep ranker and its embeddings, and on real logs."""

import os
from pathlib import Path

import numpy as np
import pytest

import monocal
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.rankers import rank_log, ranker
from monocal.lab.sources import SOURCES

N = 3000
SHARED = Path(os.environ.get("MONOCAL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
AVAZU = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip,"
    "device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"
)


def draws(seed=0):
    """Two categories per row and a label that depends on both."""
    random = np.random.default_rng(seed)
    site, ad = random.zipf(1.4, N) % 40, random.zipf(1.4, N) % 25
    logits = -1.5 + np.sin(site) + np.cos(ad)
    return site, ad, (random.random(N) < 1 / (1 + np.exp(-logits))).astype(int)


def write_avazu(folder):
    lines = [AVAZU]
    for k, (site, ad, click) in enumerate(zip(*draws(), strict=True)):
        hour = f"1410{21 + k * 10 // N:02d}{k % 24:02d}"
        lines.append(
            f"{k},{click},{hour},1005,0,s{site:x},d{site:x},28905ebd,ecad2386,7801e8d9,07d7df22,a99f214a,ip{k:x},"
            f"m{ad},1,2,{ad},320,50,1722,0,35,-1,79"
        )
    (folder / "train").write_text("\n".join(lines) + "\n")


def test_neural_model_uses_the_rankers_embeddings(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    write_avazu(raw)
    log = encode_log(SOURCES["avazu"]().open(raw), None, tmp_path / "encoded")
    scored = rank_log(log, ranker("deepfm", batch_rows=128, hidden=(32, 16)), tmp_path / "ranked")
    model = monocal.fit(scored.part("calibration"), method=monocal.Umc(embeddings="ranker", n_epochs=1))
    check_model(model, scored, tmp_path)


def check_model(model, scored, folder):
    """The model is calibrated where it was fitted, and survives a round trip through its folder."""
    task = scored.tasks[0]
    part = scored.part("calibration")
    p = model.predict_ids(np.asarray(part.log.features), {task: np.asarray(part.logits[task])})[task]
    labels = np.asarray(part.log.labels[task])
    assert p.mean() == pytest.approx(labels.mean(), rel=0.15)
    model.save(folder / "model")
    again = monocal.load(folder / "model")
    assert again.verify_canary() == 0.0
    test = scored.part("test")
    report = monocal.evaluate(
        test.log.labels[task],
        again.predict_ids(np.asarray(test.log.features), {task: np.asarray(test.logits[task])})[task],
        metrics=["auc", "pcoc", "ece"],
    )
    assert report.value("auc") > 0.5
    assert 0.5 < report.value("pcoc") < 2.0
