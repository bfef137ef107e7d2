"""A log and a model on disk, and the command line called as a function or as a process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import monocal
from monocal.cli.main import main
from monocal.lab.simulator import simulate_log, write_simulated_log

SOURCE = Path(monocal.__file__).parents[1]
FIELDS = "site_id,ad_id,country,hour,position,device"


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(scope="session")
def log_file(tmp_path_factory):
    return write_simulated_log(tmp_path_factory.mktemp("log") / "log.parquet", 20_000, show_progress=False)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory, log_file):
    model = monocal.fit(
        str(log_file), method="wide_logistic", score="pctr", label="click", fields=FIELDS.split(","), time="timestamp"
    )
    return model.save(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="session")
def videos_file(tmp_path_factory):
    """Three tasks; the label of the last is unknown where nobody clicked."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = simulate_log(20_000, world="multitask").table()
    clicked = table["click"].to_numpy() == 1
    given_click = pa.array(table["long_view"].to_numpy(), mask=~clicked)
    both = (table["click"].to_numpy() == 1) & (table["long_view"].to_numpy() == 1)
    pcvr = table["plv"].to_numpy() / table["pctr"].to_numpy()
    table = table.append_column("view_given_click", given_click).append_column("both", pa.array(both.astype("int8")))
    table = table.append_column("pcvr", pa.array(pcvr.clip(0.0, 1.0))).append_column("pctcvr", table["plv"])
    path = tmp_path_factory.mktemp("videos") / "videos.parquet"
    pq.write_table(table, path)
    return path


@pytest.fixture
def monocal_command(capsys):
    """Calls the command line in this process."""

    def call(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return call


@pytest.fixture
def monocal_process():
    """Calls the command line as a process of its own, through pipes."""

    def call(*arguments, **options):
        done = subprocess.run(
            process_arguments(*arguments), capture_output=True, text=True, timeout=300, env=environment(), **options
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def python_process():
    """Runs Python code in a process that can import the package."""

    def call(code, **variables):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment() | variables
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def start_monocal():
    """Starts the command line as a process and hands it over running."""
    started = []

    def start(*arguments, **options):
        process = subprocess.Popen(process_arguments(*arguments), env=environment(), **options)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def process_arguments(*arguments):
    return [sys.executable, "-m", "monocal", *map(str, arguments)]


def environment():
    return {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "120"}
