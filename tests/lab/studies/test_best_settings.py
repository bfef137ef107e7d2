"""Competitors at their best: epochs chosen on held-out rows, trees boosted on all rows."""

from monocal.lab.studies.cells import cell_of, fit, search_arguments
from monocal.lab.studies.prepared_logs import prepare
from monocal.lab.studies.study import CalibratorSpec, DataSpec

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
