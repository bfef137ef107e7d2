"""Snapshots, the board's file and the model store, without HTTP."""

import asyncio
import copy
import errno
import gc
import os
import shutil
import subprocess
import tempfile
import weakref
from dataclasses import replace

import pytest

import monocal
from monocal.core.errors import ArtefactError
from monocal.models import read_manifest
from monocal.serving.runtime.model_store import ModelStore
from monocal.serving.runtime.snapshots import Snapshots, signature
from monocal.serving.runtime.worker_board import WorkerBoard


@pytest.fixture
def folder(model, tmp_path):
    return model.save(tmp_path / "published")


@pytest.fixture
def board(tmp_path):
    return WorkerBoard.create(tmp_path / "board", 3)


@pytest.fixture
def make(folder, tmp_path, board):
    """Makes the stores of several workers of one service."""

    def make_one():
        return ModelStore("ads", folder, Snapshots(tmp_path / "copies"), board, missing_fields="refuse")

    return make_one


@pytest.fixture
def store(make):
    made = make()
    made.start()
    return made


def other(model):
    """The same model with another rule, hence another fingerprint."""
    return model.with_fusion(type(model.fusion)({"click": 5.0}))


def platt(log):
    """A sound model that asks for other requests."""
    return monocal.fit(log, method="platt", score="pctr", label="click")


def test_a_copy_is_removed_unless_it_was_kept(folder, tmp_path):
    snapshots = Snapshots(tmp_path / "copies")
    with snapshots.copy_of(folder) as copy:
        assert read_manifest(copy) == read_manifest(folder)
    assert not copy.exists()
    for version, before in (("a", ""), ("b", "a"), ("c", "b")):
        with snapshots.copy_of(folder) as copy:
            snapshots.keep(copy, version, besides=before)
    assert sorted(path.name for path in snapshots.home.iterdir()) == ["good-b", "good-c"]


def test_only_files_of_the_model_are_copied(folder, tmp_path):
    (folder / "notes.txt").write_text("not a part of the model")
    (folder / "large").mkdir()
    with Snapshots(tmp_path / "copies").copy_of(folder) as copy:
        assert sorted(path.name for path in copy.iterdir()) == [
            "manifest.json",
            "state.safetensors",
            "vocabulary.arrow",
        ]


def test_copies_that_a_killed_worker_left_behind_are_removed(folder, tmp_path):
    snapshots = Snapshots(tmp_path / "copies")
    gone = subprocess.Popen(["true"])
    gone.wait()
    left, mine = (snapshots.home / f"try-{pid}-x" for pid in (gone.pid, os.getpid()))
    left.mkdir()
    mine.mkdir()
    with snapshots.copy_of(folder):
        assert not left.exists()
        assert mine.exists()


def test_a_signature_changes_with_every_file(folder):
    before = signature(folder)
    state = folder / "state.safetensors"
    state.write_bytes(state.read_bytes())
    assert signature(folder) != before
    assert signature(folder / "nothing") == ()


def test_the_engine_does_not_read_the_published_files_any_more(store, folder, model):
    shutil.rmtree(folder)
    for path in (store._snapshots.home).rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    from monocal.serving.engine import Request

    answer = store.engine.calibrate(Request({"click": [0.2]}, shared=dict.fromkeys(model.field_names, "a")))
    assert 0.0 < answer.probabilities["click"][0] < 1.0


def test_a_request_keeps_its_engine_and_the_old_one_is_freed_after_it(store, folder, model):
    async def swap():
        held = store.engine
        gone = weakref.ref(held)
        other(model).save(folder)
        load = await store.load()
        assert load.outcome == "switched"
        assert store.engine is not held
        assert gone() is not None
        del held
        return gone

    gc.disable()  # reference counting alone must do
    try:
        gone = asyncio.run(swap())
        assert gone() is None
    finally:
        gc.enable()


def test_an_unchanged_folder_is_not_switched_to(store):
    assert asyncio.run(store.load()).outcome == "unchanged"


def test_a_refused_model_is_remembered_until_a_good_one_comes(store, folder, model):
    (folder / "manifest.json").write_text("{")
    load = asyncio.run(store.load())
    assert load.outcome == "refused"
    assert load.reason.startswith("ads/manifest.json: not a whole JSON file")
    assert store.last_refusal == load.reason
    shutil.rmtree(folder)  # a save does not replace what it cannot recognise
    other(model).save(folder)
    assert asyncio.run(store.load()).outcome == "switched"
    assert store.last_refusal == ""


def test_a_store_without_any_sound_model_does_not_start(folder, make):
    (folder / "manifest.json").unlink()
    empty = make()
    with pytest.raises(ArtefactError, match="the model folder cannot be read"):
        empty.start()
    assert not empty.is_ready
    with pytest.raises(ArtefactError, match="model 'ads': none is loaded yet"):
        _ = empty.engine


@pytest.mark.parametrize("lies_there", ["damaged", "good, not loaded", "for other requests", "nothing"])
def test_a_later_worker_takes_the_version_in_force_whatever_lies_in_the_folder(
    store, folder, model, log, make, lies_there
):
    if lies_there == "damaged":
        (folder / "manifest.json").write_text("{")
    elif lies_there == "good, not loaded":
        other(model).save(folder)
    elif lies_there == "for other requests":
        platt(log).save(folder)
        assert asyncio.run(store.load()).outcome == "refused"
    else:
        shutil.rmtree(folder)
    later = make()
    later.start()
    assert later.engine.version == store.engine.version


def test_workers_that_start_together_agree_on_one_version(folder, model, make):
    first, second = make(), make()
    first.start()
    other(model).save(folder)
    second.start()
    assert second.engine.version == first.engine.version


def test_the_others_follow_the_version_in_force_and_not_the_folder(store, folder, model, make):
    second = make()
    second.start()
    before = store.engine.version
    other(model).save(folder)
    assert asyncio.run(store.load()).outcome == "switched"
    model.save(folder)  # a publisher is quicker than the second worker
    load = asyncio.run(second.follow())
    assert (load.outcome, load.version) == ("switched", store.engine.version)
    assert load.version != before
    assert asyncio.run(second.follow()).outcome == "unchanged"


def test_a_lost_copy_is_replaced_from_the_folder_only_by_the_same_version(store, folder, model, make, tmp_path):
    shutil.rmtree(tmp_path / "copies")
    later = make()
    later.start()
    assert later.engine.version == store.engine.version
    other(model).save(folder)
    with pytest.raises(ArtefactError, match="the copy of the version in force, .* cannot be read"):
        make().start()


def test_a_model_that_falls_somewhere_does_not_start(folder, model, make):
    falling = copy.deepcopy(model)
    falling.task("click").calibrator.slope_ = -0.5
    replace(falling, canary={}).save(folder)
    with pytest.raises(ArtefactError, match="task 'click': the prediction falls"):
        make().start()


@pytest.mark.parametrize("what", ["fields", "tasks", "fusion rule"])
def test_a_model_for_other_requests_is_refused(store, folder, model, log, what):
    fields = ["site_id"] if what == "fields" else list(model.field_names)
    tasks = {task.name: (task.label, task.score) for task in model.tasks[: 1 if what == "tasks" else 3]}
    different = monocal.fit(log, method="wide_logistic", tasks=tasks, fields=fields)
    if what != "fusion rule":
        different = different.with_fusion(type(model.fusion)({"click": 1.0}))
    different.save(folder)
    load = asyncio.run(store.load())
    assert load.outcome == "refused"
    assert f"the new model asks for other requests than the one serving: {what}" in load.reason


def test_workers_hear_of_a_load_and_tell_how_it_went(tmp_path):
    first = WorkerBoard.create(tmp_path / "board", 3)
    board = [WorkerBoard(tmp_path / "board", slot) for slot in range(3)]
    assert first.n_workers == 3
    assert board[2].version_in_force(0) == ""
    with board[0].exclusive():
        number = board[0].put_in_force(0, "a" * 64)
    assert [worker.version_in_force(0) for worker in board] == ["a" * 64] * 3
    assert board[1].version_in_force(1) == ""
    assert [worker.expected(0) for worker in board] == [number] * 3
    assert board[1].expected(1) == 0
    board[0].report(0, number, "switched")
    board[2].report(0, number, "refused")
    assert board[1].outcomes(0, number) == {"pending": 1, "switched": 1, "unchanged": 0, "refused": 1}
    board[1].report(0, number + 1, "unchanged")
    assert board[1].outcomes(0, number)["pending"] == 0


def test_a_worker_is_ready_only_under_its_own_process_id(tmp_path):
    board = WorkerBoard.create(tmp_path / "board", 2)
    board.report_ready()
    assert board.is_ready(0, os.getpid())
    assert not board.is_ready(0, os.getpid() + 1)
    assert not board.is_ready(1, os.getpid())


def test_beats_are_counted_per_worker(tmp_path):
    WorkerBoard.create(tmp_path / "board", 2)
    second = WorkerBoard(tmp_path / "board", 1)
    second.beat()
    second.beat()
    assert [WorkerBoard(tmp_path / "board").n_beats(slot) for slot in range(2)] == [0, 2]


def test_a_worker_that_starts_again_on_a_full_disk_makes_nothing_new_there(store, folder, board, tmp_path, monkeypatch):
    from monocal.serving import Settings, create_app

    home = tmp_path / "home"
    shutil.copytree(tmp_path / "copies", home / "active")

    def full(*_arguments, **_others):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"):
        monkeypatch.setattr(tempfile, name, full)

    async def serve():
        app = create_app(Settings(folder, name="ads"), home=home, board=board)
        async with app.router.lifespan_context(app):
            return app.state.service.engine.version

    assert asyncio.run(serve()) == store.version_in_force
