"""One shard is the fit from before fits were cut into shards: its answers, as that version gave them on these rows.

There they were equal to the last bit; another processor may round otherwise, so twelve digits are compared.
"""

import numpy as np
import pytest

from monocal.calibrators import calibrator
from monocal.core.dataset import Dataset
from monocal.core.reduce import LOCAL, Partition

FIRST_FOUR_AND_SUM = {
    "plain": (
        {},
        [0.07797555441804468, 0.33688405576255354, 0.2684554344001887, 0.4961197190761155],
        576.3423461144549,
    ),
    "learned penalty and recent level": (
        {"l2": "auto", "recent_share": 0.2},
        [0.10616756567132646, 0.3781061161922549, 0.25526904263043754, 0.49003529326299233],
        605.5627507986014,
    ),
}


@pytest.mark.parametrize("partition", [None, Partition(LOCAL, 1, (0,), np.array([0, 2_000]))], ids=["none", "one"])
@pytest.mark.parametrize("name", FIRST_FOUR_AND_SUM)
def test_answers_are_those_of_the_version_without_shards(name, partition):
    arguments, first_four, total = FIRST_FOUR_AND_SUM[name]
    random, n_rows = np.random.default_rng(11), 2_000
    features = random.integers(0, 9, (n_rows, 3)).astype(np.int32)
    logits = random.normal(-1.5, 1.0, n_rows)
    truth = 1.0 / (1.0 + np.exp(-(0.8 * logits + 0.3 * (features[:, 0] - 4) / 4)))
    labels = (random.random(n_rows) < truth).astype(np.float64)
    weights = random.integers(0, 3, n_rows).astype(np.float64)
    data = Dataset.of(logits, labels, features=features, weights=weights, scores_are="logit", partition=partition)
    answers = calibrator("wide_logistic", **arguments).fit_data(data).predict_data(data)
    assert answers[:4] == pytest.approx(first_four, rel=1e-12)
    assert answers.sum() == pytest.approx(total, rel=1e-12)
