"""monocal lab prepare, monocal lab rank, and a fit on what they leave."""

import pytest

import monocal

FIELDS = "site_id,ad_id,country,hour,position,device"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, log_file):
    from monocal.cli.main import main

    folder = tmp_path_factory.mktemp("prepared") / "log"
    columns = ["--label", "click", "--fields", FIELDS, "--time", "timestamp", "--group", "user_id"]
    assert main(["lab", "prepare", str(log_file), *columns, "--out", str(folder)]) == 0
    return folder


def test_from_a_raw_log_to_a_model(monocal_command, prepared, tmp_path):
    described = monocal_command("inspect", prepared).out
    assert "monocal encoded log with 20,000 rows" in described
    assert "scores: none yet" in described

    ranked = monocal_command("lab", "rank", prepared, "--out", tmp_path / "ranked", "--set", "bits=16")
    assert ranked.code == 0
    assert "scored 20,000 rows with hashed_logistic for click" in ranked.err
    assert "monocal scored log" in monocal_command("inspect", tmp_path / "ranked").out

    fitted = monocal_command("fit", tmp_path / "ranked", "--method", "platt", "--out", tmp_path / "m", "--json")
    assert fitted.code == 0
    assert fitted.json["n_rows"] == 8_000
    model = monocal.load(tmp_path / "m")
    assert (model.scores_are, model.field_names) == ("logit", tuple(FIELDS.split(",")))

    compared = monocal_command("compare", tmp_path / "ranked", "--methods", "platt", "--json")
    assert compared.code == 0
    assert "the log's own parts: fitted on the 4,000 rows of 'calibration'" in compared.err
    assert [method["method"] for method in compared.json["methods"]].count("platt") == 1


def test_prepare_with_a_schema_file_and_cuts(monocal_command, log_file, tmp_path):
    (tmp_path / "schema.toml").write_text(
        '[schema]\nlabel = "click"\nfields = ["device"]\ntime = "timestamp"\nscore = "pctr"\n'
    )
    arguments = ("--schema", tmp_path / "schema.toml", "--cuts", "test=1767900000", "--out", tmp_path / "log")
    found = monocal_command("lab", "prepare", log_file, *arguments, "--json").json
    assert list(found["parts"]) == ["train", "test"]
    precomputed = monocal_command(
        "lab", "rank", tmp_path / "log", "--ranker", "precomputed", "--out", tmp_path / "r", "--json"
    )
    assert precomputed.json["tasks"] == ["click"]


PREPARE = "lab prepare LOG --out new"
RANK = "lab rank PREPARED --out new"
MISTAKES = {
    PREPARE: "--label: got nothing; expected the label column",
    f"{PREPARE} --label click --fields sites": "did you mean 'site_id'?",
    f"{PREPARE} --label click --cuts test": "--cuts: got 'test'; expected name=value",
    f"{PREPARE} --label click --shares train=x": "--shares: got 'x'; expected a number",
    f"{PREPARE} --label click --schema schema.toml": "--schema: got a file and columns; expected one of the two",
    f"{PREPARE} --source avasu": "did you mean 'avazu'?",
    f"{PREPARE} --label click --fit-on tran": "'tran'",
    f"{RANK} --ranker deepfn": "did you mean 'deepfm'?",
    f"{RANK} --ranker deepfm --set hidden=abc": "--set hidden: got 'abc'; expected a list of whole numbers",
    "lab rank . --out new": "an encoded log is a folder with manifest.json in it",
    "fit PREPARED --method platt --out new": "Hint: rank the log first",
    "lab bench mian": "did you mean 'main'?",
    "lab bench": "see monocal lab bench --list",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_written(monocal_command, prepared, log_file, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    places = {"LOG": log_file, "PREPARED": prepared}
    ended = monocal_command(*(places.get(word, word) for word in words.split()))
    assert (ended.code, ended.out) == (1 if "rank ." in words else 2, "")
    assert MISTAKES[words] in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_network_learns_from_lists_and_from_a_teacher(monocal_command, prepared, tmp_path):
    small = ("--ranker", "deepfm", "--set", "hidden=[16,8]", "--set", "batch_rows=4096")
    assert monocal_command("lab", "rank", prepared, *small, "--out", tmp_path / "teacher").code == 0
    clid = ("lab", "rank", prepared, *small, "--loss", "clid", "--group", "user_id", "--out", tmp_path / "clid")
    untaught = monocal_command(*clid)
    assert untaught.code == 2
    assert "--reference: got a log without scores of task 'click'; expected another ranker's scores" in untaught.err
    taught = monocal_command(*clid, "--reference", tmp_path / "teacher")
    assert taught.code == 0, taught.err
    refused = monocal_command(
        "lab", "rank", prepared, "--ranker", "hashed_logistic", "--loss", "jrc", "--out", tmp_path / "x"
    )
    assert refused.code != 0
    assert "add --ranker deepfm" in refused.err


def test_bench_lists_studies(monocal_command):
    assert {"main", "ab"} <= set(monocal_command("lab", "bench", "--list", "--json").json)
    assert "what it asks" in monocal_command("lab", "bench", "--list").out


def test_bench_runs_a_study(monocal_command, tmp_path):
    (tmp_path / "tiny.toml").write_text(
        'name = "tiny"\nquestion = "Does it run?"\nseeds = [0]\n'
        '[[data]]\nname = "world"\nworld = "affine"\nn_calibration = 2000\nn_test = 2000\n'
        '[[calibrators]]\nname = "none"\nmethod = "none"\n'
    )
    first = monocal_command("lab", "bench", tmp_path / "tiny.toml", "--out", tmp_path / "runs")
    assert first.code == 0
    assert "# Study `tiny`" in first.out
    assert "written to" in first.err
    again = monocal_command("lab", "bench", tmp_path / "tiny.toml", "--out", tmp_path / "runs", "--json").json
    assert (tmp_path / "runs" / "tiny" / "leaderboard.md").read_text() == again["markdown"] == first.out


def test_bench_refuses_a_key_that_it_does_not_know(monocal_command, tmp_path):
    (tmp_path / "bad.toml").write_text('name = "bad"\nquestion = "?"\ncalibratrs = []\n')
    ended = monocal_command("lab", "bench", tmp_path / "bad.toml")
    assert ended.code == 2
    assert "did you mean 'calibrators'?" in ended.err
