"""A map that is trained on the newest rows, beside shifts that are fitted on all."""

import numpy as np
import pytest

import monocal.neural.train
from monocal.calibrators import calibrator

METHODS = {
    "umc": {"size": "small"},
    "sbcr": {"hidden": (8,)},
    "fac": {},
    "desc": {"hidden": (8,)},
    "adacalib": {"candidate_bins": (2,)},
    "mcnet": {"hidden": (8,)},
}
N_ROWS, N_NEWEST, GONE = 3_000, 1_200, 4
RANDOM = np.random.default_rng(8)
LOGITS = RANDOM.normal(-1.0, 1.0, N_ROWS)
FEATURES = RANDOM.integers(1, GONE, (N_ROWS, 2)).astype(np.int32)
FEATURES[: N_ROWS - N_NEWEST : 5, 0] = GONE  # a value of older rows alone, which is clicked more
LABELS = RANDOM.random(N_ROWS) < 1 / (1 + np.exp(-(LOGITS + 1.5 * (FEATURES[:, 0] == GONE))))


def fitted(method, **arguments):
    one = calibrator(method, **{"n_epochs": 1, "n_dimensions": 4, **METHODS[method], **arguments})
    return one.fit(LOGITS, LABELS, features=FEATURES, scores_are="logit")


def bits(one):
    return {name: array.tobytes() for name, array in one.state().arrays.items()}


@pytest.mark.parametrize("method", METHODS)
def test_as_many_as_all_rows_change_no_bit(method):
    assert bits(fitted(method, curve_rows=N_ROWS)) == bits(fitted(method))


@pytest.mark.parametrize("carry", ["auto", "none"])
def test_the_map_sees_the_newest_rows_alone_and_shifts_all(monkeypatch, carry):
    plain, trained = monocal.neural.train.train, []

    def train(network, rows, *others):
        trained.append(rows)
        return plain(network, rows, *others)

    monkeypatch.setattr(monocal.neural.train, "train", train)
    one = fitted("umc", carry=carry, held_out_share=0.0, curve_rows=N_NEWEST)
    assert {rows.n_rows for rows in trained} == {N_NEWEST}
    assert np.array_equal(trained[-1].ids, FEATURES[-N_NEWEST:])
    assert np.array_equal(trained[-1].labels, LABELS[-N_NEWEST:])
    slots = one.weights_["encoder.slots"]
    assert slots[GONE] == slots[0] != slots[GONE - 1]
    if carry == "none":
        shifts = one.weights_["wide.shifts"][: GONE + 1]
        assert shifts[GONE] > shifts[1:GONE].max() + 0.5
