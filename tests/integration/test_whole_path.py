"""Raw files to encoded log to scored log to a fitted model, for every source's raw format."""

import os
from pathlib import Path

import numpy as np
import pytest

import monocal
from monocal.data.encoder import encode_log
from monocal.data.sources import SOURCES
from monocal.rankers import rank_log, ranker

N = 3000
SHARED = Path(os.environ.get("MONOCAL_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
AVAZU = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip,"
    "device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"
)
KUAIRAND = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,"
    "play_time_ms,duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab"
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


def write_criteo(folder):
    lines = [
        "\t".join([str(click), *[str(site)] * 6, *[""] * 7, f"{site:08x}", f"{ad:08x}", *["05db9164"] * 24])
        for site, ad, click in zip(*draws(1), strict=True)
    ]
    (folder / "train.txt").write_text("\n".join(lines) + "\n")


def write_aliccp(folder):
    rows = list(zip(*draws(2), strict=True))
    for part, chosen in (("train", rows[: N // 2]), ("test", rows[N // 2 :])):
        skeleton = [
            f"{k},{click},0,u{site},2,205\x02{ad}\x031.0\x01301\x029351665\x031.0"
            for k, (site, ad, click) in enumerate(chosen, start=1)
        ]
        users = [f"u{site},1,101\x02{site}\x031.0\x01121\x02{site % 5}\x031.0" for site in range(40)]
        (folder / f"sample_skeleton_{part}.csv").write_text("\n".join(skeleton) + "\n")
        (folder / f"common_features_{part}.csv").write_text("\n".join(users) + "\n")


def write_kuairand(folder):
    lines = [
        f"{site},{ad},20220425,{k % 2400},{1650812741436 + k},{click},0,0,0,0,0,{click * (k % 2)},{9000 * click},20000,"
        f"0,0,0,0,{ad % 3}"
        for k, (site, ad, click) in enumerate(zip(*draws(3), strict=True))
    ]
    (folder / "log_standard_4_08_to_4_21_pure.csv").write_text("\n".join([KUAIRAND, *lines]))
    onehot = ",".join(f"onehot_feat{i}" for i in range(18))
    users = [
        f'{site},full_active,0,1,1,514,500+,150,"[100,1k)",34,"[30,60)",799,730+,' + ",".join("1" * 18)
        for site in range(40)
    ]
    (folder / "user_features_pure.csv").write_text(
        "user_id,user_active_degree,is_lowactive_period,is_live_streamer,is_video_author,follow_user_num,"
        "follow_user_num_range,fans_user_num,fans_user_num_range,friend_user_num,friend_user_num_range,register_days,"
        f"register_days_range,{onehot}\n" + "\n".join(users) + "\n"
    )
    videos = [
        f"{ad},{ad % 7},NORMAL,2022-04-10,LongImport,0.0,87433.0,720.0,1280.0,91,9.0,{ad % 4}" for ad in range(25)
    ]
    (folder / "video_features_basic_pure.csv").write_text(
        "video_id,author_id,video_type,upload_dt,upload_type,visible_status,video_duration,server_width,server_height,"
        "music_id,music_type,tag\n" + "\n".join(videos) + "\n"
    )


WRITERS = {"avazu": write_avazu, "criteo": write_criteo, "aliccp": write_aliccp, "kuairand": write_kuairand}


@pytest.mark.parametrize("source", WRITERS)
def test_raw_files_become_a_model(source, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    WRITERS[source](raw)
    log = encode_log(SOURCES[source]().open(raw), None, tmp_path / "encoded")
    scored = rank_log(log, ranker("deepfm", batch_rows=128, hidden=(32, 16)), tmp_path / "ranked")
    model = monocal.fit(scored.part("calibration"), method="wide_logistic")
    check_model(model, scored, tmp_path)


def test_neural_model_uses_the_rankers_embeddings(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    write_avazu(raw)
    log = encode_log(SOURCES["avazu"]().open(raw), None, tmp_path / "encoded")
    scored = rank_log(log, ranker("deepfm", batch_rows=128, hidden=(32, 16)), tmp_path / "ranked")
    model = monocal.fit(scored.part("calibration"), method="umc", embeddings="ranker", n_epochs=1)
    check_model(model, scored, tmp_path)


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real logs are not beside the checkout")
@pytest.mark.parametrize(
    ("source", "file"), [("kuairand_pure", "kuairand_pure.parquet"), ("retrosheet", "retrosheet_pa.parquet")]
)
def test_real_logs_become_a_model(source, file, tmp_path):
    log = encode_log(SOURCES[source]().open(SHARED / file), None, tmp_path / "encoded")
    scored = rank_log(log, ranker("hashed_logistic"), tmp_path / "ranked")
    model = monocal.fit(scored.part("calibration"), method="platt")
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
