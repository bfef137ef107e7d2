"""What is loaded was checked: resealed nonsense is refused, and one number names a model everywhere."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file

import monocal
from monocal.core.errors import ArtefactError
from monocal.core.format import fingerprint, fingerprint_file
from monocal.models.artefact import MODEL_FOLDER
from monocal.models.inspect import inspect_folder
from monocal.reports.data import build_report
from monocal.serving.engine import Engine
from monocal.tables.vocabulary import Vocabulary

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")

LOG = monocal.simulate_log(600, seed=4).table()


def fitted(method="wide_logistic"):
    return monocal.fit(LOG, method=method, score="pctr", label="click", fields=["device", "site_id"])


@pytest.fixture
def saved(tmp_path):
    return fitted().save(tmp_path / "m")


def reseal(folder):
    """What somebody would do who knows the format: new sizes, new fingerprints."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name, facts in manifest["files"].items():
        facts |= {"n_bytes": (folder / name).stat().st_size, "fingerprint": fingerprint_file(folder / name)}
    manifest.pop("fingerprint")
    path.write_text(json.dumps(manifest | {"fingerprint": fingerprint(manifest)}))


def change_state(folder, change):
    arrays = load_file(folder / "state.safetensors")
    save_file({name: change(name, array) for name, array in arrays.items()}, folder / "state.safetensors")
    reseal(folder)


def test_resealed_nan_is_refused(saved):
    change_state(saved, lambda name, array: array * np.nan if name.startswith("task0") else array)
    with pytest.raises(ArtefactError, match="nothing was loaded"):
        monocal.load(saved)
    assert monocal.load(saved, verify=False).task_names == ("click",)


def test_a_resealed_canary_of_nan_is_refused(saved):
    change_state(saved, lambda name, array: array * np.nan if "answer" in name else array)
    with pytest.raises(ArtefactError, match="canary rows differ by nan"):
        monocal.load(saved)


def test_a_resealed_negative_slope_is_refused_even_without_a_canary(tmp_path):
    model = monocal.fit(LOG, method="platt", score="pctr", label="click")
    model.tasks[0].calibrator.slope_ = -1.0
    folder = replace(model, canary={}).save(tmp_path / "m")
    with pytest.raises(ArtefactError, match="though platt is monotone; nothing was loaded"):
        monocal.load(folder)


def test_unknown_parameters_and_missing_arrays_are_refused_by_name(saved):
    change_state(saved, lambda name, array: array[:0] if name.startswith("task0") else array)
    with pytest.raises(ArtefactError, match=r"nothing was loaded"):
        monocal.load(saved)
    manifest = json.loads((saved / "manifest.json").read_text())
    manifest["tasks"][0]["parameters"]["nonsense"] = 1
    (saved / "manifest.json").write_text(json.dumps(manifest))
    reseal(saved)
    with pytest.raises(ArtefactError, match="damaged .*nothing was loaded"):
        monocal.load(saved)


def test_one_fingerprint_before_and_after_saving_in_inspect_report_and_service(tmp_path):
    model = fitted()
    before = model.fingerprint
    folder = model.save(tmp_path / "m")
    loaded = monocal.load(folder)
    page = dict(build_report(folder, LOG, n_bootstrap=5, n_floor=5).provenance.facts)
    assert {
        json.loads((folder / "manifest.json").read_text())["fingerprint"],
        loaded.fingerprint,
        replace(loaded, info=loaded.info).fingerprint,
        inspect_folder(folder).facts["fingerprint"],
        Engine.load(folder).version,
        page["Model fingerprint"],
    } == {before}
    assert replace(loaded, sampling_rate=0.5).fingerprint != before


def test_files_that_the_manifest_does_not_name_are_not_copied(saved, tmp_path):
    (saved / "notes.md").write_text("x" * 1000)
    (tmp_path / "copy").mkdir()
    MODEL_FOLDER.copy(saved, tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == sorted(
        ["manifest.json", "state.safetensors", "vocabulary.arrow"]
    )
    assert monocal.load(tmp_path / "copy").fingerprint == monocal.load(saved).fingerprint


def test_a_file_that_grew_is_not_copied_whole(saved, tmp_path):
    n_bytes = (saved / "state.safetensors").stat().st_size
    with (saved / "state.safetensors").open("ab") as stream:
        stream.write(b"x" * 100_000)
    (tmp_path / "copy").mkdir()
    MODEL_FOLDER.copy(saved, tmp_path / "copy")
    assert (tmp_path / "copy" / "state.safetensors").stat().st_size == n_bytes + 1
    with pytest.raises(ArtefactError, match="bytes instead of"):
        monocal.load(tmp_path / "copy")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", ""])
def test_a_manifest_that_names_files_outside_is_refused(saved, name):
    manifest = json.loads((saved / "manifest.json").read_text())
    manifest["files"][name] = {"n_bytes": 0, "fingerprint": ""}
    manifest.pop("fingerprint")
    (saved / "manifest.json").write_text(json.dumps(manifest | {"fingerprint": fingerprint(manifest)}))
    with pytest.raises(ArtefactError, match="damaged"):
        monocal.load(saved)


def compressed_vocabulary():
    """Few bytes that would expand to 400 MB."""
    schema = pa.schema([("field", pa.string()), ("values", pa.large_list(pa.string())), ("n_buckets", pa.int64())])
    text = pa.array(["a" * (1 << 20)]).take(pa.array(np.zeros(400, dtype=np.int32)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        row = [pa.array(["site"]), pa.LargeListArray.from_arrays([0, 400], text), pa.array([None], pa.int64())]
        writer.write_batch(pa.RecordBatch.from_arrays(row, schema=schema))
    return sink.getvalue().to_pybytes()


def test_a_compressed_vocabulary_is_refused_before_it_expands():
    contents = compressed_vocabulary()
    assert len(contents) < 200_000
    before = pa.total_allocated_bytes()
    with pytest.raises(ArtefactError, match="its buffers are compressed"):
        Vocabulary.of_bytes(contents)
    assert pa.default_memory_pool().max_memory() >= before
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_no_change_of_a_vocabulary_file_crashes_the_process():
    """Bad offsets, lengths and texts: refused, or a vocabulary that can be used."""
    contents = Vocabulary.of_table(LOG, ["device", "site_id"]).to_bytes()
    random = np.random.default_rng(0)
    n_refused = 0
    for _ in range(3000):
        changed = np.frombuffer(contents, dtype=np.uint8).copy()
        changed[random.integers(0, changed.size, random.integers(1, 4))] = random.integers(0, 256)
        try:
            for field in Vocabulary.of_bytes(changed.tobytes()).fields:
                field.values.to_pylist()
        except ArtefactError:
            n_refused += 1
    assert n_refused > 500


def test_a_reader_goes_on_with_the_new_model_if_the_folder_is_replaced_meanwhile(tmp_path, monkeypatch):
    folder = fitted().save(tmp_path / "m")
    other = fitted("none")
    real, calls = type(MODEL_FOLDER).read_file, []

    def replaced_at_first(self, *arguments):
        if not calls:
            calls.append(1)
            shutil.rmtree(folder)
            other.save(folder)
        return real(self, *arguments)

    monkeypatch.setattr(type(MODEL_FOLDER), "read_file", replaced_at_first)
    assert monocal.load(folder).fingerprint == other.fingerprint
