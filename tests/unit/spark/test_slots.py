"""What a barrier stage cannot work with is refused before it starts."""

from types import SimpleNamespace

import pytest

from monocal.core.errors import InvalidInput
from monocal.spark.barrier import check_slots


def session(slots, **settings):
    return SimpleNamespace(conf=settings, _sc=SimpleNamespace(defaultParallelism=slots))


def test_too_few_slots_and_dynamic_allocation_are_refused():
    check_slots(session(4), 4)
    with pytest.raises(InvalidInput, match="workers: got 5; wanted at most the 4 slots"):
        check_slots(session(4), 5)
    with pytest.raises(InvalidInput, match=r"spark\.dynamicAllocation\.enabled: got true"):
        check_slots(session(4, **{"spark.dynamicAllocation.enabled": "true"}), 2)
