"""The whole way from raw files to a calibrated model, once for every source in its true raw format."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.rankers import rank_log, ranker
from monocal.lab.sources import SOURCES, TableSource
from monocal.tables.roles import Roles

N_ROWS = 3_000


class World:
    """Impressions whose outcome depends on one item; every source spells them in its own way."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.items = rng.integers(0, 20, N_ROWS)
        self.users = rng.integers(0, 100, N_ROWS)
        rates = np.linspace(0.02, 0.7, 20)
        self.labels = (rng.random(N_ROWS) < rates[self.items]).astype(int)


def _avazu(world, folder):
    names = SOURCES["avazu"]().schema.fields
    lines = [",".join(["id", "click", "hour", *names])]
    for row, (item, user, label) in enumerate(zip(world.items, world.users, world.labels, strict=True)):
        values = [f"{item:08x}" if name == "site_id" else f"{user % 7}" for name in names]
        lines.append(",".join([str(row), str(label), f"141021{row * 24 // N_ROWS:02d}", *values]))
    (folder / "train").write_text("\n".join(lines) + "\n")


def _criteo(world, folder):
    lines = []
    for item, user, label in zip(world.items, world.users, world.labels, strict=True):
        integers = [str(user)] + [""] * 12
        lines.append("\t".join([str(label), *integers, f"{item:08x}", *["68fd1e64"] * 25]))
    (folder / "train.txt").write_text("\n".join(lines) + "\n")


def _aliccp(world, folder):
    half = N_ROWS // 2
    for part, rows in (("train", range(half)), ("test", range(half, N_ROWS))):
        skeleton = [
            f"{row},{world.labels[row]},0,{world.users[row]:016x},2,"
            f"205\x02{1000 + world.items[row]}\x031.0\x01301\x029351665\x031.0"
            for row in rows
        ]
        common = [f"{user:016x},1,101\x02{500 + user}\x031.0" for user in range(100)]
        (folder / f"sample_skeleton_{part}.csv").write_text("\n".join(skeleton) + "\n")
        (folder / f"common_features_{part}.csv").write_text("\n".join(common) + "\n")


def _kuairand(world, folder):
    header = "user_id,video_id,date,hourmin,time_ms,is_click,long_view,play_time_ms,duration_ms,is_rand,tab"
    log = [header]
    for row, (item, user, label) in enumerate(zip(world.items, world.users, world.labels, strict=True)):
        played = 9000 if label else 100
        log.append(f"{user},{item},20220425,1500,{1650812741436 + row},{label},{label},{played},20000,0,1")
    (folder / "log_standard_4_22_to_5_08_pure.csv").write_text("\n".join(log) + "\n")
    users = SOURCES["kuairand"]().schema.fields[11:]
    body = [",".join(["user_id", *users]), *(",".join([str(u), *["1"] * len(users)]) for u in range(100))]
    (folder / "user_features_pure.csv").write_text("\n".join(body) + "\n")
    videos = ["video_id,author_id,video_type,upload_type,music_id,music_type,tag"]
    videos += [f'{v},{v % 5},NORMAL,Kmovie,7,9.0,"1,2"' for v in range(20)]
    (folder / "video_features_basic_pure.csv").write_text("\n".join(videos) + "\n")


def _prepared_columns(world, fields, item_field):
    items = [f"v{item}" for item in world.items]
    return {name: items if name == item_field else [f"u{u % 9}" for u in world.users] for name in fields}


def _kuairand_pure(world, folder):
    columns = _prepared_columns(world, SOURCES["kuairand_pure"]().schema.fields, "video_id")
    played = np.where(world.labels, 9000, 100)
    columns |= {"is_click": world.labels, "long_view": world.labels, "is_dup": np.zeros(N_ROWS, np.int8)}
    columns |= {"time_ms": np.arange(N_ROWS), "play_time_ms": played, "duration_ms": np.full(N_ROWS, 20_000)}
    pq.write_table(pa.table(columns), folder / "kuairand_pure.parquet")


def _retrosheet(world, folder):
    columns = _prepared_columns(world, SOURCES["retrosheet"]().schema.fields, "pitcher")
    columns |= {"label": world.labels, "timestamp": pa.array(np.arange(N_ROWS) // 100, pa.int32()).cast(pa.date32())}
    pq.write_table(pa.table(columns), folder / "retrosheet_pa.parquet")


def _complete_journey(world, folder):
    weeks, stores = 2 + np.arange(N_ROWS) * 50 // N_ROWS, 100 + np.arange(N_ROWS) % 60  # a placement is there once
    placed = {"product_id": world.items, "store_id": stores, "week": weeks}
    everywhere = {"display_location": ["0"] * N_ROWS, "mailer_location": ["A"] * N_ROWS}
    pq.write_table(pa.table(placed | everywhere), folder / "promotions.parquet")
    sold = np.flatnonzero(world.labels)
    bought = {name: column[sold] for name, column in placed.items()}
    bought |= {"household_id": world.users[sold], "quantity": np.ones(sold.size, np.int64)}
    bought |= {name: np.zeros(sold.size) for name in ("coupon_disc", "coupon_match_disc")}
    pq.write_table(pa.table(bought), folder / "transactions.parquet")
    words = ("department", "brand", "product_category", "product_type", "package_size")
    products = {"product_id": np.arange(20), "manufacturer_id": np.arange(20) % 3}
    pq.write_table(pa.table(products | {name: [name] * 20 for name in words}), folder / "products.parquet")


def _table(world, folder):
    text = "\n".join(
        ["click,item,user,day"]
        + [
            f"{y},{i},{u},{r // 100}"
            for r, (y, i, u) in enumerate(zip(world.labels, world.items, world.users, strict=True))
        ]
    )
    (folder / "log.csv").write_text(text + "\n")


WRITERS = {
    "avazu": _avazu,
    "criteo": _criteo,
    "aliccp": _aliccp,
    "kuairand": _kuairand,
    "kuairand_pure": _kuairand_pure,
    "retrosheet": _retrosheet,
    "complete_journey": _complete_journey,
    "table": _table,
}


def test_every_source_is_walked():
    assert set(WRITERS) == {*SOURCES, "table"}


@pytest.mark.parametrize("name", WRITERS)
def test_raw_files_become_a_calibrated_model(name, tmp_path):
    world = World()
    raw = tmp_path / "raw"
    raw.mkdir()
    WRITERS[name](world, raw)
    if name == "table":
        source = TableSource(Roles(labels="click", fields=["item", "user"], time="day"))
    else:
        source = SOURCES[name]()
    log = encode_log(source.open(raw), None, tmp_path / "encoded")
    task = log.tasks[0]
    if name == "complete_journey":  # the rows of a week, sixty of them here, are mixed
        found, given = (labels.reshape(-1, 60).sum(axis=1) for labels in (np.asarray(log.labels[task]), world.labels))
        assert np.array_equal(found, given)
    else:
        assert np.array_equal(log.labels[task], world.labels)
    scored = rank_log(log, ranker("hashed_logistic", bits=14, batch_rows=128, n_epochs=3), tmp_path / "ranked")
    model = monocal.fit(scored.part("calibration"), method="platt")
    test = scored.part("test")
    p = model.predict_ids(test.log.features, {task: test.logits[task] for task in model.task_names})[task]
    y = test.log.labels[task]
    log_loss = -np.mean(np.where(y, np.log(p), np.log1p(-p)))
    rate = world.labels[: log.parts["test"].start].mean()
    base_loss = -np.mean(np.where(y, np.log(rate), np.log1p(-rate)))
    assert log_loss < base_loss - 0.05
    assert abs(p.mean() / y.mean() - 1) < 0.15
