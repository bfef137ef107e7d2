"""Vocabularies and fits by passes, against one machine."""

import numpy as np
import pyarrow as pa
import pytest

import monocal
import monocal.spark as ms
from monocal.calibrators import calibrator
from monocal.core.errors import InvalidInput, UnknownName
from monocal.spark.barrier import fit_in_barrier
from monocal.spark.compressed import compress
from monocal.spark.fit import SMOOTH_METHODS
from monocal.spark.judged_rows import BEFORE, Judging, Slot
from monocal.tables.roles import Roles
from monocal.tables.table import Table
from monocal.tables.vocabulary import FieldVocabulary, Vocabulary

FIELDS = ["site_id", "device", "user_id"]


@pytest.mark.parametrize("limits", [{}, {"min_count": 3, "max_size": 50}])
def test_a_vocabulary_has_the_same_values_in_the_same_order(spark, folder, rows, limits):
    found = ms.vocabulary(spark.read.parquet(str(folder)), FIELDS, **limits)
    assert found.fingerprint == Vocabulary.of_table(rows, FIELDS, **limits).fingerprint


def test_hashed_fields_are_not_counted(spark, folder, rows):
    df = spark.read.parquet(str(folder))
    found = ms.vocabulary(df, ["user_id", "device"], hashed_fields={"user_id": 100})
    assert found.sizes[0] == 101
    device = Vocabulary.of_table(rows, ["device"])["device"]
    assert found.fingerprint == Vocabulary((FieldVocabulary.hashed("user_id", 100), device)).fingerprint
    with pytest.raises(UnknownName, match="hashed field"):
        ms.vocabulary(df, ["user_id"], hashed_fields={"user": 100})
    with pytest.raises(UnknownName, match="field column"):
        ms.vocabulary(df, ["user"])


ROLES = {"score": "pctr", "label": "click", "weight": "weight", "sampling_rate": "rate"}


@pytest.mark.parametrize("method", ["platt", "histogram", "isotonic"])
def test_a_fit_gives_the_answers_of_one_machine(spark, folder, rows, method):
    roles = {**ROLES, "time": "timestamp"}
    model = ms.fit(spark.read.parquet(str(folder)), method=method, **roles)
    local = monocal.fit(rows, method=method, **roles)
    np.testing.assert_allclose(model.predict(rows), local.predict(rows), rtol=1e-12)
    assert model.info["learned_from"] == local.info["learned_from"]
    facts, expected = model.info["tasks"]["click"], local.info["tasks"]["click"]
    assert facts["n_rows"] == expected["n_rows"]
    assert facts["label_rate"] == pytest.approx(expected["label_rate"])
    np.testing.assert_allclose(facts["score_edges_logit"], expected["score_edges_logit"], atol=2e-3)


@pytest.fixture(scope="module")
def few_rows(spark, folder):
    """The weighted rows that executors turned the table into; all smooth methods are fitted on the same ones."""
    roles = Roles.of(**ROLES)
    df = spark.read.parquet(str(folder)).select(*roles.columns)
    return compress(df, Judging(roles, (Slot("click", BEFORE),)))[0].two_points()


@pytest.mark.parametrize("method", [method for method in SMOOTH_METHODS if method != "none"])
def test_smooth_methods_cannot_tell_the_few_rows_of_executors_from_all(few_rows, rows, method):
    found = calibrator(method).fit(few_rows.logits, few_rows.labels, weights=few_rows.weights, scores_are="logit")
    local = monocal.fit(rows, method=method, **ROLES)
    answers = found.predict(Table.read(rows, Roles.of(**ROLES)).logits("click"), scores_are="logit")
    # the smallest answers of gamma, below a thousandth, differ by some 1e-15, on one processor more than on another
    np.testing.assert_allclose(answers, local.predict(rows), rtol=1e-12, atol=2e-14 if method == "gamma" else 0.0)


def test_a_fitted_model_is_an_ordinary_one(spark, folder, rows, tmp_path):
    tasks = {"click": ("click", "pctr"), "buy": ("buy", "true_p")}
    model = ms.fit(spark.read.parquet(str(folder)), method="platt", tasks=tasks, fields=["device"])
    model.save(tmp_path / "model")
    loaded = monocal.load(tmp_path / "model")
    local = monocal.fit(rows, method="platt", tasks=tasks, fields=["device"])
    assert loaded.vocabulary.fingerprint == local.vocabulary.fingerprint
    assert loaded.canary["ids"].shape == (32, 1)
    for task, expected in local.predict(rows).items():
        np.testing.assert_allclose(loaded.predict(rows, task), expected, rtol=1e-11)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "mlplatt"}, "fit it on one machine"),
        ({"method": "umc"}, "a column that tells older rows from newer ones"),
        ({"method": "histogram", "binning": "mass"}, "bins of equal mass"),
        ({"method": "platt", "guard": True}, "guard: got True; expected off"),
        ({"method": "platt", "recent_share": 0.2}, "recent_share: got 0.2; expected off"),
        ({"method": "wide_logistic", "numeric": ["price"]}, "apply and evaluate take that model"),
        ({"method": "wide_logistic", "label_time": "paid"}, "labels that have all come"),
    ],
)
def test_what_needs_rows_in_order_is_refused_before_any_job(spark, arguments, message):
    df = spark.createDataFrame([(0.2, 0)], "p double, y int")
    with pytest.raises(InvalidInput, match=message):
        ms.fit(df, score="p", label="y", **arguments)


def test_tasks_of_a_barrier_stage_fit_what_one_process_fits_to_the_bit(spark, folder, fitted_by_one_process):
    df = spark.read.parquet(str(folder))
    wishes = {"method": "wide_logistic", "fields": ["site_id", "device"], "weight": "weight", "workers": 2}
    wishes |= {"score": "pctr", "label": "click"}
    model = ms.fit(df, **wishes)
    assert bits(model.tasks[0].calibrator) == bits(fitted_by_one_process(df, wishes, model.vocabulary))
    assert model.info["n_rows"] == 30_000


def test_so_do_those_of_a_network_that_looks_at_time(network, fitted_by_one_process):
    df, wishes, model = network
    alone = fitted_by_one_process(df, wishes, model.vocabulary)
    assert alone.looks_at_time
    assert bits(model.tasks[0].calibrator) == bits(alone)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("sbcr", {"hidden": (16,)}),
        ("fac", {"carry": "none"}),
        ("desc", {"hidden": (16,), "n_dimensions": 4}),
        ("mcnet", {"hidden": (16,)}),
    ],
)
def test_and_those_of_every_other_network(spark, network, fitted_by_one_process, method, settings):
    df, wishes, model = network
    parts = {name: wishes[name] for name in ("score", "label", "fields", "time")}
    before = spark.conf.get("spark.sql.adaptive.enabled")
    found = fit_in_barrier(
        df, Roles.of(**parts), model.vocabulary, method, {"n_epochs": 1, **settings}, workers=wishes["workers"]
    )
    assert before == spark.conf.get("spark.sql.adaptive.enabled") == "true"  # it is off inside the stage alone
    given = {**parts, **settings, "n_epochs": 1, "method": method, "workers": wishes["workers"]}
    assert bits(found.tasks[0].calibrator) == bits(fitted_by_one_process(df, given, model.vocabulary))


def bits(one):
    """Everything that a calibrator learned, as bytes and JSON values."""
    state = one.state()
    return {name: array.tobytes() for name, array in state.arrays.items()}, state.values


def test_a_task_without_rows_takes_part(spark, folder, fitted_by_one_process):
    """Rows go where a hash of their contents says, here all to the second task; the first one brings the model back."""
    parts = {"score": "pctr", "label": "click", "fields": ["device"]}
    df = spark.read.parquet(str(folder)).where("row < 3000").select("pctr", "click", "device")
    skewed = df.where(f"pmod(hash({', '.join(Roles.of(**parts).columns)}), 2) = 1")
    known = ms.vocabulary(skewed, ["device"])
    model = fit_in_barrier(skewed, Roles.of(**parts), known, "wide_logistic", {}, workers=2)
    alone = fitted_by_one_process(skewed, {**parts, "method": "wide_logistic", "workers": 2}, known)
    assert bits(model.tasks[0].calibrator) == bits(alone)


def test_two_tasks_of_sampled_rows_are_fitted_as_on_one_machine(spark, folder, rows):
    wishes = {"method": "wide_logistic", "tasks": {"click": ("click", "pctr"), "buy": ("buy", "true_p")}}
    wishes |= {"fields": ["device"], "weight": "weight", "sampling_rate": "rate"}
    model = ms.fit(spark.read.parquet(str(folder)).where("row < 6000"), **wishes, workers=2)
    few = rows.slice(0, 6_000)
    for task, expected in monocal.fit(few, **wishes).predict(few).items():
        np.testing.assert_allclose(model.predict(few, task), expected, rtol=1e-12)


@pytest.mark.parametrize(("method", "rtol"), [("platt", 1e-11), ("wide_logistic", 1e-8)])
def test_soft_labels_are_fitted_as_on_one_machine(spark, folder, rows, method, rtol):
    """By passes and in a barrier stage. Labels are quarters: one machine keeps weights of their pieces in float32."""
    wishes = {"method": method, "score": "pctr", "label": "votes", "soft_labels": True}
    wishes |= {"fields": ["device"], "weight": "weight", "sampling_rate": "rate"}
    df = spark.read.parquet(str(folder)).where("row < 6000")
    found = ms.fit(df.selectExpr("*", "ceil(true_p * 4) / 4 AS votes"), **wishes)
    few = rows.slice(0, 6_000)
    few = few.append_column("votes", pa.array(np.ceil(few["true_p"].to_numpy() * 4.0) / 4.0))
    local = monocal.fit(few, **wishes)
    np.testing.assert_allclose(found.predict(few), local.predict(few), rtol=rtol)
    assert found.info["soft_labels"]
    facts, expected = found.info["tasks"]["votes"], local.info["tasks"]["votes"]
    assert facts["n_rows"] == expected["n_rows"]
    assert facts["label_rate"] == pytest.approx(expected["label_rate"])
    assert found.info["learned_from"] == local.info["learned_from"]


def test_more_workers_than_slots_are_refused_and_the_session_lives(spark, folder):
    df = spark.read.parquet(str(folder))
    with pytest.raises(InvalidInput, match="at most the 2 slots"):
        ms.fit(df, method="wide_logistic", score="pctr", label="click", workers=3)
    assert df.count() == 30_000
