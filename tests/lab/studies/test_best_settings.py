"""Competitors at their best: epochs chosen on held-out rows, trees boosted on all rows."""

import numpy as np

from monocal.lab.peers import lightgbm_answers
from monocal.lab.studies.cells import cell_of, fit, search_arguments
from monocal.lab.studies.prepared_logs import prepare
from monocal.lab.studies.study import CalibratorSpec, DataSpec
from monocal.lab.studies.study_data import CalibrationRows, TestRows

PUBLISHED = {"preset": "paper", "batch_rows": 256}


def test_the_number_of_epochs_is_the_best_one_on_the_newest_rows(tmp_path):
    data = prepare(DataSpec("world", n_calibration=2000, n_test=500), tmp_path, None)
    rates = {"learning_rate": [1e-5, 1e-2]}
    spec = CalibratorSpec("tuned", "fac", PUBLISHED, rates, search_epochs=4)
    rows = data.calibration()
    found = search_arguments(cell_of("world", data, spec, 0, tmp_path), rows)
    assert found.n_trials == 2
    assert found.arguments["learning_rate"] == 1e-2
    watched = fit("fac", PUBLISHED | found.arguments | {"n_epochs": 4, "held_out_share": 0.2}, rows, 0)
    losses = watched.history_["held_out_losses"]
    assert len(losses) == 5
    assert losses[found.arguments["n_epochs"]] == min(losses[1:]) == found.loss


def test_cells_that_choose_no_epochs_keep_the_names_they_had(tmp_path):
    data = prepare(DataSpec("world", n_calibration=500, n_test=500), tmp_path, None)
    names = {cell_of("world", data, CalibratorSpec("a", "fac", search_epochs=n), 0, tmp_path).folder for n in (0, 0, 3)}
    assert len(names) == 2


def test_trees_are_boosted_on_the_newest_rows_too():
    """A value that occurs among the newest fifth alone, where all labels are 1, must be learned."""
    rng = np.random.default_rng(0)
    n = 2000
    features = np.stack([rng.integers(0, 2, n), np.arange(n) >= 0.9 * n], axis=1).astype(np.int64)
    labels = (rng.random(n) < np.where(features[:, 0] == 1, 0.8, 0.2)).astype(np.int8)
    labels[features[:, 1] == 1] = 1
    rows = CalibrationRows(np.zeros(n), labels, features, np.arange(n), None)
    asked = TestRows(np.zeros(2), np.array([[0, 0], [0, 1]]))
    options = {"min_data_in_leaf": 5, "cat_smooth": 1.0, "min_data_per_group": 5}
    known, newest = lightgbm_answers(rows, asked, options, 0)
    assert newest > known + 0.2
