"""What the verbs write: a full disk is one line, the old model survives it, and nothing of the caller's is replaced."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import DiskFull, InvalidInput
from monocal.models.apply import apply_model

LOG = monocal.simulate_log(3000, seed=3).table()

# the limit on the size of a file fails like a full disk, for any user
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv = ["monocal", *sys.argv[2:]]
from monocal.cli.main import main
sys.exit(main())
"""

ROLES = ("--score", "pctr", "--label", "click", "--method", "wide_logistic", "--fields", "device,site_id")
COMMANDS = {
    "fit": (500, ("fit", "log.parquet", *ROLES, "--out", "model"), "model"),
    "apply": (20_000, ("apply", "model", "log.parquet", "--out", "out.parquet"), "out.parquet"),
}


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def platt():
    return monocal.fit(LOG, method="platt", score="pctr", label="click")


@pytest.fixture
def here(tmp_path):
    pq.write_table(LOG, tmp_path / "log.parquet")
    platt().save(tmp_path / "model")
    return tmp_path


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_full_disk_is_one_line_and_everything_stays_as_it_was(here, verb):
    limit, words, out = COMMANDS[verb]
    before = tree(here)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *words], cwd=here, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert f"disk full while writing '{out}" in done.stderr.splitlines()[-1]
    assert "Hint: free space" in done.stderr
    assert tree(here) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_really_full_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        model = platt()
        folder = model.save(place / "model")
        disk = os.statvfs(place)
        (place / "filler").write_bytes(b"x" * (disk.f_bavail * disk.f_bsize - 4_096))
        wide = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["device", "site_id"])
        with pytest.raises(DiskFull, match="disk full while writing .*model"):
            wide.save(folder)
        with pytest.raises(DiskFull, match="disk full while writing .*out.parquet"):
            apply_model(model, LOG, place / "out.parquet")
        assert monocal.load(folder).fingerprint == model.fingerprint
        assert sorted(os.listdir(place)) == ["filler", "model"]
        (place / "filler").unlink()
        wide.save(Path(folder))
        assert monocal.load(folder).fingerprint == wide.fingerprint
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "log.parquet", *ROLES, "--out", "."), "current folder"),
        (("fit", "no_such_log.parquet", *ROLES, "--out", "box"), r"notes\.md"),
        (("report", "model", "log.parquet", "--out", "log.parquet"), "a file other than the input"),
        (("export", "model", "--out", "model/manifest.json"), "other than"),
    ],
)
def test_no_verb_writes_over_what_it_did_not_write(here, monocal_command, monkeypatch, words, message):
    (here / "box").mkdir()
    (here / "box" / "notes.md").write_text("a month of work")
    before = tree(here)
    monkeypatch.chdir(here)
    ended = monocal_command(*words)
    assert ended.code == 2
    with pytest.raises(InvalidInput, match=message):
        raise InvalidInput(ended.err)
    assert tree(here) == before
