"""Models saved with arguments that no longer exist."""

import json
from pathlib import Path

import pytest

from monocal.calibrators import CALIBRATORS
from monocal.calibrators.retired_arguments import RETIRED, without_retired
from monocal.core.errors import ArtefactError

GOLDENS = Path(__file__).parents[2] / "goldens" / "v0_1" / "models"


def test_what_is_retired_is_gone():
    for method, gone in RETIRED.items():
        assert not gone.keys() & CALIBRATORS[method]().get_params(deep=False).keys()


def test_every_argument_of_an_old_manifest_is_known_or_retired():
    for path in GOLDENS.glob("*/manifest.json"):
        for task in json.loads(path.read_text(encoding="utf-8"))["tasks"]:
            left = without_retired(task["method"], task["parameters"])
            assert left.keys() <= CALIBRATORS[task["method"]]().get_params(deep=False).keys(), path


def test_a_value_that_changed_the_fit_is_refused_with_the_reason():
    with pytest.raises(ArtefactError, match="averaging='exponential' .the weights were averaged.* fit the model again"):
        without_retired("sbcr", {"averaging": "exponential"})
