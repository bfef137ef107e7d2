"""A full disk is an error with a name; what was there stays, and nothing half-written is left."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import monocal
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
    "fit": (500, ("fit", "log.parquet", *ROLES, "--out", "out"), "out"),
    "prepare": (
        3000,
        ("lab", "prepare", "log.parquet", "--label", "click", "--fields", "device,site_id", "--out", "out"),
        "out",
    ),
    "apply": (20_000, ("apply", "model", "log.parquet", "--out", "out.parquet"), "out.parquet"),
    "report": (20_000, ("report", "model", "log.parquet", "--out", "out.html"), "out.html"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("full")
    pq.write_table(LOG, folder / "log.parquet")
    monocal.fit(LOG, method="platt", score="pctr", label="click").save(folder / "model")
    return folder


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_full_disk_is_named_and_nothing_half_written_is_published(prepared, verb):
    limit, words, out = COMMANDS[verb]
    before = sorted(os.listdir(prepared))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit), *words], cwd=prepared, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert f"disk full while writing '{out}" in done.stderr
    assert "Hint: free space" in done.stderr
    assert "fault in monocal" not in done.stderr
    # prepare keeps its hidden work, so that the next run goes on from there
    assert [name for name in sorted(os.listdir(prepared)) if name != f".{out}.work"] == before


def test_the_old_model_survives_a_full_disk(tmp_path):
    model = monocal.fit(LOG, method="platt", score="pctr", label="click")
    folder = model.save(tmp_path / "model")
    script = """
import resource, sys, monocal
model = monocal.load(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    model.save(sys.argv[1])
except monocal.core.errors.DiskFull as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=True)
    assert "disk full while writing" in done.stdout
    assert monocal.load(folder).fingerprint == model.fingerprint
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_really_full_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        model = monocal.fit(LOG, method="platt", score="pctr", label="click")
        folder = model.save(place / "model")
        disk = os.statvfs(place)
        (place / "filler").write_bytes(b"x" * (disk.f_bavail * disk.f_bsize - 4_096))
        wide = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["device", "site_id"])
        with pytest.raises(monocal.core.errors.DiskFull, match="disk full while writing .*model"):
            wide.save(folder)
        with pytest.raises(monocal.core.errors.DiskFull, match="disk full while writing .*out.parquet"):
            apply_model(model, LOG, place / "out.parquet")
        assert monocal.load(folder).fingerprint == model.fingerprint
        assert sorted(os.listdir(place)) == ["filler", "model"]
        (place / "filler").unlink()
        wide.save(Path(folder))
        assert monocal.load(folder).fingerprint == wide.fingerprint
    finally:
        subprocess.run(["umount", place], check=True)
