"""A method's arguments and those of the function that fits it never share a namespace."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import monocal
from monocal.calibrators import CALIBRATORS, calibrator
from monocal.calibrators.registry import OWN
from monocal.core.errors import InvalidInput, UnknownName
from monocal.spark import fit as fit_on_spark
from monocal.tables.roles import Columns

LOG = monocal.simulate_log(6_000, seed=1).table()
COLUMNS = {"score": "pctr", "label": "click", "fields": ["site_id", "device"], "time": "timestamp"}
SMALL = {"size": "small", "n_epochs": 1, "carry": "none"}


@pytest.mark.parametrize("function", [monocal.fit, fit_on_spark])
def test_an_argument_of_a_method_is_refused_beside_a_name(function):
    with pytest.raises(InvalidInput, match=r"^l2: got 7; .*Hint: write method=monocal\.Platt\(l2=7\)"):
        function(LOG, method="platt", l2=7, **COLUMNS)
    with pytest.raises(UnknownName, match="did you mean 'min_count'"):
        function(LOG, method="platt", min_cuont=7, **COLUMNS)


def test_columns_come_as_roles_or_by_name_but_not_both():
    roles = monocal.Roles(**COLUMNS)
    assert (
        monocal.fit(LOG, roles, method="platt").fingerprint == monocal.fit(LOG, method="platt", **COLUMNS).fingerprint
    )
    with pytest.raises(InvalidInput, match="^time: got 'timestamp'; expected columns in roles or by name, not both"):
        monocal.fit(LOG, roles, method="platt", time="timestamp")
    with pytest.raises(InvalidInput, match=r"^roles: got 'pctr'; expected a monocal\.Roles"):
        monocal.fit(LOG, "pctr", label="click")


def test_every_own_method_is_an_object_of_the_package():
    made = {getattr(monocal, name)().name: name for name in monocal._METHODS}
    assert made.keys() == OWN.keys()
    assert all(repr(calibrator(method)) == f"{name}()" for method, name in made.items())
    assert repr(monocal.Umc(seed=5)) == "Umc(seed=5)"
    assert {role.name for role in dataclasses.fields(monocal.Roles)} == set(Columns.__annotations__)


def test_seeds_of_a_method_object_reach_the_network():
    def answers(seed, of_bootstrap=0):
        method = calibrator("umc", seed=seed, **SMALL)
        judged = monocal.compare(LOG, methods=[method], seed=of_bootstrap, n_bootstrap=20, **COLUMNS).result("umc")
        return judged.model.predict(LOG), judged.evaluation.interval("log_loss")

    (one, interval), (two, _), (same, other_interval) = answers(1), answers(2), answers(1, of_bootstrap=5)
    assert np.any(one != two)
    assert np.array_equal(one, same)
    assert interval != other_interval


def test_beside_an_object_names_are_the_functions_own():
    """Few rows of a network's value are no vector; few rows of the table's value make it unseen."""
    own = monocal.fit(LOG, method=calibrator("umc", min_count=2_000, **SMALL), **COLUMNS)
    rare = monocal.fit(LOG, method=calibrator("umc", **SMALL), min_count=2_000, **COLUMNS)
    assert own.task().calibrator.min_count == 2_000
    assert rare.task().calibrator.min_count == 20
    assert own.vocabulary["site_id"].size > rare.vocabulary["site_id"].size


def test_an_object_stays_as_it_is():
    method = calibrator("platt")
    monocal.fit(LOG, method=method, **COLUMNS)
    assert vars(method) == vars(calibrator("platt"))


@pytest.mark.parametrize("inner", ["isotonic", "histogram", "beta", "wide_logistic"])
def test_per_segment_takes_another_method(inner, tmp_path):
    method = calibrator("per_segment", method=inner, field=1)
    (found,) = [one for one in monocal.compare(LOG, methods=[method], n_bootstrap=20, **COLUMNS).results if one.setting]
    fitted = found.model.task().calibrator
    assert (fitted.method, fitted.field) == (inner, 1)
    assert len(fitted.segments_) > 1
    loaded = monocal.load(found.model.save(tmp_path / "model"))
    assert np.array_equal(loaded.predict(LOG), found.model.predict(LOG))
    alone = monocal.fit(LOG.slice(0, found.model.info["n_rows"]), method=method, **COLUMNS)
    assert np.array_equal(alone.predict(LOG), found.model.predict(LOG))


def test_an_inner_method_and_its_options_are_checked_before_rows_are_read():
    for arguments, message in (
        ({"method": "isotonik"}, "did you mean 'isotonic'"),
        ({"method": "histogram", "options": {"bins": 3}}, "argument of 'histogram': got 'bins'"),
        ({"method": "per_segment"}, "another method inside"),
    ):
        with pytest.raises(InvalidInput, match=message):
            monocal.fit("not there.parquet", method=calibrator("per_segment", **arguments), **COLUMNS)


def test_what_is_no_method_is_refused():
    with pytest.raises(InvalidInput, match=r"^method: got <class .*; expected the name of a method, or one"):
        monocal.fit(LOG, method=CALIBRATORS["platt"], **COLUMNS)
    with pytest.raises(UnknownName, match="did you mean 'platt'"):
        monocal.fit(LOG, method="plat", **COLUMNS)
    with pytest.raises(InvalidInput, match="^recent_share: got 5"):
        monocal.fit(LOG, method=calibrator("platt").set_params(recent_share=5), **COLUMNS)


def test_a_class_that_no_model_could_be_loaded_with_is_refused():
    kind = CALIBRATORS["platt"]
    foreign = type("Platt", (kind.__mro__[1],), {"name": "own", "_fit": kind._fit, "_predict_logits": None})
    with pytest.raises(InvalidInput, match=r"^method: got .*; expected a method of monocal\.methods\(\)"):
        monocal.fit(LOG, method=object.__new__(foreign), **COLUMNS)


def test_comparisons_take_objects_beside_names():
    found = monocal.compare(LOG, methods=[calibrator("histogram", n_bins=2), "platt"], n_bootstrap=20, **COLUMNS)
    assert found.result("histogram").setting == "n_bins=2"
    named = monocal.compare(
        LOG, methods=["histogram"], arguments={"histogram": {"n_bins": 2}}, n_bootstrap=20, **COLUMNS
    )
    loss = [one.result("histogram").evaluation.value("log_loss") for one in (found, named)]
    assert loss[0] == loss[1]
    with pytest.raises(InvalidInput, match="^methods: got 'histogram' twice"):
        monocal.compare(LOG, methods=[calibrator("histogram", n_bins=2), "histogram"], **COLUMNS)


def test_a_wrapped_ranker_takes_objects():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    y = rng.random(2_000) < 1 / (1 + np.exp(2 - X[:, 0]))
    ranker = LogisticRegression().fit(X[:500], y[:500])
    given = monocal.wrap(ranker, method=calibrator("histogram", n_bins=3)).fit(X[500:], y[500:])
    assert given.model_.task().calibrator.n_bins == 3
    assert clone(given).set_params(method__n_bins=4).method.n_bins == 4
    assert given.method.n_bins == 3
    small = monocal.wrap(ranker, method=calibrator("umc", min_count=50, **SMALL)).fit(X[500:], y[500:])
    assert small.model_.task().calibrator.min_count == 50
