"""States as bytes."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.metrics import Forecast, metric
from monocal.metrics.resample import pack, unpack

ROWS = Forecast.of(np.arange(50) % 3 == 0, np.linspace(0.01, 0.9, 50), weights=np.arange(50) % 4 * 0.25)
METRICS = [
    metric("log_loss"),
    metric("brier"),
    metric("smooth_ece"),
    metric("auc"),
    metric("auc", cells=64),
    metric("cal_n"),
]


@pytest.mark.parametrize("one", METRICS, ids=repr)
def test_a_packed_state_has_the_same_value_and_merges(one):
    first, second = ROWS.take(slice(0, 20)), ROWS.take(slice(20, 50))
    parts = [unpack(pack(one.summarize(part))) for part in (first, second)]
    whole = one.merge(one.summarize(first), one.summarize(second))
    assert one.value(one.merge(*parts)) == one.value(whole)
    assert one.value(unpack(pack(whole))) == one.value(whole)


def test_a_state_that_grows_with_the_rows_is_refused():
    grouped = metric("gauc").summarize(Forecast.of([0, 1], [0.2, 0.3], groups=[0, 0]))
    with pytest.raises(InvalidInput, match="GroupedCells"):
        pack(grouped)
