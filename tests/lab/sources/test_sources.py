"""Every source on tiny files in its true raw format."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.core.errors import InvalidInput, MonocalWarning, UnknownName
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.sources import SOURCES, AliCCP, Avazu, Criteo, KuaiRand, KuaiRandPure, Retrosheet, TableSource
from monocal.tables import csv as csv_module
from monocal.tables.roles import Roles

AVAZU_HEADER = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip,"
    "device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"
)


def _avazu_line(click, hour, site, ip="ddd2926e"):
    return (
        f"10000094181510942{click},{click},{hour},1005,0,{site},f3845767,28905ebd,ecad2386,7801e8d9,07d7df22,a99f214a,"
        f"{ip},44956a24,1,2,15706,320,50,1722,0,35,-1,79"
    )


def _write_avazu(folder, lines, name="train"):
    text = "\n".join([AVAZU_HEADER, *lines]) + "\n"
    data = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def _decoded(log, field):
    values = [None, *log.vocabulary[field].values.to_pylist()]
    return [values[i] for i in log.features[:, log.field_names.index(field)]]


def _encode(stream, folder, **options):
    return encode_log(stream, None, folder, **({"min_count": 1, "fit_on": "all"} | options))


@pytest.mark.parametrize("name", ["train", "train.gz", "train.csv"])
def test_avazu_raw_file(name, tmp_path):
    _write_avazu(tmp_path, [_avazu_line(0, 14102100, "aa"), _avazu_line(1, 14102101, "bb")], name)
    log = _encode(Avazu().open(tmp_path), tmp_path / "out")
    assert log.n_fields == 21
    assert log.field_names[:3] == ("C1", "banner_pos", "site_id")
    assert log.field_names[-1] == "C21"
    assert log.labels["click"].tolist() == [0, 1]
    assert _decoded(log, "site_id") == ["aa", "bb"]
    assert _decoded(log, "C20") == ["-1", "-1"]
    expected = np.array(["2014-10-21T00", "2014-10-21T01"], dtype="datetime64[us]").astype(np.int64)
    assert np.array_equal(log.times, expected)
    assert log.groups.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (_avazu_line(0, 14102100, "aa") + ",1", r"train, line 3: got 25 columns; expected 24 columns"),
        (_avazu_line(0, 14102100, "aa").rsplit(",", 1)[0], r"train, line 3: got 23 columns; expected 24 columns"),
        (_avazu_line(2, 14102100, "aa"), r"train, line 3: got '2'; expected 0, 1 or nothing in column 'click'"),
        (_avazu_line(0, 14103300, "aa"), r"train, line 3: got '14103300'; expected an hour as YYMMDDHH"),
        (_avazu_line(0, "noon", "aa"), r"train, line 3: got 'noon'; expected an hour as YYMMDDHH"),
    ],
)
def test_avazu_malformed_rows_are_refused_or_skipped_and_never_shift_columns(bad, message, tmp_path):
    lines = [_avazu_line(0, 14102100, "aa"), bad, _avazu_line(1, 14102100, "bb")]
    _write_avazu(tmp_path, lines)
    with pytest.raises(InvalidInput, match=message):
        _encode(Avazu().open(tmp_path), tmp_path / "out")
    with pytest.warns(MonocalWarning, match="left out 1 malformed rows and kept 2"):
        log = _encode(Avazu().open(tmp_path, on_error="skip"), tmp_path / "out")
    assert _decoded(log, "site_id") == ["aa", "bb"]
    assert _decoded(log, "C21") == ["79", "79"]


def test_avazu_with_other_columns_is_refused(tmp_path):
    (tmp_path / "train").write_text(AVAZU_HEADER.replace("site_id", "site") + "\n")
    with pytest.raises(InvalidInput, match=r"train, line 1: got column 6 named 'site'; expected 'site_id'"):
        _encode(Avazu().open(tmp_path), tmp_path / "out")
    (tmp_path / "train").write_text(AVAZU_HEADER + ",C22\n")
    with pytest.raises(InvalidInput, match="line 1: got 25 columns; expected 24"):
        _encode(Avazu().open(tmp_path), tmp_path / "out")


def test_missing_raw_files_are_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"raw_dir: got .*; expected a folder with train or train\.csv"):
        Avazu().open(tmp_path)
    with pytest.raises(InvalidInput, match=r"a folder with common_features_train\.csv"):
        AliCCP().open(tmp_path)
    with pytest.raises(InvalidInput, match=r"a folder with log_standard\*\.csv"):
        KuaiRand().open(tmp_path)


def _criteo_line(label, integers, categories):
    return "\t".join([str(label), *integers, *categories])


def test_criteo_raw_file(tmp_path):
    integers = ["1", "", "5", "0", "1382", "-1", "2", "3", "181", "1", "2", "", "2"]
    categories = ["68fd1e64", ""] + ["x"] * 24
    lines = [_criteo_line(0, integers, categories), _criteo_line(1, integers[::-1], categories)]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n")
    log = _encode(Criteo().open(tmp_path), tmp_path / "out")
    assert log.field_names[:2] == ("I1", "I2")
    assert log.n_fields == 39
    assert log.labels["click"].tolist() == [0, 1]
    assert _decoded(log, "I5") == ["b52", "b27"]
    assert _decoded(log, "I8") == ["b1", "-1"]
    assert _decoded(log, "I2") == ["", ""]
    assert _decoded(log, "C1") == ["68fd1e64"] * 2


def test_criteo_bad_integer_and_short_line(tmp_path):
    good = ["1"] * 13
    lines = [
        _criteo_line(0, good, ["x"] * 26),
        _criteo_line(0, ["1"] * 12 + ["1.5"], ["y"] * 26),
        _criteo_line(0, good, ["z"] * 25),
        _criteo_line(1, good, ["w"] * 26),
    ]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    stream = Criteo().open(tmp_path, on_error="skip")
    with pytest.warns(MonocalWarning, match="left out 2 malformed rows and kept 2"):
        log = _encode(stream, tmp_path / "out")
    assert _decoded(log, "C26") == ["x", "w"]
    with pytest.raises(InvalidInput, match=r"train\.txt, line (2: got '1\.5'|3: got 39 columns)"):
        _encode(Criteo().open(tmp_path), tmp_path / "out2")


def _features(**fields):
    return "\x01".join(f"{name[1:]}\x02{feature}\x031.0" for name, feature in fields.items())


def _write_aliccp(folder, *, skeleton, common, part):
    rows = [f"{i},{y},{z},{key},{len(f)},{f}" for i, (y, z, key, f) in enumerate(skeleton, start=1)]
    (folder / f"sample_skeleton_{part}.csv").write_text("\n".join(rows) + "\n")
    users = [f"{key},{len(f)},{f}" for key, f in common]
    (folder / f"common_features_{part}.csv").write_text("\n".join(users) + "\n")


def _aliccp(folder):
    _write_aliccp(
        folder,
        part="train",
        skeleton=[
            (1, 1, "bacff91692951881", _features(f205=4127534, f206=9, f301=9351665)),
            (0, 0, "0000000000000000", _features(f205=11, f508=3)),
        ],
        common=[("bacff91692951881", _features(f101=31319, f121=3438658, f127_14=5, f129=3864888))],
    )
    _write_aliccp(
        folder,
        part="test",
        skeleton=[(0, 0, "bacff91692951881", "216\x0277\x031.0\x01205\x021\x031.0\x01205\x022\x031.0")],
        common=[("bacff91692951881", _features(f101=4, f124=2))],
    )


@pytest.mark.usefixtures("_tiny_blocks")
def test_aliccp_four_raw_files_are_joined(tmp_path):
    _aliccp(tmp_path)
    log = _encode(AliCCP(tasks=("click", "conversion")).open(tmp_path), tmp_path / "out")
    assert log.labels["click"].tolist() == [1, 0, 0]
    assert log.labels["conversion"].tolist() == [1, 0, 0]
    # a user is looked up in the common features of the same part; an unknown one, like a missing field, is 0
    assert _decoded(log, "101") == ["31319", "0", "4"]
    assert _decoded(log, "121") == ["3438658", "0", "0"]
    assert _decoded(log, "127") == ["0", "0", "0"]
    assert _decoded(log, "124") == ["0", "0", "2"]
    assert _decoded(log, "205") == ["4127534", "11", "1"]
    assert _decoded(log, "216") == ["0", "0", "77"]
    assert log.groups.tolist() == [0, 1, 2]
    assert tuple(AliCCP().schema.tasks) == ("click",)


@pytest.fixture(params=[40, 1 << 24], ids=["tiny blocks", "one block"])
def _tiny_blocks(request, monkeypatch):
    monkeypatch.setattr(csv_module, "BLOCK_BYTES", request.param)


def test_aliccp_malformed_lists_are_refused_or_skipped(tmp_path):
    _aliccp(tmp_path)
    with (tmp_path / "sample_skeleton_train.csv").open("a") as stream:
        stream.write("3,0,0,bacff91692951881,1,205\x0299\n4,0,0,bacff91692951881,1\n")
    with pytest.raises(InvalidInput, match=r"sample_skeleton_train\.csv, line (3|4): got"):
        _encode(AliCCP().open(tmp_path), tmp_path / "out")
    with pytest.warns(MonocalWarning, match="left out 2 malformed rows and kept 3"):
        log = _encode(AliCCP().open(tmp_path, on_error="skip"), tmp_path / "out")
    assert _decoded(log, "205") == ["4127534", "11", "1"]
    with pytest.raises(UnknownName, match="task: got 'clik'.*did you mean 'click'"):
        AliCCP(tasks=["clik"])


LOG_HEADER = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,"
    "play_time_ms,duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab"
)


def _log_line(user, video, time_ms, click, long_view, play, duration, hourmin=1500):
    return f"{user},{video},20220425,{hourmin},{time_ms},{click},0,0,0,0,0,{long_view},{play},{duration},0,0,0,0,1"


def _write_kuairand(folder, early, late):
    (folder / "log_standard_4_08_to_4_21_pure.csv").write_text("\n".join([LOG_HEADER, *early]))
    (folder / "log_standard_4_22_to_5_08_pure.csv").write_text("\n".join([LOG_HEADER, *late]))
    (folder / "log_random_4_22_to_5_08_pure.csv").write_text("\n".join([LOG_HEADER, _log_line(9, 9, 5, 0, 0, 0, 1)]))
    onehot = ",".join(f"onehot_feat{i}" for i in range(18))
    ranges = "follow_user_num,follow_user_num_range,fans_user_num,fans_user_num_range,friend_user_num"
    (folder / "user_features_pure.csv").write_text(
        "user_id,user_active_degree,is_lowactive_period,is_live_streamer,is_video_author,"
        f"{ranges},friend_user_num_range,register_days,register_days_range,{onehot}\n"
        '712,full_active,0,1,1,514,500+,150,"[100,1k)",34,"[30,60)",799,730+,' + ",".join("1" * 18) + "\n"
    )
    (folder / "video_features_basic_pure.csv").write_text(
        "video_id,author_id,video_type,upload_dt,upload_type,visible_status,video_duration,server_width,server_height,"
        "music_id,music_type,tag\n"
        '5239,7349781,NORMAL,2022-04-10,LongImport,0.0,87433.0,720.0,1280.0,9155697141,9.0,"12,65"\n'
    )


def test_kuairand_raw_files_are_joined_and_sorted_by_time(tmp_path):
    early = [_log_line(712, 5239, 2000, 1, 1, 61802, 49866), _log_line(1, 5239, 1000, 1, 0, 6999, 20000, 100)]
    late = [_log_line(712, 8, 4000, 0, 0, 500, 400), _log_line(1, 8, 3000, 0, 0, 7000, 600001, 0)]
    _write_kuairand(tmp_path, early, late)
    log = _encode(KuaiRand().open(tmp_path), tmp_path / "out")
    assert log.times.tolist() == [1_000_000, 2_000_000, 3_000_000, 4_000_000]
    assert log.labels["click"].tolist() == [1, 1, 0, 0]
    assert log.labels["long_view"].tolist() == [0, 1, 0, 0]
    # 6,999 of 20,000 ms is not effective; longer than the video, 7 s, and a finished short one are
    assert log.labels["effective_view"].tolist() == [0, 1, 1, 1]
    assert _decoded(log, "hour") == ["1", "15", "0", "15"]
    assert _decoded(log, "duration_bin") == ["1", "3", "40", "0"]
    assert _decoded(log, "fans_user_num_range") == [None, "[100,1k)", None, "[100,1k)"]
    assert _decoded(log, "tag") == ["12,65", "12,65", None, None]
    assert log.groups.tolist() == [1, 0, 1, 0]
    assert not set(log.field_names) & {"is_click", "long_view", "play_time_ms", "is_like", "duration_ms"}
    everything = _encode(KuaiRand(with_random=True).open(tmp_path), tmp_path / "random")
    assert everything.n_rows == 5


def test_kuairand_pure_parquet_leaves_out_duplicates(tmp_path):
    schema = KuaiRandPure().schema
    columns = {name: ["a", "b", "c"] for name in schema.fields}
    numbers = {"time_ms": [1, 2, 3], "play_time_ms": [7000, 0, 9], "duration_ms": [10**5, 10**5, 9]}
    labels = {"is_click": [1, 0, 1], "long_view": [1, 0, 0], "is_dup": pa.array([0, 1, 0], pa.int8())}
    pq.write_table(pa.table(columns | numbers | labels), tmp_path / "kuairand_pure.parquet")
    log = _encode(KuaiRandPure().open(tmp_path), tmp_path / "out")
    assert log.times.tolist() == [1000, 3000]
    assert log.labels["effective_view"].tolist() == [1, 1]
    assert "CC BY-SA" in KuaiRandPure.notice


def test_retrosheet_parquet(tmp_path):
    columns = {name: ["a", "b"] for name in Retrosheet().schema.fields}
    outcomes = {"label": [1, 0], "is_hr": [0, 1], "is_walk": [0, 0], "is_hit": [0, 1], "is_k": [1, 0]}
    dates = {"timestamp": pa.array([16530, 16531], pa.date32()), "event": ["K", "HR/9"]}
    pq.write_table(pa.table(columns | outcomes | dates), tmp_path / "retrosheet_pa.parquet")
    log = _encode(Retrosheet(["strikeout", "home_run"]).open(tmp_path), tmp_path / "out")
    assert log.labels["home_run"].tolist() == [0, 1]
    assert log.labels["strikeout"].tolist() == [1, 0]
    assert log.times.tolist() == [16530 * 86_400_000_000, 16531 * 86_400_000_000]
    assert "copyrighted by Retrosheet" in Retrosheet.notice
    with pytest.raises(UnknownName, match="task: got 'homerun'"):
        Retrosheet(["homerun"])


def test_a_users_text_table_is_read_with_care(tmp_path):
    (tmp_path / "log.csv").write_text("y,site,t\n0,a,2022-01-01\n1,b\n1,c,2022-01-02\n")
    source = TableSource(Roles(label="y", fields=["site"], time="t"))
    with pytest.raises(InvalidInput, match=r"log\.csv, line 3: got 2 columns; expected 3 columns"):
        _encode(source.open(tmp_path / "log.csv"), tmp_path / "out")
    with pytest.warns(MonocalWarning, match="left out 1"):
        log = _encode(source.open(tmp_path / "log.csv", on_error="skip"), tmp_path / "out")
    assert _decoded(log, "site") == ["a", "c"]
    with pytest.raises(UnknownName, match=r"fields: got 'sites'.*did you mean 'site'"):
        TableSource(Roles(label="y", fields=["sites"])).open(tmp_path / "log.csv")


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_source_has_an_outcome_among_its_fields(name):
    outcomes = {
        *("is_click", "is_like", "is_follow", "is_comment", "is_forward", "is_hate", "is_profile_enter", "long_view"),
        *("play_time_ms", "profile_stay_time", "comment_stay_time", "event", "is_k", "is_hit", "is_hr", "is_walk"),
        *("label", "click", "conversion", "effective_view"),
    }
    assert not outcomes & set(SOURCES[name]().schema.fields)
