"""Ctrl-C and SIGTERM in the middle of the work leave nothing half-written."""

import signal
import subprocess
import time

import pytest

from monocal.lab.simulator import write_simulated_log


@pytest.fixture(scope="module")
def large_log(tmp_path_factory):
    return write_simulated_log(tmp_path_factory.mktemp("large") / "log.parquet", 1_500_000, show_progress=False)


def interrupt_when_writing(process, folder, number):
    """Sends the signal as soon as the temporary output has some bytes."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, "it was done before it could be interrupted"
        if any(path.is_file() and path.stat().st_size > 100_000 for path in folder.iterdir()):
            process.send_signal(number)
            return
        time.sleep(0.005)
    pytest.fail("no output appeared")


@pytest.mark.parametrize(
    ("number", "name", "earlier", "ending"),
    [
        (signal.SIGINT, "scored.parquet", None, (130, b"", b"interrupted\n")),
        (signal.SIGTERM, "scored.csv", "from last week\n", (143, b"", b"terminated\n")),
    ],
    ids=["Ctrl-C", "SIGTERM"],
)
def test_an_interrupted_verb_leaves_what_was_there_before(
    start_monocal, model_folder, large_log, tmp_path, number, name, earlier, ending
):
    out = tmp_path / name
    if earlier:
        out.write_text(earlier)
    process = start_monocal(
        *("apply", model_folder, large_log, "--out", out), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    interrupt_when_writing(process, tmp_path, number)
    said, errors = process.communicate(timeout=300)
    assert (process.returncode, said, errors) == ending
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == ({name: earlier} if earlier else {})
