"""What version 0.1.0 wrote is read forever: models of every method, an encoded log, scored logs with their rankers."""

import json
from pathlib import Path

import numpy as np
import pytest

import monocal
from monocal.lab.rankers import load_ranker
from monocal.logs.encoded_log import EncodedLog
from monocal.logs.scored_log import ScoredLog

HERE = Path(__file__).parent / "v0_1"
# The paper's integrand adds 32-bit numbers in vectors as wide as the processor has, so its last bits are the
# processor's: these answers are of one kind, and another kind's differ by 2.4e-10.
TOLERANCES = {"umc_concat": 1e-9}
EXPECTED = json.loads((HERE / "models" / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(EXPECTED["answers"]))
def test_model_of_version_0_1_gives_the_answers_of_version_0_1(name):
    found = monocal.load(HERE / "models" / name).predict(EXPECTED["probe"])
    expected = EXPECTED["answers"][name]
    tolerance = TOLERANCES.get(name, 1e-12)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for task, answers in expected.items():
            np.testing.assert_allclose(found[task], answers, rtol=0.0, atol=tolerance)
    else:
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance)


def test_a_model_of_version_0_1_keeps_the_fingerprint_of_its_folder():
    """It was computed over other entries than today's, so it is read and not computed again."""
    for name in EXPECTED["answers"]:
        stated = json.loads((HERE / "models" / name / "manifest.json").read_text())["fingerprint"]
        assert monocal.load(HERE / "models" / name).fingerprint == stated


def test_every_saved_golden_is_tested():
    assert {path.name for path in (HERE / "models").iterdir() if path.is_dir()} == set(EXPECTED["answers"])


def test_encoded_log_of_version_0_1_opens():
    log = EncodedLog.open(HERE / "logs" / "prepared")
    assert log.n_rows == 1500
    assert log.field_names == ("site_id", "ad_id")
    assert log.field_sizes == (119, 128)


@pytest.mark.parametrize("name", ["ranked", "ranked_hashed"])
def test_scored_log_and_ranker_of_version_0_1_open_and_agree(name):
    scored = ScoredLog.open(HERE / "logs" / name)
    assert scored.tasks == ("click",)
    again = load_ranker(HERE / "logs" / name / "ranker").score_tasks(scored.log)["click"]
    np.testing.assert_allclose(again, scored.logits["click"], rtol=0.0, atol=1e-5)
