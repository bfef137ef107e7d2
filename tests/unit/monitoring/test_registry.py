"""A registry: what is active, what was, and what is refused."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

import monocal
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.folder import fingerprint
from monocal.monitoring import registry as registry_module
from monocal.monitoring.registry import inspect_registry, is_registry, promote, read_registry, rollback

LOG = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
METHODS = ("none", "platt", "isotonic", "beta")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return {
        method: monocal.fit(LOG, method=method, score="pctr", label="click").save(place / method) for method in METHODS
    }


@pytest.fixture
def registry(tmp_path):
    return tmp_path / "registry"


def active_method(registry):
    return read_registry(registry).load().tasks[0].calibrator.name


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_promoted_model_is_the_one_given_wherever_the_registry_lies(registry, saved, tmp_path):
    source = shutil.copytree(saved["platt"], tmp_path / "source")
    found = promote(source, registry)
    assert found == read_registry(registry)
    assert (found.current.generation, found.previous) == (1, None)
    assert datetime.now(UTC) - datetime.fromisoformat(found.current.at) < timedelta(minutes=5)
    assert found.current.fingerprint == monocal.load(source).fingerprint
    assert contents(found.model_folder) == contents(source)
    shutil.rmtree(source)
    registry.rename(tmp_path / "elsewhere")
    assert active_method(tmp_path / "elsewhere") == "platt"


def test_a_rollback_returns_to_what_was_active_and_not_to_what_was_rolled_back(registry, saved):
    fingerprints = {method: promote(saved[method], registry).current.fingerprint for method in ("none", "platt")}
    rollback(registry)
    promote(saved["isotonic"], registry)
    promote(saved["beta"], registry)
    assert active_method(registry) == "beta"
    assert rollback(registry).current.generation == 3
    assert active_method(registry) == "isotonic"
    last = rollback(registry).current
    assert (last.generation, last.fingerprint) == (1, fingerprints["none"])
    assert active_method(registry) == "none"
    steps = [(step.action, step.generation) for step in read_registry(registry).history]
    assert steps[:4] == [("promote", 1), ("promote", 2), ("rollback", 1), ("promote", 3)]
    assert steps[4:] == [("promote", 4), ("rollback", 3), ("rollback", 1)]
    # what was rolled back may be promoted again
    assert promote(saved["platt"], registry).current.generation == 5
    assert rollback(registry).current.fingerprint == fingerprints["none"]
    assert len(os.listdir(registry / "models")) == 4


def test_promoting_the_active_model_changes_nothing_but_repairs_its_copy(registry, saved):
    found = promote(saved["platt"], registry)
    before = contents(registry)
    assert promote(saved["platt"], registry).history == promote(found.model_folder, registry).history == found.history
    assert contents(registry) == before
    (found.model_folder / "state.safetensors").write_bytes(b"")
    with pytest.raises(ArtefactError, match="0 bytes instead of"):
        found.load()
    assert promote(saved["platt"], registry).history == found.history
    assert contents(registry) == before


def test_nothing_foreign_is_removed(registry, saved):
    first = promote(saved["none"], registry)
    foreign = ["notes.txt", "models/mine/data.csv", ".registry.json.bak", "models/.hidden"]
    for name in foreign:
        (registry / name).parent.mkdir(parents=True, exist_ok=True)
        (registry / name).write_text(name)
    promote(saved["platt"], registry)
    rollback(registry)
    promote(saved["beta"], registry)
    assert [(registry / name).read_text() for name in foreign] == foreign
    (first.model_folder / "state.safetensors").write_bytes(b"")
    (first.model_folder / "notes.txt").write_text("mine")
    before = contents(registry)
    with pytest.raises(InvalidInput, match=r"which holds notes\.txt"):
        promote(saved["none"], registry)
    assert contents(registry) == before


@pytest.mark.parametrize("name", ["nothing", "empty", "cut", "altered"])
def test_only_a_whole_model_is_promoted(registry, saved, tmp_path, name):
    source = tmp_path / name
    if name == "empty":
        source.mkdir()
    elif name != "nothing":
        shutil.copytree(saved["platt"], source)
        path = source / "state.safetensors"
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] if name == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ArtefactError):
        promote(source, registry)
    assert not registry.exists()
    promote(saved["none"], registry)
    before = contents(registry)
    with pytest.raises(ArtefactError):
        promote(source, registry)
    assert contents(registry) == before


@pytest.mark.parametrize("other", ["isotonic", None])
def test_a_model_that_changes_while_it_is_copied_is_refused(registry, saved, tmp_path, monkeypatch, other):
    source = shutil.copytree(saved["platt"], tmp_path / "source")
    promote(saved["none"], registry)
    before = contents(registry)
    look = registry_module._has

    def replaced_meanwhile(target, name):
        shutil.rmtree(source)
        if other:
            shutil.copytree(saved[other], source)
        return look(target, name)

    monkeypatch.setattr(registry_module, "_has", replaced_meanwhile)
    with pytest.raises(ArtefactError, match="source: changed while it was copied"):
        promote(source, registry)
    assert contents(registry) == before


def test_a_folder_that_something_else_uses_is_no_registry(saved, tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "odd").mkdir()
    for name in ("used/log.csv", "file", "odd/models"):
        (tmp_path / name).write_text("mine")
    source = shutil.copytree(saved["platt"], tmp_path / "source")
    before = contents(tmp_path)
    problems = {
        "used": r"which holds log\.csv; expected a new or empty folder",
        "file": "which is not a folder",
        "source": "which is the model or lies in it",
        "source/registry": "which is the model or lies in it",
        "odd": "in which models is not a folder",
    }
    for name, problem in problems.items():
        with pytest.raises(InvalidInput, match=problem):
            promote(source, tmp_path / name)
    assert contents(tmp_path) == before


def test_a_rollback_that_cannot_be_done_changes_nothing(registry, saved):
    with pytest.raises(ArtefactError, match=r"there is no such folder; a registry is a folder with"):
        rollback(registry)
    assert not registry.exists()
    first = promote(saved["none"], registry).model_folder
    with pytest.raises(InvalidInput, match="generation 1 is active and none was before it"):
        rollback(registry)
    promote(saved["platt"], registry)
    promote(saved["isotonic"], registry)
    assert rollback(registry, generation=3).current.generation == 2
    with pytest.raises(InvalidInput, match="generation: got 3; expected the active one, which is 2"):
        rollback(registry, generation=3)
    shutil.rmtree(first)
    shutil.copytree(saved["beta"], first)
    with pytest.raises(ArtefactError, match=r"not the one that was promoted as generation 1.*2 stays active"):
        rollback(registry)
    (first / "manifest.json").unlink()
    with pytest.raises(ArtefactError, match=r"there is no such file.*Generation 2 stays active"):
        rollback(registry)
    assert read_registry(registry).current.generation == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["history"][1].update(fingerprint="../../../elsewhere"),
        lambda found: found["history"][1].update(generation=7),
        lambda found: found["history"][1].update(action="rollback"),
        lambda found: found["history"][1].update(action="forget"),
        lambda found: found["history"][0].pop("at"),
        lambda found: found["current"].update(folder="elsewhere"),
        lambda found: found["current"].update(fingerprint="0" * 32),
        lambda found: found.update(history=[]),
        lambda found: found.update(history=None),
        lambda found: found.update(schema_version=2),
        lambda found: found["history"].insert(0, dict(found["history"][0], action="rollback")),
    ],
)
def test_a_history_that_no_promotion_wrote_is_refused_and_left(registry, saved, change):
    promote(saved["none"], registry)
    promote(saved["platt"], registry)
    path = registry / "registry.json"
    whole = path.read_text()
    manifest = json.loads(whole)
    change(manifest)
    del manifest["fingerprint"]
    changed = json.dumps({**manifest, "fingerprint": fingerprint(manifest)})
    for text in (changed, whole[:-9], "[]"):
        path.write_text(text)
        assert is_registry(registry)
        for call in (lambda: promote(saved["beta"], registry), lambda: rollback(registry)):
            with pytest.raises(ArtefactError, match="nothing was loaded"):
                call()
        assert path.read_text() == text
    path.write_text(whole)
    assert active_method(registry) == "platt"
    assert len(os.listdir(registry / "models")) == 2


def test_inspection_shows_the_history_even_if_the_model_is_damaged(registry, saved):
    found = promote(saved["platt"], registry)
    text = inspect_registry(registry).text
    assert "generation 1 is active" in text
    assert "model: whole" in text
    assert f"{found.current.at}  promote   generation 1  {found.current.fingerprint}" in text
    (found.model_folder / "state.safetensors").unlink()
    damaged = inspect_registry(registry)
    assert "missing; nothing was loaded" in damaged.facts["model"]
    assert len(damaged.facts["history"]) == 1
