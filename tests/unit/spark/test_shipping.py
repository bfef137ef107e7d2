"""What a worker does with a model, and where it keeps what it compiles and copies."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import monocal
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.reduce import Local
from monocal.lab.simulator import simulate_log
from monocal.models.artefact import load_model, model_files
from monocal.spark import barrier, shipping
from monocal.spark.shipping import Shipped, receive, ship
from monocal.tables.roles import Roles
from monocal.tables.vocabulary import Vocabulary

LOG = simulate_log(2_000, world="affine").table()
MODEL = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["device"])


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch, tmp_path):
    """A worker that has no model yet, on a host with a temporary folder of its own."""
    monkeypatch.setattr(shipping, "_loaded", {})
    monkeypatch.setattr(shipping.tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def read_only(monkeypatch):
    """An installation that cannot be written, which permissions would not keep from root."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "none yet")  # so that what a test leaves there goes with it
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(shipping.os, "access", lambda *_: False)


def test_a_worker_loads_a_model_once_and_keeps_the_last_one(monkeypatch):
    loaded = []
    monkeypatch.setattr(shipping, "load_model", lambda place: loaded.append(place) or load_model(place))
    shipped = Shipped(MODEL.fingerprint, model_files(MODEL))
    assert receive(shipped) is receive(shipped)
    assert (receive(shipped).predict(LOG) == MODEL.predict(LOG)).all()
    assert len(loaded) == 1
    other = monocal.fit(LOG, method="platt", score="pctr", label="click")
    receive(Shipped(other.fingerprint, model_files(other)))
    assert list(shipping._loaded) == [other.fingerprint]


def test_workers_of_a_host_share_one_copy_of_a_large_model(monkeypatch, tmp_path):
    monkeypatch.setattr(shipping, "LARGEST_SHIPPED_BYTES", 1_000)
    MODEL.save(tmp_path / "model")
    _, shipped = ship((tmp_path / "model").as_uri())
    assert shipped.files is None
    assert receive(shipped).fingerprint == MODEL.fingerprint
    shutil.rmtree(tmp_path / "model")
    shipping._loaded.clear()  # another worker of the host, after the place is gone
    assert (receive(shipped).predict(LOG) == MODEL.predict(LOG)).all()
    (copy,) = (tmp_path / f"monocal-{os.getuid()}" / "models").iterdir()
    (copy / "state.safetensors").write_bytes(b"damaged")
    shipping._loaded.clear()
    with pytest.raises(ArtefactError, match="state.safetensors"):
        receive(shipped)


def test_a_large_model_that_lies_nowhere_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(shipping, "LARGEST_SHIPPED_BYTES", 1_000)
    with pytest.raises(InvalidInput, match="save it to a shared place and pass the URI"):
        ship(MODEL)


def test_loops_are_kept_in_a_private_folder_where_the_installation_is_read_only(read_only, tmp_path):
    receive(Shipped(MODEL.fingerprint, model_files(MODEL)))
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert place == tmp_path / f"monocal-{os.getuid()}" / "loops"
    assert place.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("made", [lambda folder: folder.mkdir(mode=0o755), lambda folder: folder.symlink_to("/tmp")])
def test_a_folder_that_others_could_have_filled_is_not_trusted(read_only, tmp_path, made):
    made(tmp_path / f"monocal-{os.getuid()}")
    shipping.let_loops_be_kept()
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert place.parent.parent == tmp_path
    assert place.parent.name != f"monocal-{os.getuid()}"
    assert place.parent.stat().st_mode & 0o077 == 0


def test_a_chosen_place_stays(read_only, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "chosen")
    shipping.let_loops_be_kept()
    assert os.environ["NUMBA_CACHE_DIR"] == "chosen"


@pytest.mark.parametrize("module", ["monocal.spark.apply", "monocal.spark.evaluate", "monocal.spark.barrier"])
def test_what_a_worker_imports_does_not_import_numba_before_it_has_a_place(module):
    code = f"import sys, {module}; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


class Table:
    """Stands for a Spark table of one partition, whose barrier stage runs here."""

    def __init__(self, table):
        self.table = table
        settings = SimpleNamespace(get=lambda _key: "true", set=lambda _key, _value: None)
        self.sparkSession = SimpleNamespace(conf=settings)

    def repartition(self, *_):
        return self

    def sortWithinPartitions(self, *_):
        return self

    def mapInArrow(self, work, _schema, barrier):
        assert barrier
        return Table(pa.Table.from_batches(work(iter(self.table.to_batches()))))

    def collect(self):
        return self.table.to_pylist()


def test_a_fit_in_a_barrier_keeps_its_loops_there_too(read_only, monkeypatch):
    @contextmanager
    def alone(_workers):
        assert "NUMBA_CACHE_DIR" in os.environ
        yield Local()

    monkeypatch.setattr(barrier, "_joined_team", alone)
    roles = Roles.of(score="pctr", label="click", fields=["device"])
    known = Vocabulary.of_table(LOG, ["device"])
    model = barrier.fit_in_barrier(Table(LOG.select(roles.columns)), roles, known, "wide_logistic", {}, workers=1)
    assert (model.predict(LOG) == MODEL.predict(LOG)).all()
