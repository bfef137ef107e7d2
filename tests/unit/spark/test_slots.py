"""What a barrier stage cannot work with is refused before it starts."""

from types import SimpleNamespace

import pytest

from monocal.core.errors import InvalidInput
from monocal.spark.barrier import check_slots


def session(slots, by_default=None, **settings):
    """Stands for a classic session, whose number by default is that of its slots unless it is set."""
    profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
    scheduler = SimpleNamespace(
        resourceProfileManager=lambda: profiles, maxNumConcurrentTasks=lambda profile: {"default": slots}[profile]
    )
    context = SimpleNamespace(defaultParallelism=by_default or slots, _jsc=SimpleNamespace(sc=lambda: scheduler))
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
    with pytest.raises(InvalidInput, match="workers: got 4; expected at most the 3 slots"):
        check_slots(connect, 4)


def test_too_few_slots_and_dynamic_allocation_are_refused():
    check_slots(session(4), 4)
    with pytest.raises(InvalidInput, match="workers: got 5; expected at most the 4 slots"):
        check_slots(session(4), 5)
    with pytest.raises(InvalidInput, match="workers: got 0; expected a whole number ≥ 1"):
        check_slots(session(4), 0)
    with pytest.raises(InvalidInput, match=r"spark\.dynamicAllocation\.enabled: got true"):
        check_slots(session(4, **{"spark.dynamicAllocation.enabled": "true"}), 2)


def test_a_number_by_default_that_was_set_makes_no_slots():
    few = session(4, by_default=200, **{"spark.default.parallelism": "200"})
    check_slots(few, 4)
    with pytest.raises(InvalidInput, match="workers: got 5; expected at most the 4 slots"):
        check_slots(few, 5)
