import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import monocal
from monocal.cli.main import main
from monocal.core.errors import ArtefactError
from monocal.core.format import fingerprint

V0_2 = Path(__file__).parents[2] / "goldens" / "v0_2"

LOG = {
    "pctr": np.linspace(0.02, 0.6, 200),
    "click": (np.arange(200) * 0.618034) % 1 < np.linspace(0.02, 0.3, 200),
    "site": [f"s{k % 7}" for k in range(200)],
}


@pytest.fixture
def saved(tmp_path):
    model = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["site"])
    model.save(tmp_path / "m")
    return tmp_path / "m"


def edit_manifest(folder, **changes):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text()) | changes
    manifest.pop("fingerprint")
    manifest["fingerprint"] = fingerprint(manifest)
    path.write_text(json.dumps(manifest))


def test_round_trip_gives_identical_numbers(saved):
    before = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["site"])
    after = monocal.load(saved)
    np.testing.assert_array_equal(after.predict(LOG), before.predict(LOG))
    assert after.verify_canary() == 0.0
    assert after.describe() == before.describe()


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("confcalib", {}),
        ("confcalib", {"fusion": "logit", "field_weights": (0.5,)}),
        ("mlplatt", {"query_side_fields": (0,), "recent_share": 0.2}),
    ],
)
def test_round_trip_of_methods_with_one_table_per_field(tmp_path, method, arguments):
    before = monocal.fit(LOG, method=method, score="pctr", label="click", fields=["site"], **arguments)
    before.save(tmp_path / "m")
    after = monocal.load(tmp_path / "m")
    np.testing.assert_array_equal(after.predict(LOG), before.predict(LOG))
    assert after.verify_canary() == 0.0
    assert np.ptp(after.predict(LOG | {"pctr": np.full(200, 0.2)})) > 0.0  # the sites matter


def test_round_trip_of_trees(tmp_path):
    # one site clicks thrice as often as its scores say: a cut that any judge accepts
    rng = np.random.default_rng(0)
    site, p = rng.integers(0, 2, 4_000), rng.uniform(0.05, 0.3, 4_000)
    log = {"pctr": p, "click": rng.random(4_000) < p * np.where(site == 0, 1.0, 3.0), "site": site.astype(str)}
    before = monocal.fit(log, method="mbct", score="pctr", label="click", fields=["site"], min_rows=200, n_trees=3)
    before.save(tmp_path / "m")
    after = monocal.load(tmp_path / "m")
    np.testing.assert_array_equal(after.predict(log), before.predict(log))
    assert after.verify_canary() == 0.0
    assert np.ptp(after.predict(log | {"pctr": np.full(4_000, 0.2)})) > 0.0  # the sites matter


def test_truncated_weights_are_refused(saved):
    path = saved / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ArtefactError, match=r"state.safetensors: \d+ bytes instead of \d+; nothing was loaded"):
        monocal.load(saved)


def test_tampered_weights_are_refused(saved):
    path = saved / "state.safetensors"
    contents = bytearray(path.read_bytes())
    contents[-1] ^= 1
    path.write_bytes(bytes(contents))
    with pytest.raises(ArtefactError, match="do not match the manifest's fingerprint; nothing was loaded"):
        monocal.load(saved)


def test_missing_file_is_refused(saved):
    (saved / "vocabulary.arrow").unlink()
    with pytest.raises(ArtefactError, match="vocabulary.arrow: missing; nothing was loaded"):
        monocal.load(saved)


def test_edited_manifest_is_refused(saved):
    path = saved / "manifest.json"
    path.write_text(path.read_text().replace('"pctr"', '"other"'))
    with pytest.raises(ArtefactError, match="the contents do not match their fingerprint; nothing was loaded"):
        monocal.load(saved)


def test_a_manifest_beyond_its_bound_is_refused_before_it_is_parsed(saved, monkeypatch):
    size = (saved / "manifest.json").stat().st_size
    monkeypatch.setattr("monocal.core.folder.LARGEST_MANIFEST_BYTES", size)
    monocal.load(saved)
    monkeypatch.setattr("monocal.core.folder.LARGEST_MANIFEST_BYTES", size - 1)
    with pytest.raises(ArtefactError, match=r"manifest\.json: larger than 0 MiB; nothing was loaded"):
        monocal.load(saved)


def test_half_written_manifest_is_refused(saved):
    path = saved / "manifest.json"
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ArtefactError, match="not a whole JSON file"):
        monocal.load(saved)


def test_newer_schema_version_is_refused(saved):
    edit_manifest(saved, schema_version=99, written_by="monocal 9.9.0")
    with pytest.raises(ArtefactError, match="written by monocal 9.9.0 .*nothing was loaded.*Hint: upgrade monocal"):
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


def test_unknown_method_is_refused(saved):
    tasks = json.loads((saved / "manifest.json").read_text())["tasks"]
    edit_manifest(saved, tasks=[tasks[0] | {"method": "crystal_ball"}])
    with pytest.raises(ArtefactError, match="uses the method 'crystal_ball', which neither monocal .* has"):
        monocal.load(saved)


def test_a_missing_folder_and_a_missing_manifest_are_told_apart(tmp_path):
    with pytest.raises(ArtefactError, match="nothing: there is no such folder; a saved model is a folder with"):
        monocal.load(tmp_path / "nothing")
    with pytest.raises(ArtefactError, match=r"manifest\.json: there is no such file; a saved model is a folder"):
        monocal.load(tmp_path)


def test_canary_notices_other_answers(saved):
    model = monocal.load(saved)
    model.tasks[0].calibrator.intercept_ += 0.01
    with pytest.raises(ArtefactError, match="the stored canary rows differ by"):
        model.verify_canary()
