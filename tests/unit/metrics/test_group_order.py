"""States of rows in groups, merged."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.metrics import METRICS
from monocal.metrics.forecast import Forecast


@pytest.mark.parametrize("name", ["gauc", "ndcg"])
def test_pieces_with_and_without_groups_are_not_merged(name):
    """The piece without groups used to be all that was left."""
    labels, scores = np.array([0.0, 1.0, 1.0]), np.array([0.2, 0.4, 0.3])
    metric = METRICS[name]()
    grouped = metric.summarize(Forecast(labels, scores, groups=np.array([0, 0, 1])))
    alone = metric.summarize(Forecast(labels, scores))
    for pieces in ((grouped, alone), (alone, grouped)):
        with pytest.raises(InvalidInput, match="groups for all rows or for none"):
            metric.merge(*pieces)
    assert metric.value(metric.merge(alone, alone)).reason == "no groups were given"
