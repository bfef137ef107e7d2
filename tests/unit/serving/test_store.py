"""The model store without HTTP: copies, the active version, and what is refused."""

import asyncio
import gc
import os
import shutil
import weakref
from pathlib import Path

import pytest

import monocal
from monocal.core.errors import ArtefactError
from monocal.serving import Request
from monocal.serving.service import ModelStore
from monocal.serving.telemetry import LiveMetrics


@pytest.fixture
def folder(model, tmp_path):
    return model.save(tmp_path / "published")


@pytest.fixture
def make(folder, tmp_path):
    """Makes the stores of several workers of one service."""
    return lambda: ModelStore("ads", folder, tmp_path / "copies", "refuse", LiveMetrics().loads)


@pytest.fixture
def store(make):
    made = make()
    made.start()
    return made


def other(model):
    """The same model with another rule, hence another fingerprint."""
    return model.with_fusion(type(model.fusion)({"click": 5.0}))


def test_only_files_of_the_model_are_copied_and_two_versions_are_kept(folder, make, model, tmp_path):
    (folder / "notes.txt").write_text("not a part of the model")
    (folder / "large").mkdir()
    store = make()
    store.start()
    versions = [store.engine.version]
    assert {path.name for path in (tmp_path / "copies" / versions[0]).iterdir()} == {
        "manifest.json",
        "state.safetensors",
        "vocabulary.arrow",
    }
    for weight in (5.0, 6.0):
        shutil.rmtree(folder)
        model.with_fusion(type(model.fusion)({"click": weight})).save(folder)
        assert asyncio.run(store.load()) == "switched"
        versions.append(store.engine.version)
    found = {path.name for path in (tmp_path / "copies").iterdir()}
    assert found == {"active", *versions[1:]}


def test_the_engine_reads_neither_the_published_files_nor_the_copies_any_more(store, folder, model, tmp_path):
    """Nor is it killed when a file that it once mapped is cut short in place."""
    for path in [*folder.iterdir(), *(tmp_path / "copies").rglob("*")]:
        if path.is_file():
            os.truncate(path, 0)
    answer = store.engine.calibrate(Request({"click": [0.2]}, shared=dict.fromkeys(model.field_names, "a")))
    assert 0.0 < answer.probabilities["click"][0] < 1.0


def test_a_request_keeps_its_engine_and_the_old_one_is_freed_after_it(store, folder, model):
    async def swap():
        held = store.engine
        gone = weakref.ref(held)
        other(model).save(folder)
        assert await store.load() == "switched"
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


def test_a_store_without_any_sound_model_does_not_start(folder, make):
    (folder / "manifest.json").unlink()
    empty = make()
    with pytest.raises(ArtefactError, match="ads/manifest.json: there is no such file"):
        empty.start()
    with pytest.raises(ArtefactError, match="model 'ads': none is loaded yet"):
        _ = empty.engine


@pytest.mark.parametrize("lies_there", ["damaged", "good, not loaded", "nothing"])
def test_a_later_worker_takes_the_active_version_whatever_lies_in_the_folder(store, folder, model, make, lies_there):
    if lies_there == "damaged":
        (folder / "manifest.json").write_text("{")
    elif lies_there == "good, not loaded":
        other(model).save(folder)
    else:
        shutil.rmtree(folder)
    later = make()
    later.start()
    assert later.engine.version == store.engine.version


def test_other_workers_follow_the_active_version_and_not_the_folder(store, folder, model, make):
    second = make()
    second.start()
    other(model).save(folder)
    assert asyncio.run(store.load()) == "switched"
    model.save(folder)  # a publisher is quicker than the second worker

    async def follow():
        following = asyncio.create_task(second.follow(0.01, watch=False))
        while second.engine.version != store.engine.version:
            await asyncio.sleep(0.01)
        following.cancel()

    asyncio.run(asyncio.wait_for(follow(), 300.0))


def test_a_folder_that_is_being_written_is_not_loaded_before_it_rests(store, monkeypatch):
    looks = [(("state", number, 0, 0),) for number in (1, 2, 3, 3, 3)]
    loaded_after = []

    async def load():
        loaded_after.append(len(looks))
        store._last_publication = (("state", 3, 0, 0),)

    monkeypatch.setattr("monocal.serving.service._publication", lambda _folder: looks.pop(0))
    monkeypatch.setattr(store, "load", load)
    with pytest.raises(IndexError):
        asyncio.run(store.follow(0.0, watch=True))
    assert loaded_after == [1]


def test_a_lost_copy_is_made_anew_from_the_folder(store, model, make, tmp_path):
    shutil.rmtree(tmp_path / "copies" / store.engine.version)
    later = make()
    later.start()
    assert later.engine.version == store.engine.version


@pytest.mark.parametrize("what", ["fields", "tasks", "fusion rule"])
def test_a_model_for_other_requests_is_refused(store, folder, model, log, what):
    fields = ["site_id"] if what == "fields" else list(model.field_names)
    tasks = {task.name: (task.label, task.score) for task in model.tasks[: 1 if what == "tasks" else 3]}
    different = monocal.fit(log, method="wide_logistic", tasks=tasks, fields=fields)
    if what != "fusion rule":
        different = different.with_fusion(type(model.fusion)({"click": 1.0}))
    different.save(folder)
    assert asyncio.run(store.load()) == "refused"
    assert f"the new model asks for other requests than the one serving: {what}" in store.last_refusal


def test_a_full_disk_refuses_the_new_model_and_leaves_the_old_one(store, folder, model, monkeypatch):
    def full(*_arguments, **_others):
        raise OSError(28, "No space left on device")

    other(model).save(folder)
    monkeypatch.setattr("monocal.serving.service.tempfile.mkdtemp", full)
    version = store.engine.version
    assert asyncio.run(store.load()) == "refused"
    assert store.engine.version == version
    assert store.last_refusal == "the model folder cannot be copied: No space left on device; nothing was loaded"
    assert Path(folder).exists()
