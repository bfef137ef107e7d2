"""A registry: what is active, what was, and what is refused."""

import json
import os
import shutil
from datetime import UTC, datetime

import pytest

import monocal
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.folder import entries_of
from monocal.core.format import fingerprint
from monocal.monitoring import registry as registry_module
from monocal.monitoring.registry import inspect_registry, is_registry, promote, read_registry, rollback

LOG = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
METHODS = ("none", "platt", "isotonic", "beta")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


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
    return {name: (folder / name).read_bytes() for name in entries_of(folder)[0]}


def reseal(registry, change):
    path = registry / "registry.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    del manifest["fingerprint"]
    path.write_text(json.dumps({**manifest, "fingerprint": fingerprint(manifest)}))


def test_a_promotion_is_in_force_and_its_model_is_the_one_given(registry, saved):
    found = promote(saved["platt"], registry, at=NOON)
    assert found == read_registry(registry)
    assert (found.current.generation, found.current.at) == (1, "2026-01-31T12:00:00+00:00")
    assert found.current.fingerprint == monocal.load(saved["platt"]).fingerprint
    assert contents(found.model_folder) == contents(saved["platt"])
    assert found.previous is None


def test_a_rollback_returns_to_what_was_in_force_and_not_to_what_was_rolled_back(registry, saved):
    promote(saved["none"], registry)
    promote(saved["platt"], registry)
    rollback(registry)
    promote(saved["isotonic"], registry)
    promote(saved["beta"], registry)
    assert active_method(registry) == "beta"
    assert rollback(registry).current.generation == 3
    assert active_method(registry) == "isotonic"
    assert rollback(registry).current.generation == 1
    assert active_method(registry) == "none"
    steps = [(step.action, step.generation) for step in read_registry(registry).history]
    assert steps == [
        ("promote", 1),
        ("promote", 2),
        ("rollback", 1),
        ("promote", 3),
        ("promote", 4),
        ("rollback", 3),
        ("rollback", 1),
    ]


def test_a_model_that_was_rolled_back_may_be_promoted_again(registry, saved):
    promote(saved["none"], registry)
    promote(saved["platt"], registry)
    rollback(registry)
    assert promote(saved["platt"], registry).current.generation == 3
    assert rollback(registry).current.generation == 1
    assert len(os.listdir(registry / "models")) == 2


def test_promoting_the_model_in_force_changes_nothing(registry, saved):
    promote(saved["none"], registry)
    promote(saved["platt"], registry)
    before = contents(registry)
    assert promote(saved["platt"], registry).current.generation == 2
    assert promote(read_registry(registry).model_folder, registry).current.generation == 2
    assert contents(registry) == before


def test_promoting_the_model_in_force_mends_its_damaged_copy(registry, saved):
    found = promote(saved["platt"], registry)
    (found.model_folder / "state.safetensors").write_bytes(b"")
    with pytest.raises(ArtefactError, match="0 bytes instead of"):
        found.load()
    assert promote(saved["platt"], registry).history == found.history
    assert contents(found.model_folder) == contents(saved["platt"])


def test_a_promoted_model_outlives_the_folder_it_came_from(registry, saved, tmp_path):
    source = shutil.copytree(saved["platt"], tmp_path / "source")
    promote(source, registry)
    shutil.rmtree(source)
    assert active_method(registry) == "platt"


def test_a_registry_can_be_moved(registry, saved, tmp_path):
    promote(saved["none"], registry)
    promote(saved["platt"], registry)
    registry.rename(tmp_path / "elsewhere")
    assert active_method(tmp_path / "elsewhere") == "platt"
    rollback(tmp_path / "elsewhere")
    assert active_method(tmp_path / "elsewhere") == "none"


def test_nothing_foreign_is_removed(registry, saved):
    promote(saved["none"], registry)
    foreign = ["notes.txt", "models/mine/data.csv", ".registry.json.bak", "models/.hidden"]
    for name in foreign:
        (registry / name).parent.mkdir(parents=True, exist_ok=True)
        (registry / name).write_text(name)
    promote(saved["platt"], registry)
    rollback(registry)
    promote(saved["beta"], registry)
    assert [(registry / name).read_text() for name in foreign] == foreign


def test_a_damaged_copy_with_foreign_files_is_refused_and_left(registry, saved):
    found = promote(saved["none"], registry)
    promote(saved["platt"], registry)
    (found.model_folder / "state.safetensors").write_bytes(b"")
    (found.model_folder / "notes.txt").write_text("mine")
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
    problem = {"nothing": "there is no such folder", "empty": "there is no such file"}.get(name, "Hint")
    with pytest.raises(ArtefactError, match=problem):
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
    (tmp_path / "used" / "log.csv").write_text("mine")
    with pytest.raises(
        InvalidInput, match=r"registry: got '.*used', which holds log\.csv; expected a new or empty folder"
    ):
        promote(saved["platt"], tmp_path / "used")
    assert os.listdir(tmp_path / "used") == ["log.csv"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidInput, match="which is not a folder"):
        promote(saved["platt"], tmp_path / "file")
    source = shutil.copytree(saved["platt"], tmp_path / "source")
    for inside in (source, source / "registry"):
        with pytest.raises(InvalidInput, match="which is the model or lies in it"):
            promote(source, inside)
    assert contents(source) == contents(saved["platt"])
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "models").write_text("mine")
    with pytest.raises(InvalidInput, match="in which models is not a folder"):
        promote(saved["platt"], tmp_path / "odd")


def test_there_is_nothing_before_the_first_generation(registry, saved):
    with pytest.raises(ArtefactError, match=r"there is no such folder; a registry is a folder with"):
        rollback(registry)
    assert not registry.exists()
    promote(saved["platt"], registry)
    with pytest.raises(InvalidInput, match="generation 1 is active and none was before it"):
        rollback(registry)
    assert active_method(registry) == "platt"


def test_a_repeated_rollback_that_names_its_generation_goes_back_once(registry, saved):
    for method in METHODS[:3]:
        promote(saved[method], registry)
    assert rollback(registry, generation=3).current.generation == 2
    with pytest.raises(InvalidInput, match="generation: got 3; expected the active one, which is 2"):
        rollback(registry, generation=3)
    assert read_registry(registry).current.generation == 2


def test_a_rollback_to_a_damaged_or_exchanged_model_changes_nothing(registry, saved):
    first = promote(saved["none"], registry).model_folder
    promote(saved["platt"], registry)
    shutil.rmtree(first)
    shutil.copytree(saved["beta"], first)
    with pytest.raises(
        ArtefactError, match=r"not the one that was promoted as generation 1.*Generation 2 stays active"
    ):
        rollback(registry)
    (first / "manifest.json").unlink()
    with pytest.raises(ArtefactError, match=r"there is no such file.*Generation 2 stays active"):
        rollback(registry)
    assert read_registry(registry).current.generation == 2


def test_a_damaged_registry_is_refused_and_left(registry, saved):
    promote(saved["none"], registry)
    promote(saved["platt"], registry)
    path = registry / "registry.json"
    whole = path.read_text()
    for text in ("", whole[:-9], whole.replace('"generation": 2', '"generation": 1'), "[]"):
        path.write_text(text)
        assert is_registry(registry)
        for call in (lambda: promote(saved["beta"], registry), lambda: rollback(registry)):
            with pytest.raises(ArtefactError, match="nothing was loaded"):
                call()
        assert path.read_text() == text
    assert len(os.listdir(registry / "models")) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["history"][1].update(fingerprint="../../../elsewhere"),
        lambda found: found["history"][1].update(generation=7),
        lambda found: found["history"][1].update(action="rollback"),
        lambda found: found["history"][1].update(action="forget"),
        lambda found: found["history"][0].pop("at"),
        lambda found: found["current"].update(folder="elsewhere"),
        lambda found: found.update(history=[]),
        lambda found: found.update(history=None),
        lambda found: found["history"].insert(0, dict(found["history"][0], action="rollback")),
    ],
)
def test_a_history_that_no_promotion_wrote_is_refused(registry, saved, change):
    promote(saved["none"], registry)
    promote(saved["platt"], registry)
    reseal(registry, lambda found: None)
    assert read_registry(registry).current.generation == 2
    reseal(registry, change)
    with pytest.raises(ArtefactError, match="damaged"):
        read_registry(registry)


def test_a_newer_registry_is_refused(registry, saved):
    promote(saved["none"], registry)
    reseal(registry, lambda found: found.update(schema_version=2))
    with pytest.raises(ArtefactError, match="schema version 2"):
        promote(saved["platt"], registry)


def test_a_time_needs_its_zone(registry, saved):
    with pytest.raises(InvalidInput, match="expected a time with a time zone"):
        promote(saved["platt"], registry, at=datetime(2026, 1, 31))
    assert not registry.exists()


def test_inspection_tells_the_history_even_if_the_model_is_damaged(registry, saved):
    promote(saved["none"], registry, at=NOON)
    found = promote(saved["platt"], registry, at=NOON)
    text = inspect_registry(registry).text
    assert "generation 2 is active" in text
    assert "model: whole" in text
    assert f"2026-01-31T12:00:00+00:00  promote   generation 2  {found.current.fingerprint}" in text
    (found.model_folder / "state.safetensors").unlink()
    damaged = inspect_registry(registry)
    assert "missing; nothing was loaded" in damaged.facts["model"]
    assert len(damaged.facts["history"]) == 2
