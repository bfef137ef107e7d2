"""Three thousand bodies that are nearly right, of every call: none gets a 5xx, and every answer is whole."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "serving" / "body_fuzz.py"
N_BODIES = 3_000


@pytest.fixture(scope="module")
def found():
    spec = importlib.util.spec_from_file_location("body_fuzz", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run(N_BODIES)


def test_no_body_gets_a_5xx_or_half_an_answer(found):
    assert found["problems"][:3] == []
    assert sum(found["statuses"].values()) == N_BODIES


def test_the_bodies_reach_behind_the_door(found):
    """Enough of them are right, and the others are refused for many reasons."""
    assert found["statuses"][200] > N_BODIES / 20
    assert {400, 401, 404, 422} <= set(found["statuses"])
