"""A saved model: the same numbers in any form; whatever is damaged, resealed or foreign is refused by name."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file

import monocal
from monocal.cli.main import main
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.folder import fingerprint, fingerprint_file
from monocal.models.artefact import MODEL_FOLDER, model_files
from monocal.models.inspect import inspect_folder
from monocal.reports.data import build_report
from monocal.serving.engine import Engine
from monocal.tables.vocabulary import Vocabulary
from monocal.tables.vocabulary_file import read_vocabulary, vocabulary_bytes

# what is shown is asked here, not how good a model is: rows of its fit will do
pytestmark = pytest.mark.filterwarnings("ignore:the model was fitted on about")

V0_2 = Path(__file__).parents[2] / "goldens" / "v0_2"
LOG = monocal.simulate_log(600, seed=4).table()
COLUMNS = {"score": "pctr", "label": "click", "fields": ["device", "site_id"]}
MODEL = monocal.fit(LOG, method="wide_logistic", **COLUMNS)


@pytest.fixture
def saved(tmp_path):
    return MODEL.save(tmp_path / "m")


def reseal(folder, **changes):
    """What somebody would do who knows the format: new sizes, new fingerprints."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | changes
    for name, facts in manifest["files"].items():
        if (folder / name).is_file():
            facts |= {"n_bytes": (folder / name).stat().st_size, "fingerprint": fingerprint_file(folder / name)}
    manifest.pop("fingerprint")
    path.write_text(json.dumps(manifest | {"fingerprint": fingerprint(manifest)}))


def change_state(folder, change):
    arrays = load_file(folder / "state.safetensors")
    save_file({name: change(name, array) for name, array in arrays.items()}, folder / "state.safetensors")
    reseal(folder)


def tasks_of(folder, **changes):
    return [json.loads((folder / "manifest.json").read_text())["tasks"][0] | changes]


def test_folder_bytes_and_uri_hold_the_same_model(saved):
    assert model_files(MODEL) == {path.name: path.read_bytes() for path in saved.iterdir()}
    for place in (saved, model_files(MODEL), saved.as_uri()):
        loaded = monocal.load(place)
        np.testing.assert_array_equal(loaded.predict(LOG), MODEL.predict(LOG))
        assert loaded.verify_canary() == 0.0
        assert loaded.describe() == MODEL.describe()
        assert loaded.fingerprint == MODEL.fingerprint


def test_one_fingerprint_in_inspect_report_and_service(saved):
    loaded = monocal.load(saved)
    page = dict(build_report(saved, LOG, n_bootstrap=5, n_floor=5).provenance.facts)
    assert {
        json.loads((saved / "manifest.json").read_text())["fingerprint"],
        replace(loaded, info=loaded.info).fingerprint,
        inspect_folder(saved).facts["fingerprint"],
        Engine.load(saved).version,
        page["Model fingerprint"],
    } == {MODEL.fingerprint}
    assert replace(loaded, sampling_rate=0.5).fingerprint != MODEL.fingerprint


def edit(name, change):
    def damage(folder):
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return damage


DAMAGES = {
    "truncated": (edit("state.safetensors", lambda b: b[:-3]), r"state.safetensors: \d+ bytes instead of \d+"),
    "longer": (edit("state.safetensors", lambda b: b + b"x" * 100_000), r"state.safetensors: \d+ bytes instead of"),
    "altered": (edit("state.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])), "do not match the manifest's finger"),
    "missing": (lambda folder: (folder / "vocabulary.arrow").unlink(), "vocabulary.arrow: "),
    "edited manifest": (edit("manifest.json", lambda b: b.replace(b'"pctr"', b'"other"')), "do not match their finger"),
    "half a manifest": (edit("manifest.json", lambda b: b[:-20]), "not a whole JSON file"),
    "nan": (lambda f: change_state(f, lambda n, a: a * np.nan if n.startswith("task0") else a), "nothing was loaded"),
    "nan canary": (lambda f: change_state(f, lambda n, a: a * np.nan if "answer" in n else a), "rows differ by nan"),
    "empty arrays": (lambda f: change_state(f, lambda n, a: a[:0] if n.startswith("task0") else a), "was loaded"),
    "unknown method": (lambda f: reseal(f, tasks=tasks_of(f, method="crystal_ball")), "uses the method 'crystal_ball'"),
    "unknown parameter": (lambda f: reseal(f, tasks=tasks_of(f, parameters={"nonsense": 1})), "damaged"),
    "newer": (lambda f: reseal(f, schema_version=99, written_by="monocal 9.9.0"), "written by monocal 9.9.0 .*upgrade"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_or_resealed_is_refused_as_folder_and_as_uri(saved, damage):
    change, message = DAMAGES[damage]
    change(saved)
    for place in (saved, saved.as_uri()):
        with pytest.raises(ArtefactError, match=message) as refused:
            monocal.load(place)
        assert str(place).removeprefix("file://") in str(refused.value)


def test_unverified_nonsense_is_loaded_on_request_and_its_canary_notices(saved):
    change_state(saved, lambda name, array: array + 1.0 if "shifts" in name else array)
    loaded = monocal.load(saved, verify=False)
    with pytest.raises(ArtefactError, match="the stored canary rows differ by"):
        loaded.verify_canary()


def test_a_resealed_negative_slope_is_refused_even_without_a_canary(tmp_path):
    model = monocal.fit(LOG, method="platt", score="pctr", label="click")
    model.tasks[0].calibrator.slope_ = -1.0
    folder = replace(model, canary={}).save(tmp_path / "m")
    with pytest.raises(ArtefactError, match="though platt is monotone; nothing was loaded"):
        monocal.load(folder)


def test_a_manifest_beyond_its_bound_is_refused_before_it_is_parsed(saved, monkeypatch):
    size = (saved / "manifest.json").stat().st_size
    monkeypatch.setattr("monocal.core.folder.LARGEST_MANIFEST_BYTES", size - 1)
    with pytest.raises(ArtefactError, match=r"manifest\.json: larger than 0 MiB; nothing was loaded"):
        monocal.load(saved)


def test_a_model_of_version_0_2_says_so_and_stays_as_it_is(tmp_path, capsys):
    """The manifest alone tells; no other file of the folder is looked at."""
    old = tmp_path / "model"
    shutil.copytree(V0_2, old)
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    with pytest.raises(ArtefactError, match="written by monocal 0.2.0 .*Hint: fit the model again"):
        monocal.load(old)
    assert main(["inspect", str(old)]) == 1
    assert "written by monocal 0.2.0" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        ("nothing", ArtefactError, "nothing: there is no such folder; a saved model is a folder with"),
        (Path(__file__).parent, ArtefactError, r"manifest\.json: there is no such file; a saved model is a folder"),
        ("nowhere://bucket/model", InvalidInput, "nothing here opens nowhere://"),
        ("file:///there/is/no/model", ArtefactError, "manifest.json: cannot be read"),
        ({"state.safetensors": b""}, InvalidInput, "expected manifest.json among them"),
        ({"../manifest.json": b"{}"}, InvalidInput, "expected plain file names"),
    ],
)
def test_what_is_no_model_is_refused(place, error, message):
    with pytest.raises(error, match=message):
        monocal.load(place)


def test_a_reader_goes_on_with_the_new_model_if_the_folder_is_replaced_meanwhile(saved, monkeypatch):
    other = monocal.fit(LOG, method="none", **COLUMNS)
    real, calls = type(MODEL_FOLDER).read_file, []

    def replaced_at_first(self, *arguments):
        if not calls:
            calls.append(1)
            shutil.rmtree(saved)
            other.save(saved)
        return real(self, *arguments)

    monkeypatch.setattr(type(MODEL_FOLDER), "read_file", replaced_at_first)
    assert monocal.load(saved).fingerprint == other.fingerprint


def test_a_compressed_vocabulary_is_refused_before_it_expands():
    """Few bytes that would expand to 400 MB."""
    schema = pa.schema([("field", pa.string()), ("values", pa.large_list(pa.string())), ("n_buckets", pa.int64())])
    text = pa.array(["a" * (1 << 20)]).take(pa.array(np.zeros(400, dtype=np.int32)))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        row = [pa.array(["site"]), pa.LargeListArray.from_arrays([0, 400], text), pa.array([None], pa.int64())]
        writer.write_batch(pa.RecordBatch.from_arrays(row, schema=schema))
    contents = sink.getvalue().to_pybytes()
    assert len(contents) < 200_000
    before = pa.total_allocated_bytes()
    with pytest.raises(ArtefactError, match="its buffers are compressed"):
        read_vocabulary(contents)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_no_change_of_a_vocabulary_file_crashes_the_process():
    """Bad offsets, lengths and texts: refused, or a vocabulary that can be used."""
    contents = vocabulary_bytes(Vocabulary.of_table(LOG, ["device", "site_id"]))
    random = np.random.default_rng(0)
    n_refused = 0
    for _ in range(2000):
        changed = np.frombuffer(contents, dtype=np.uint8).copy()
        changed[random.integers(0, changed.size, random.integers(1, 4))] = random.integers(0, 256)
        try:
            for field in read_vocabulary(changed.tobytes()).fields:
                field.values.to_pylist()
        except ArtefactError:
            n_refused += 1
    assert n_refused > 300
