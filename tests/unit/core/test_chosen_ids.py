"""Chosen rows of a log stand where a copy of their ids would stand."""

import numpy as np
import pytest

from monocal.core.chosen_ids import ChosenIds
from monocal.core.format import fingerprint
from monocal.core.samples import Samples

LOG = np.random.default_rng(0).integers(0, 50, (1000, 4)).astype(np.int32)
ROWS = np.sort(np.random.default_rng(1).choice(1000, 300, replace=False))
IDS, COPY = ChosenIds(LOG, ROWS), LOG[ROWS]

KEYS = [
    slice(10, 90),
    slice(None),
    slice(5, 5),
    np.array([3, 1, 299]),
    np.arange(300) % 3 == 0,
    (slice(None), 2),
    (slice(7, 70), np.int64(1)),
    (np.array([4, 9]), 3),
    (slice(None), [3, 1]),
    (slice(20, 40), np.array([0, 2])),
    (slice(20, 40), slice(1, 3)),
]


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_every_choice_reads_what_a_copy_has(key):
    found = np.asarray(IDS[key])
    np.testing.assert_array_equal(found, COPY[key])
    assert found.dtype == np.int32
    assert IDS[key].shape == COPY[key].shape


def test_choices_of_choices_read_the_same():
    found = IDS[50:250][:, [3, 1]][np.array([5, 0])][:, [1]]
    np.testing.assert_array_equal(np.asarray(found), COPY[50:250][:, [3, 1]][[5, 0]][:, [1]])
    np.testing.assert_array_equal(IDS[:, [3, 1]][:, 0], COPY[:, 3])


def test_nothing_is_read_before_somebody_looks(tmp_path):
    class Untouched:
        shape, dtype = LOG.shape, LOG.dtype

        def __getitem__(self, key):
            raise AssertionError("read")

    ids = ChosenIds(Untouched(), ROWS)
    assert ids[10:20].shape == (10, 4)
    assert ids[:, [0, 2]].shape == (300, 2)
    with pytest.raises(AssertionError, match="read"):
        ids[:, 0]


def test_samples_take_them_as_they_are_and_fingerprints_are_those_of_a_copy():
    scores, labels = np.full(300, 0.3), np.arange(300) % 2
    chosen = Samples.of(scores, labels, features=IDS)
    copied = Samples.of(scores, labels, features=COPY)
    assert isinstance(chosen.features, ChosenIds)
    np.testing.assert_array_equal(np.asarray(chosen.take(np.array([4, 7])).features), COPY[[4, 7]])
    assert chosen.field_sizes().tolist() == copied.field_sizes().tolist()
    assert fingerprint(chosen.features) == fingerprint(copied.features)


def test_a_wish_for_the_ids_without_a_new_array_is_refused():
    with pytest.raises(ValueError, match="read into a new array"):
        np.asarray(IDS, copy=False)


def test_a_negative_id_is_named_with_its_row():
    log = LOG.copy()
    log[ROWS[17], 2] = -4
    with pytest.raises(ValueError, match="-4 at row 17, field 2"):
        Samples.of(np.full(300, 0.3), features=ChosenIds(log, ROWS))
