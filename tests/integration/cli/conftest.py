"""A log and a model on disk, and the command line called as a function or as a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import monocal
from monocal.lab.simulator import simulate_log

SOURCE = Path(monocal.__file__).parents[1]
FIELDS = "site_id,ad_id,country,hour,position,device"


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
def monocal_process(ended):
    """Calls the command line as a process of its own, through pipes."""

    def call(*arguments, **options):
        done = subprocess.run(
            process_arguments(*arguments), capture_output=True, text=True, timeout=300, env=environment(), **options
        )
        return ended(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def python_process(ended):
    """Runs Python code in a process that can import the package."""

    def call(code, **variables):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=environment() | variables
        )
        return ended(done.returncode, done.stdout, done.stderr)

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
