"""A writer replaces what an earlier writer of the same kind left, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.lab.demo import run_demo
from monocal.lab.prepare.encoded_log import EncodedLog
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.rankers import rank_log, ranker
from monocal.tables.roles import Roles

LOG = monocal.simulate_log(400, seed=3).table()
SCHEMA = Roles(labels="click", fields=["device"], time="timestamp")


def model():
    return monocal.fit(LOG, method="platt", score="pctr", label="click")


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "monocal", *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture
def box(tmp_path):
    folder = tmp_path / "box"
    folder.mkdir()
    import pyarrow.parquet as pq

    pq.write_table(LOG, folder / "log.parquet")
    (folder / "notes.md").write_text("a month of work")
    return folder


FIT = ("--score", "pctr", "--label", "click", "--method", "platt")


def test_fit_into_the_folder_of_its_own_log(box):
    before = tree(box)
    done = command("fit", "box/log.parquet", *FIT, "--out", "box/", cwd=box.parent)
    assert done.returncode == 2
    assert "log.parquet, notes.md" in done.stderr
    assert "Hint: choose another folder" in done.stderr
    assert tree(box) == before
    assert os.listdir(box.parent) == ["box"]


def test_fit_into_the_current_folder(box):
    before = tree(box)
    done = command("fit", "log.parquet", *FIT, "--out", ".", cwd=box)
    assert done.returncode == 2
    assert "Hint" in done.stderr
    assert tree(box) == before


def test_a_refused_fit_is_refused_before_it_computes(box, tmp_path):
    done = command("fit", "no_such_log.parquet", *FIT, "--out", "box", cwd=tmp_path)
    assert "notes.md" in done.stderr


@pytest.mark.parametrize(
    "write",
    [
        lambda box: model().save(box),
        lambda box: encode_log(LOG, SCHEMA, box),
        lambda box: EncodedLog.open(encode_log(LOG, SCHEMA, box.parent / "e").folder).save(box),
        lambda box: rank_log(encode_log(LOG, SCHEMA, box.parent / "e"), ranker("hashed_logistic"), box),
        lambda box: ranker("hashed_logistic").fit(encode_log(LOG, SCHEMA, box.parent / "e")).save(box),
        lambda box: run_demo(box, n_rows=5000, methods=("none",), saved_method="none"),
    ],
    ids=["model", "encode_log", "encoded log", "rank_log", "ranker", "demo"],
)
def test_every_writer_of_folders_refuses_a_folder_with_other_files(box, write):
    before = tree(box)
    with pytest.raises(InvalidInput, match=r"log\.parquet"):
        write(box)
    assert tree(box) == before


def test_one_foreign_file_in_a_model_folder_protects_it(tmp_path):
    folder = model().save(tmp_path / "m")
    (folder / "README.md").write_text("why this model")
    before = tree(folder)
    with pytest.raises(InvalidInput, match=r"holds README\.md; expected .* Hint: choose another folder"):
        model().save(folder)
    assert tree(folder) == before


@pytest.mark.parametrize("inside", ["archive", ".git"])
def test_a_foreign_subfolder_protects_a_model_folder(tmp_path, inside):
    folder = model().save(tmp_path / "m")
    (folder / inside).mkdir()
    with pytest.raises(InvalidInput, match=inside):
        model().save(folder)
    assert (folder / inside).is_dir()


def test_a_model_and_an_empty_folder_are_replaced(tmp_path):
    (tmp_path / "m").mkdir()
    model().save(tmp_path / "m")
    model().save(tmp_path / "m")
    assert sorted(os.listdir(tmp_path / "m")) == ["manifest.json", "state.safetensors", "vocabulary.arrow"]
    assert os.listdir(tmp_path) == ["m"]


def test_a_folder_of_another_kind_is_refused(tmp_path):
    encode_log(LOG, SCHEMA, tmp_path / "log")
    before = tree(tmp_path / "log")
    with pytest.raises(InvalidInput, match="monocal encoded log"):
        model().save(tmp_path / "log")
    assert tree(tmp_path / "log") == before


def test_ranking_over_its_own_log_is_refused(tmp_path):
    log = encode_log(LOG, SCHEMA, tmp_path / "log")
    before = tree(tmp_path / "log")
    with pytest.raises(InvalidInput, match="manifest.json"):
        rank_log(log, ranker("hashed_logistic"), tmp_path / "log")
    assert tree(tmp_path / "log") == before


def test_a_model_with_a_damaged_manifest_is_replaced_unless_something_else_is_there(tmp_path):
    folder = model().save(tmp_path / "m")
    (folder / "manifest.json").write_text("{")
    model().save(folder)
    assert monocal.load(folder).fingerprint == model().fingerprint
    (folder / "manifest.json").write_text("{")
    (folder / "notes.md").write_text("mine")
    with pytest.raises(InvalidInput, match=r"notes\.md"):
        model().save(folder)
    (folder / "notes.md").unlink()
    (folder / "manifest.json").unlink()
    with pytest.raises(InvalidInput, match=r"state\.safetensors"):
        model().save(folder)


def test_a_file_is_not_replaced_by_a_folder(tmp_path):
    (tmp_path / "m").write_text("mine")
    with pytest.raises(InvalidInput, match="is a file"):
        model().save(tmp_path / "m")
    assert (tmp_path / "m").read_text() == "mine"


def test_a_link_is_not_followed(tmp_path):
    elsewhere = model().save(tmp_path / "elsewhere")
    (tmp_path / "m").symlink_to(elsewhere)
    before = tree(elsewhere)
    with pytest.raises(InvalidInput, match="symbolic link"):
        model().save(tmp_path / "m")
    assert tree(elsewhere) == before
    assert (tmp_path / "m").is_symlink()


def test_a_foreign_manifest_is_not_ours(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"format": "web app", "files": {}}))
    with pytest.raises(InvalidInput, match="manifest.json"):
        model().save(folder)
    assert json.loads((folder / "manifest.json").read_text())["format"] == "web app"


def test_a_manifest_that_names_foreign_files_outside_protects_them(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    folder = model().save(tmp_path / "m")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["../precious.txt"] = {"n_bytes": 4, "fingerprint": ""}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    model().save(folder)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_report_does_not_overwrite_the_log_it_is_about(box):
    model().save(box.parent / "m")
    before = tree(box)
    done = command("report", "m", "box/log.parquet", "--out", "box/log.parquet", cwd=box.parent)
    assert done.returncode == 2
    assert "a file other than the input" in done.stderr
    assert tree(box) == before


def test_a_model_is_not_overwritten_by_its_export(tmp_path):
    folder = model().save(tmp_path / "m")
    before = tree(folder)
    done = command("export", "m", "--out", "m/manifest.json", cwd=tmp_path)
    assert done.returncode == 2
    assert tree(folder) == before


def test_the_demo_runs_again_into_its_own_folder(tmp_path):
    for _ in range(2):
        run_demo(tmp_path / "demo", n_rows=5000, methods=("none",), saved_method="none")
    (tmp_path / "demo" / "calibrated.parquet").write_text("made by the next command")
    run_demo(tmp_path / "demo", n_rows=5000, methods=("none",), saved_method="none")
    assert (tmp_path / "demo" / "calibrated.parquet").read_text() == "made by the next command"
