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


def test_ctrl_c_leaves_no_half_written_output(start_monocal, model_folder, large_log, tmp_path):
    process = start_monocal(
        *("apply", model_folder, large_log, "--out", tmp_path / "scored.parquet"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    interrupt_when_writing(process, tmp_path, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_sigterm_leaves_an_earlier_output_as_it_was(start_monocal, model_folder, large_log, tmp_path):
    (tmp_path / "scored.csv").write_text("from last week\n")
    process = start_monocal(
        *("apply", model_folder, large_log, "--out", tmp_path / "scored.csv"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    interrupt_when_writing(process, tmp_path, signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (143, b"", b"terminated\n")
    assert [path.name for path in tmp_path.iterdir()] == ["scored.csv"]
    assert (tmp_path / "scored.csv").read_text() == "from last week\n"
