"""Members that are here now, in a store that may be older than they are."""

import threading
import time

import pytest

from monocal.core.errors import LostMember
from monocal.training.roll_call import roll_call


class Texts:
    """A store of this process."""

    def __init__(self):
        self.of = {}

    def set(self, key, value):
        self.of[key] = value.encode()

    def get(self, key):
        return self.of[key]

    def check(self, keys):
        return all(key in self.of for key in keys)


def gathered(store, words, late=()):
    """What each of as many members as words gets; those in `late` come after the others have waited."""
    found = {}

    def come(rank):
        found[rank] = roll_call(store, rank, len(words), words[rank], 20.0)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(len(words)) if rank not in late]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    for rank in late:
        come(rank)
    for thread in threads:
        thread.join()
    return found


def test_all_members_hear_the_same_name_and_what_everybody_said():
    found = gathered(Texts(), ["a", "b", "c"])
    assert len({name for name, _ in found.values()}) == 1
    assert [words for _, words in found.values()] == [["a", "b", "c"]] * 3


@pytest.mark.parametrize("late", [(), (0,), (1,)])
def test_words_of_ended_members_are_passed_over(late):
    """Whoever comes first finds the whole of an earlier call."""
    store = Texts()
    before = gathered(store, ["old a", "old b", "old c"])
    found = gathered(store, ["a", "b", "c"], late)
    assert [words for _, words in found.values()] == [["a", "b", "c"]] * 3
    assert {name for name, _ in found.values()}.isdisjoint(name for name, _ in before.values())


def test_a_call_whose_first_member_ended_before_all_had_answered_is_passed_over():
    store = Texts()
    with pytest.raises(LostMember):
        roll_call(store, 0, 3, "old a", 0.05)
    found = gathered(store, ["a", "b", "c"], late=(0,))
    assert [words for _, words in found.values()] == [["a", "b", "c"]] * 3


def test_a_member_that_does_not_come_is_named():
    with pytest.raises(LostMember, match="process 1 of 2 did not come in time"):
        roll_call(Texts(), 0, 2, "", 0.05)
    with pytest.raises(LostMember, match="the first process did not come in time"):
        roll_call(Texts(), 1, 2, "", 0.05)
