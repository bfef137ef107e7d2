"""A model as bytes, and at places that are not local folders."""

import pytest

import monocal
from monocal.core.errors import ArtefactError, InvalidInput
from monocal.lab.simulator import simulate_log
from monocal.models.artefact import model_files, save_model

LOG = simulate_log(2_000, world="affine").table()
MODEL = monocal.fit(LOG, method="wide_logistic", score="pctr", label="click", fields=["device"])


def test_bytes_are_what_a_folder_holds(tmp_path):
    save_model(MODEL, tmp_path / "model")
    written = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    assert model_files(MODEL) == written


def test_a_model_of_bytes_answers_as_the_model(tmp_path):
    loaded = monocal.load(model_files(MODEL))
    assert loaded.fingerprint == MODEL.fingerprint
    assert (loaded.predict(LOG) == MODEL.predict(LOG)).all()


def test_a_model_is_loaded_from_a_uri(tmp_path):
    save_model(MODEL, tmp_path / "model")
    assert monocal.load((tmp_path / "model").as_uri()).fingerprint == MODEL.fingerprint


def test_an_altered_file_is_refused_with_the_name_of_the_place(tmp_path):
    save_model(MODEL, tmp_path / "model")
    state = tmp_path / "model/state.safetensors"
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    uri = (tmp_path / "model").as_uri()
    with pytest.raises(ArtefactError, match=rf"^{uri}/state.safetensors: the contents do not match"):
        monocal.load(uri)


def test_a_file_longer_than_stated_is_not_read_to_its_end(tmp_path):
    save_model(MODEL, tmp_path / "model")
    with (tmp_path / "model/state.safetensors").open("ab") as stream:
        stream.write(b"x" * 100_000)
    with pytest.raises(ArtefactError, match=r"state.safetensors: \d+ bytes instead of \d+"):
        monocal.load((tmp_path / "model").as_uri())


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        ("nowhere://bucket/model", InvalidInput, "nothing here opens nowhere://"),
        ("file:///there/is/no/model", ArtefactError, "manifest.json: cannot be read"),
        ({"state.safetensors": b""}, InvalidInput, "expected manifest.json among them"),
        ({"../manifest.json": b"{}"}, InvalidInput, "expected plain file names"),
    ],
)
def test_what_is_no_model_is_refused(place, error, message):
    with pytest.raises(error, match=message):
        monocal.load(place)
