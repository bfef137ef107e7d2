"""What a model must show before it is let near a request."""

from dataclasses import replace

import numpy as np
import pytest

import monocal
from monocal.core.errors import ArtefactError
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.verification import verify


@pytest.fixture
def platt(log):
    return monocal.fit(log, method="platt", score="pctr", label="click")


def test_a_sound_model_is_let_through(model):
    verify(model)


def test_other_answers_than_at_fit_time_are_refused(platt):
    off = {**platt.canary, "answer0": platt.canary["answer0"] + 1e-4}
    with pytest.raises(ArtefactError, match=r"canary rows differ by 1\.00e-04 from their answers at fit time"):
        verify(replace(platt, canary=off))


def test_a_map_that_falls_is_refused(platt):
    platt.tasks[0].calibrator.slope_ = -1.0
    with pytest.raises(ArtefactError, match=r"task 'click': the prediction falls .* though platt is monotone"):
        verify(replace(platt, canary={}))


def test_answers_that_are_no_probabilities_are_refused(platt):
    platt.tasks[0].calibrator.intercept_ = float("nan")
    with pytest.raises(ArtefactError, match="task 'click': some answers are not probabilities"):
        verify(replace(platt, canary={}))


def test_an_altered_file_is_refused_at_load(model, tmp_path):
    folder = model.save(tmp_path / "model")
    state = folder / "state.safetensors"
    damaged = bytearray(state.read_bytes())
    damaged[-3] ^= 1
    state.write_bytes(bytes(damaged))
    with pytest.raises(ArtefactError, match=r"state.safetensors: the contents do not match the manifest"):
        Engine.load(folder)


def test_a_loaded_engine_names_its_fingerprint(model, tmp_path):
    engine = Engine.load(model.save(tmp_path / "model"))
    assert engine.version == monocal.models.read_manifest(tmp_path / "model")["fingerprint"]
    assert np.isfinite(engine.warm_up())
