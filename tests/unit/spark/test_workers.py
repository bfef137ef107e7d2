"""What a worker does with a model, and where it keeps what it compiles and copies."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

import monocal
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.lab.simulator import simulate_log
from monocal.models.artefact import load_model, model_files
from monocal.spark import workers
from monocal.spark.fit import check_slots
from monocal.spark.workers import Shipped, receive, ship

LOG = simulate_log(2_000, world="affine").table()
MODEL = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["device"])


@pytest.fixture(autouse=True)
def fresh_worker(monkeypatch, tmp_path):
    """A worker that has no model yet, on a host with a temporary folder of its own."""
    monkeypatch.setattr(workers, "_loaded", {})
    monkeypatch.setattr(workers.tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def read_only(monkeypatch):
    """An installation that cannot be written, which permissions would not keep from root."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "none yet")  # so that what a test leaves there goes with it
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(workers.os, "access", lambda *_: False)


def test_a_worker_loads_a_model_once_and_keeps_the_last_one(monkeypatch):
    loaded = []
    monkeypatch.setattr(workers, "load_model", lambda place: loaded.append(place) or load_model(place))
    shipped = Shipped(MODEL.fingerprint, model_files(MODEL))
    assert receive(shipped) is receive(shipped)
    assert (receive(shipped).predict(LOG) == MODEL.predict(LOG)).all()
    assert len(loaded) == 1
    other = monocal.fit(LOG, method="platt", score="pctr", label="click")
    receive(Shipped(other.fingerprint, model_files(other)))
    assert list(workers._loaded) == [other.fingerprint]


def test_workers_of_a_host_share_one_copy_of_a_large_model(monkeypatch, tmp_path):
    monkeypatch.setattr(workers, "LARGEST_SHIPPED_BYTES", 1_000)
    MODEL.save(tmp_path / "model")
    _, shipped = ship((tmp_path / "model").as_uri())
    assert shipped.files is None
    assert receive(shipped).fingerprint == MODEL.fingerprint
    shutil.rmtree(tmp_path / "model")
    workers._loaded.clear()  # another worker of the host, after the place is gone
    assert (receive(shipped).predict(LOG) == MODEL.predict(LOG)).all()
    (copy,) = (tmp_path / f"monocal-{os.getuid()}" / "models").iterdir()
    (copy / "state.safetensors").write_bytes(b"damaged")
    workers._loaded.clear()
    with pytest.raises(ArtefactError, match="state.safetensors"):
        receive(shipped)


def test_a_large_model_that_lies_nowhere_is_refused_with_a_hint(monkeypatch):
    monkeypatch.setattr(workers, "LARGEST_SHIPPED_BYTES", 1_000)
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
    workers.keep_compiled_loops()
    place = Path(os.environ["NUMBA_CACHE_DIR"])
    assert place.parent.parent == tmp_path
    assert place.parent.name != f"monocal-{os.getuid()}"
    assert place.parent.stat().st_mode & 0o077 == 0


def test_a_chosen_place_stays(read_only, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "chosen")
    workers.keep_compiled_loops()
    assert os.environ["NUMBA_CACHE_DIR"] == "chosen"


def session(slots, **settings):
    """Stands for a classic session."""
    profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
    scheduler = SimpleNamespace(
        resourceProfileManager=lambda: profiles, maxNumConcurrentTasks=lambda profile: {"default": slots}[profile]
    )
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scheduler))
    return SimpleNamespace(conf=settings, _sc=context)


class Range:
    """Stands for a range of Spark Connect, which has a partition per slot."""

    def __init__(self, slots):
        self.slots = slots

    def selectExpr(self, _expression):
        return self

    def distinct(self):
        return self

    def count(self):
        return self.slots


def test_slots_are_counted_where_there_is_no_spark_context():
    connect = SimpleNamespace(conf={}, range=lambda n_rows: Range(min(3, n_rows)))
    check_slots(connect, 3)
    with pytest.raises(InvalidInput, match="workers: got 4; expected at most the 3 slots"):
        check_slots(connect, 4)


def test_too_few_slots_and_dynamic_allocation_are_refused():
    check_slots(session(4), 4)
    with pytest.raises(InvalidInput, match="workers: got 5; expected at most the 4 slots"):
        check_slots(session(4), 5)
    with pytest.raises(InvalidInput, match="workers: got 0; expected a whole number ≥ 1"):
        check_slots(session(4), 0)
    with pytest.raises(InvalidInput, match=r"spark\.dynamicAllocation\.enabled: got true"):
        check_slots(session(4, **{"spark.dynamicAllocation.enabled": "true"}), 2)
