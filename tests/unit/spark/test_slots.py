"""What a barrier stage cannot work with is refused before it starts."""

from types import SimpleNamespace

import pytest

from monocal.core.errors import InvalidInput
from monocal.spark.barrier import check_slots


def session(slots, **settings):
    """Stands for a classic session; the number by default may be set to anything."""
    profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
    scheduler = SimpleNamespace(
        resourceProfileManager=lambda: profiles, maxNumConcurrentTasks=lambda profile: {"default": slots}[profile]
    )
    context = SimpleNamespace(defaultParallelism=200, _jsc=SimpleNamespace(sc=lambda: scheduler))
    return SimpleNamespace(conf=settings, _sc=context)


class Range:
    """Stands for a range of Spark Connect, which has a partition per slot."""

    def __init__(self, slots):
        self.slots = slots

    def selectExpr(self, _expression):
        return self

    def distinct(self):
        return self

    def count(self):
        return self.slots


def test_slots_are_counted_where_there_is_no_spark_context():
    connect = SimpleNamespace(conf={}, range=lambda n_rows: Range(min(3, n_rows)))
    check_slots(connect, 3)
    with pytest.raises(InvalidInput, match="workers: got 4; wanted at most the 3 slots"):
        check_slots(connect, 4)


def test_too_few_slots_and_dynamic_allocation_are_refused():
    check_slots(session(4), 4)
    with pytest.raises(InvalidInput, match="workers: got 5; wanted at most the 4 slots"):
        check_slots(session(4), 5)
    with pytest.raises(InvalidInput, match="workers: got 0; wanted a whole number ≥ 1"):
        check_slots(session(4), 0)
    with pytest.raises(InvalidInput, match=r"spark\.dynamicAllocation\.enabled: got true"):
        check_slots(session(4, **{"spark.dynamicAllocation.enabled": "true"}), 2)
