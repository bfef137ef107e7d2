"""The command line as people meet it: at a terminal with progress bars, in pipes without them."""

import json
import os
import pty

import pytest

from monocal.lab.simulator import write_simulated_log


def run_at_a_terminal(start_monocal, *arguments):
    """Runs a command whose output and errors are a terminal, and returns its exit code and all it printed."""
    leader, follower = pty.openpty()
    process = start_monocal(*arguments, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    return process.wait(timeout=300), shown.decode()


@pytest.fixture(scope="module")
def larger_log(tmp_path_factory):
    return write_simulated_log(tmp_path_factory.mktemp("larger") / "log.parquet", 300_000, show_progress=False)


def test_a_terminal_shows_a_bar_with_rate_and_time_left(start_monocal, model_folder, larger_log, tmp_path):
    code, shown = run_at_a_terminal(start_monocal, "apply", model_folder, larger_log, "--out", tmp_path / "s.parquet")
    assert code == 0
    assert "calibrating" in shown
    assert "100%" in shown
    assert "rows/s" in shown
    assert "wrote 300,000 rows" in shown


def test_pipes_carry_results_on_stdout_and_remarks_on_stderr(monocal_process, log_file, tmp_path):
    ended = monocal_process(
        *("compare", log_file, "--score", "pctr", "--label", "click", "--methods", "platt", "--json")
    )
    assert ended.code == 0
    assert json.loads(ended.out)["best"] == "platt"
    assert ended.err.startswith("split by row order")
    assert "\x1b" not in ended.out + ended.err
