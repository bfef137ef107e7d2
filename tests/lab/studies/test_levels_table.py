"""The table of one line per calibrator and seed: what stands beside a recipe without SCLoss."""

import numpy as np
import pytest

from monocal.lab.studies.cells import cell_of, finish
from monocal.lab.studies.levels_table import levels_table
from monocal.lab.studies.study import Study
from monocal.lab.studies.study_data import write

N = 4_000
FACTORS = {
    "ours without SCLoss": 1.3,
    "ours": 1.1,
    "ours, 5 bins": 1.2,
    "ours other": 1.0,
    "theirs": 1.4,
    "theirs, 5 bins": 1.5,
}
HEAD = "| calibrator | minus the same without SCLoss |"


def lines_of(tmp_path, factors):
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.05, 0.4, N)
    arrays = {
        "test_labels": (rng.random(N) < truth).astype(np.int8),
        "test_features": rng.integers(1, 9, (N, 2)).astype(np.int32),
        "test_logits": np.zeros(N),
    }
    facts = {"n_calibration": 1234, "n_test": N, "field_names": ["a", "b"], "n_embeddings": 0}
    data = write(tmp_path / "data", arrays, facts)
    calibrators = [{"name": name, "method": "umc", "arguments": {"tau": value}} for name, value in factors.items()]
    entries = {"name": "small", "question": "?", "table": "levels", "challenger": "ours", "seeds": [0, 1]}
    study = Study.of({**entries, "data": [{"name": "log"}], "calibrators": calibrators})
    cells = [cell_of("log", data, spec, seed, tmp_path) for spec in study.calibrators for seed in study.seeds]
    for cell in cells:
        p = truth * (factors[cell.spec.name] + 0.01 * cell.seed)
        finish(cell, {"status": "ok", "cpu_seconds": 2.0, "peak_rss_bytes": 2**30}, p)
    return list(levels_table(study, cells))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_recipe_and_its_settings_are_compared_with_the_same_seed_without_scloss(tmp_path, seed):
    lines = lines_of(tmp_path, FACTORS)
    start = lines.index(HEAD) + 2
    found = [line.split("|")[1].strip() for line in lines[start : lines.index("", start)]]
    assert sorted(found) == sorted(f"{name}, seed {s}" for name in ("ours", "ours, 5 bins") for s in (0, 1))
    losses = {line.split("|")[1].strip(): line.split("|")[2] for line in lines if line.count("|") == 12}
    (gap,) = (line.split("|")[2] for line in lines[start:] if line.startswith(f"| ours, 5 bins, seed {seed} |"))
    expected = float(losses[f"ours, 5 bins, seed {seed}"]) - float(losses[f"ours without SCLoss, seed {seed}"])
    assert float(gap.split("±")[0]) == pytest.approx(expected, abs=2e-6)


def test_nothing_is_said_of_scloss_where_every_recipe_has_it(tmp_path):
    assert HEAD not in lines_of(tmp_path, {"ours": 1.1, "theirs": 1.4})
