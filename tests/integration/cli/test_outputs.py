"""One rule for every place that is written to: local and tried before any work, or refused in one line."""

import os

import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.lab.simulator import write_simulated_log
from monocal.monitoring.refresh import refresh
from monocal.monitoring.registry import promote
from monocal.monitoring.watch import watch

ABSENT = "absent.parquet"

WRITES = {
    "fit": ("fit", ABSENT, "--score", "pctr", "--label", "click", "--method", "platt", "--out"),
    "refresh": ("refresh", "MODEL", ABSENT, "--out"),
    "apply": ("apply", "MODEL", ABSENT, "--out"),
    "report": ("report", "MODEL", ABSENT, "--out"),
    "export": ("export", "absent", "--out"),
    "gate": ("gate", "absent", "absent", ABSENT, "--html"),
    "promote": ("promote", "absent", "--registry"),
    "rollback": ("rollback", "--registry"),
    "watch": ("watch", "MODEL", ABSENT, "--time", "timestamp", "--state"),
    "simulate": ("simulate",),
    "demo": ("demo", "--out"),
    "prepare": ("lab", "prepare", ABSENT, "--label", "click", "--out"),
    "bench": ("lab", "bench", "main", "--rows", "100", "--out"),
}
"""Every verb that writes; the tables and most models are not there, which nobody gets to see."""

FILES = {"apply": "x.parquet", "report": "x.html", "export": "x.onnx", "gate": "x.html", "simulate": "x.parquet"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def words(verb, model_folder):
    return [str(model_folder) if word == "MODEL" else word for word in WRITES[verb]]


@pytest.mark.parametrize("verb", WRITES)
def test_a_place_elsewhere_is_refused_before_anything_is_read(monocal_command, model_folder, here, verb):
    for place in (f"s3://bucket/{FILES.get(verb, 'x')}", f"file://host/{FILES.get(verb, 'x')}"):
        ended = monocal_command(*words(verb, model_folder), place)
        assert (ended.code, ended.out) == (2, ""), ended.err
        assert place in ended.err
        assert "copy the result there" in ended.err
        assert list(here.iterdir()) == []


@pytest.mark.parametrize("verb", [verb for verb in WRITES if verb != "rollback"])
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_read(
    monocal_command, model_folder, here, verb
):
    (here / "file").write_text("not a folder")
    ended = monocal_command(*words(verb, model_folder), f"file/below/{FILES.get(verb, 'x')}")
    assert (ended.code, ended.out) == (2, ""), ended.err
    option = words(verb, model_folder)[-1]
    assert ended.err.startswith(f"error: {option if option.startswith('--') else 'output file'}: got ")
    assert "where nothing can be written (Not a directory)" in ended.err
    assert os.listdir(here) == ["file"]


@pytest.mark.parametrize("verb", FILES)
def test_a_folder_is_no_file(monocal_command, model_folder, here, verb):
    (here / FILES[verb]).mkdir()
    for place in (FILES[verb], *([] if verb == "simulate" else [f"new_{FILES[verb]}/"])):
        ended = monocal_command(*words(verb, model_folder), place)
        assert (ended.code, ended.out) == (2, ""), ended.err
        assert "which is a folder" in ended.err
    assert os.listdir(here) == [FILES[verb]]


def test_a_device_is_not_replaced(monocal_command, model_folder, log_file, tmp_path):
    os.mkfifo(tmp_path / "pipe.html")
    ended = monocal_command("report", model_folder, log_file, "--out", tmp_path / "pipe.html")
    assert ended.code == 2
    assert "which is no regular file" in ended.err


def test_file_uris_are_local_paths(monocal_command, model_folder, log_file, here):
    place = f"file://{here}/with%20blank"
    assert monocal_command("fit", log_file, "--score", "pctr", "--label", "click", "--method", "platt",
                           "--out", f"{place}/model").code == 0  # fmt: skip
    model = here / "with blank" / "model"
    assert monocal.load(model).save(f"{place}/again") == here / "with blank" / "again"
    assert monocal_command("promote", model, "--registry", f"{place}/registry").code == 0
    assert monocal_command("rollback", "--registry", f"{place}/registry").err.startswith("error: --registry: got ")
    assert monocal_command("apply", model, log_file, "--out", f"{place}/scored.parquet").code == 0
    assert monocal_command("report", model, log_file, "--out", f"{place}/report.html").code == 0
    ended = monocal_command(
        "apply", model, f"{place}/scored.parquet", "--out", f"{place}/scored.parquet", "--column", "q"
    )
    assert "expected a file other than the input" in ended.err
    found = sorted(path.name for path in (here / "with blank").iterdir())
    assert found == ["again", "model", "registry", "report.html", "scored.parquet"]
    assert os.listdir(here) == ["with blank"]


def test_functions_that_write_refuse_alike(model_folder, here):
    model = monocal.load(model_folder)
    for write in (
        lambda place: model.save(place),
        lambda place: monocal.apply(model, ABSENT, place + ".parquet"),
        lambda place: monocal.report(model, ABSENT, place),
        lambda place: promote("absent", place),
        lambda place: refresh(model_folder, ABSENT, out=place),
        lambda place: watch(model, ABSENT, time="timestamp", state=place),
        lambda place: write_simulated_log(place, 100),
    ):
        with pytest.raises(InvalidInput, match="copy the result there"):
            write("gs://bucket/x")
    assert list(here.iterdir()) == []
