"""Rows that several test files share, and the rule that a skip in CI is a failure."""

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

# Two processes run the tests side by side: threads of one would wait at every small matrix product for a core that the
# other one has, which makes a training nine times slower on a busy machine. Torch reads this when it is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def t10():
    """Ten samples with two fields, small enough to work out by hand: scores s, labels y, fields z and g."""
    return SimpleNamespace(
        s=np.array([0.05, 0.12, 0.18, 0.25, 0.33, 0.41, 0.48, 0.62, 0.77, 0.91]),
        y=np.array([0, 0, 1, 0, 0, 1, 0, 1, 0, 1]),
        z=np.array(["a", "a", "b", "b", "a", "c", "c", "b", "a", "c"]),
        g=np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1]),
    )


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def ended():
    """How a command ended, made of its exit code and its two outputs."""
    return Ended


@pytest.fixture
def quick_place(tmp_path):
    """A folder on a disk in memory where there is one: thousands of synced writes take minutes on some disks."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


DYING = """
import os, signal, sys
EVENTS = {"open", "fcntl.flock"} | {
    f"os.{name}" for name in ("mkdir", "rename", "remove", "rmdir", "chmod", "listdir", "scandir")
}

def ends_whole(act, k):
    child = os.fork()
    if child == 0:
        calls, sync = 0, os.fsync
        def count(*_):
            nonlocal calls
            calls += 1
            if calls == k:
                os.kill(os.getpid(), signal.SIGKILL)
        os.fsync = lambda descriptor: (count(), sync(descriptor), count())
        sys.addaudithook(lambda event, arguments: count() if event in EVENTS else None)
        act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFEXITED(status)
"""


@pytest.fixture
def dying():
    """Code for a child process: `ends_whole(act, k)` acts in a process that is killed at its k-th system call."""
    return DYING


@pytest.fixture(scope="session")
def log_file(tmp_path_factory):
    from monocal.lab.simulator import write_simulated_log

    return write_simulated_log(tmp_path_factory.mktemp("log") / "log.parquet", 20_000, show_progress=False)


@pytest.fixture
def monocal_command(capsys):
    """Calls the command line in this process."""

    from monocal.cli.main import main

    def call(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call


MAY_BE_MISSING_IN_CI = ("GPU", "real logs are not beside the checkout", "no docker daemon here")
"""Reasons that no package could mend; any other skip in CI hides a missing install step."""


def _fail_if_skipped_in_ci(report):
    if not report.skipped or not os.environ.get("CI") or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
    if not any(name in reason for name in MAY_BE_MISSING_IN_CI):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where everything must run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    _fail_if_skipped_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    _fail_if_skipped_in_ci(report)
    return report
