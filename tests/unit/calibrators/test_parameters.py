"""Calibrators are estimators to scikit-learn though they do not load it."""

import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

from monocal.calibrators import CALIBRATORS, as_classifier, calibrator
from monocal.core.errors import UnknownName


@pytest.mark.parametrize("name", CALIBRATORS)
def test_scikit_learn_clones_as_we_do(name):
    one = calibrator(name, guard=True)
    theirs, ours = clone(one), one.cloned()
    assert theirs.get_params() == ours.get_params() == one.get_params()
    assert type(theirs) is type(ours) is type(one)
    assert get_tags(one).estimator_type is None


def test_arguments_of_arguments_are_reached_by_two_underscores():
    classifier = as_classifier(calibrator("histogram"))
    assert clone(classifier).set_params(calibrator__n_bins=7).calibrator.n_bins == 7
    assert classifier.get_params()["calibrator__guard"] is False


def test_a_copy_shares_nothing_that_can_change():
    one = calibrator("umc", carry={"site": 0.5})
    copy = one.cloned()
    copy.carry["site"] = 1.0
    assert one.carry == {"site": 0.5}


def test_an_unknown_argument_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'n_bins'"):
        calibrator("histogram").set_params(n_bin=3)
