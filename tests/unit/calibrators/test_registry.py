"""Methods of other distributions: found by entry point, then like any other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import monocal
from monocal.calibrators import CALIBRATORS
from monocal.calibrators.registry import GROUP, BrokenMethod

HALVING = '''
from typing import final

from monocal.calibrators import LogitCalibrator, Tags


@final
class Halving(LogitCalibrator):
    """Halves the distance of every logit from the mean logit of the fit."""

    name = "halving"
    class_tags = Tags(monotone="strict")

    def _fit(self, data):
        self.mean_ = float(data.z.mean())

    def _predict_logits(self, data):
        return (data.z - self.mean_) / 2.0 + self.mean_
'''


def a_distribution(folder, name, offers):
    """Lays out the metadata of an installed distribution."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{GROUP}]", *(f"{method} = {place}" for method, place in offers.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    place = a_distribution(tmp_path / "site", "halving-method", {"halving": "halving_method:Halving"})
    (place / "halving_method.py").write_text(HALVING)
    monkeypatch.syspath_prepend(place)
    yield place
    sys.modules.pop("halving_method", None)


def a_log():
    return monocal.simulate_log(4_000, seed=3).table()


ROLES = {"score": "pctr", "label": "click"}


def test_a_foreign_method_is_fitted_saved_loaded_and_compared_by_name(foreign, tmp_path):
    assert "halving" in [method.name for method in monocal.methods()]
    log = a_log()
    model = monocal.fit(log, method="halving", **ROLES)
    model.save(tmp_path / "model")
    before = model.predict(log)
    assert (monocal.load(tmp_path / "model").predict(log) == before).all()
    found = monocal.compare(log, methods=["halving", "platt"], time="timestamp", n_bootstrap=20, **ROLES)
    assert found.result("halving").evaluation is not None


def test_a_foreign_method_is_listed_without_being_imported(foreign):
    assert "halving" in CALIBRATORS
    assert list(CALIBRATORS).count("halving") == 1
    assert "halving_method" not in sys.modules


def test_a_saved_model_names_the_method_that_is_not_installed_here(foreign, tmp_path):
    monocal.fit(a_log(), method="halving", **ROLES).save(tmp_path / "model")
    script = "import sys, monocal; monocal.load(sys.argv[1])"
    environment = os.environ | {"PYTHONPATH": str(Path(monocal.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "model"], env=environment, capture_output=True, text=True
    )
    assert "uses the method 'halving', which neither monocal" in done.stderr
    assert "install the distribution that the method is from" in done.stderr
    assert json.loads((tmp_path / "model" / "manifest.json").read_text())["tasks"][0]["method"] == "halving"


def test_names_of_this_package_cannot_be_taken(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(a_distribution(tmp_path, "thief", {"platt": "nowhere:Platt"}))
    assert CALIBRATORS["platt"].__module__.startswith("monocal.calibrators")
    assert list(CALIBRATORS).count("platt") == 1


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("no_such_module_here:Kind", "cannot be imported: No module named 'no_such_module_here'"),
        ("json:Missing", "cannot be imported: module 'json' has no attribute 'Missing'"),
        ("json:JSONDecoder", "expected a class derived from monocal.calibrators.Calibrator whose name is 'strange'"),
    ],
)
def test_a_method_that_cannot_be_used_is_named_with_its_distribution(tmp_path, monkeypatch, place, problem):
    monkeypatch.syspath_prepend(a_distribution(tmp_path, "strange-method", {"strange": place}))
    with pytest.raises(BrokenMethod, match=r"the method 'strange' of strange-method \(") as raised:
        monocal.calibrator("strange")
    assert problem in str(raised.value)


def test_two_distributions_with_one_name_are_refused(foreign, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(a_distribution(tmp_path / "more", "other", {"halving": "other:Halving"}))
    with pytest.raises(BrokenMethod, match="offered by other .*halving-method|offered by halving-method .*other"):
        monocal.calibrator("halving")
