"""The table of a challenger: who counts as rival, what is better beyond noise, and what was retained."""

import numpy as np
import pytest

from monocal.core.errors import UnknownName
from monocal.lab.studies.cells import cell_of, finish
from monocal.lab.studies.rivals_table import half_width, rivals_table
from monocal.lab.studies.study import Study
from monocal.lab.studies.study_data import write

N = 20_000
ENTRIES = {
    "name": "small",
    "question": "?",
    "table": "rivals",
    "challenger": "ours",
    "rivals": ["theirs", "plain"],
    "seeds": [0, 1],
    "data": [{"name": "log"}, {"name": "absent"}],
    "calibrators": [
        {"name": "theirs", "method": "platt"},
        {"name": "plain", "method": "isotonic"},
        {"name": "beside", "method": "none"},
        {"name": "ours", "method": "umc"},
    ],
}


@pytest.fixture
def finished(tmp_path):
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.05, 0.4, N)
    labels = (rng.random(N) < truth).astype(np.int8)
    arrays = {
        "test_labels": labels,
        "test_features": rng.integers(1, 9, (N, 2)).astype(np.int32),
        "test_logits": np.zeros(N),
        "test_groups": rng.integers(0, 500, N),
    }
    facts = {"n_calibration": 1234, "n_test": N, "field_names": ["a", "b"], "n_embeddings": 0}
    data = write(tmp_path / "data", arrays, facts)
    study = Study.of(ENTRIES)
    answers = {"theirs": truth * 1.1, "plain": truth * 1.5, "beside": truth, "ours": truth * 1.02}
    cells = [cell_of("log", data, spec, seed, tmp_path) for spec in study.calibrators for seed in study.seeds]
    for cell in cells:
        retained = {"network": [0.25], "fields": [1.0, 0.5]} if cell.spec.name == "ours" else {}
        p = answers[cell.spec.name] * (1.0 + 0.001 * cell.seed)
        finish(cell, {"status": "ok", "cpu_seconds": 2.0, "retained": retained}, p)
    return study, cells


def test_a_challenger_is_compared_with_the_best_rival_and_not_with_others(finished):
    study, cells = finished
    (line,) = (line for line in rivals_table(study, cells) if line.startswith("| log |"))
    places = [text.strip() for text in line.strip("|").split("|")]
    assert places[1:3] == ["1,234", "2"]
    assert places[7].endswith("▲ (theirs)")
    assert places[7].startswith("-0.0")
    assert places[-3:] == ["2.0 2.0 2.0", "0.25", "1.00 0.50"]


def test_who_is_worse_beyond_noise_is_marked(finished):
    study, cells = finished
    swapped = Study.of({**ENTRIES, "challenger": "plain", "rivals": ["ours"]})
    (line,) = (line for line in rivals_table(swapped, cells) if line.startswith("| log |"))
    assert "▼ (ours)" in line
    assert not any(line.startswith("| absent") for line in rivals_table(study, cells))


def test_rows_that_depend_on_each_other_widen_the_interval():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 300, N)
    gaps = rng.normal(size=300)[groups] + rng.normal(size=N)
    alone, grouped = half_width(gaps), half_width(gaps, groups)
    assert alone == pytest.approx(1.96 * gaps.std() / N**0.5, rel=0.2)
    assert grouped == pytest.approx(1.96 * (1.0 / 300) ** 0.5, rel=0.25)


def test_a_table_or_a_rival_that_is_not_there_is_named():
    with pytest.raises(UnknownName, match="table of the study: got 'rival'"):
        Study.of({**ENTRIES, "table": "rival"})
    with pytest.raises(UnknownName, match="challenger or rival of the study: got 'their'"):
        Study.of({**ENTRIES, "rivals": ["their"]})
