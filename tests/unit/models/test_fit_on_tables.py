import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import monocal
from monocal.core.errors import InvalidInput, MonocalWarning, UnknownName
from monocal.models import Fusion

N = 400
TABLE = pa.table(
    {
        "pctr": np.linspace(0.02, 0.6, N),
        "click": ((np.arange(N) * 0.618034) % 1 < np.linspace(0.02, 0.3, N)).astype(np.int8),
        "site_id": [f"s{k % 7}" for k in range(N)],
        "hour": [k % 24 for k in range(N)],
        "price": np.linspace(0, 1, N),
    }
)
ARGUMENTS = {"method": "wide_logistic", "score": "pctr", "label": "click", "fields": ["site_id", "hour"]}


def test_time_column_orders_the_rows():
    shuffled = TABLE.append_column("when", pa.array(np.arange(N))).take(np.random.default_rng(0).permutation(N))
    arguments = ARGUMENTS | {"method": monocal.WideLogistic(recent_share=0.1)}
    in_order = monocal.fit(TABLE, **arguments)
    by_time = monocal.fit(shuffled, **arguments, time="when")
    np.testing.assert_allclose(by_time.predict(TABLE), in_order.predict(TABLE), atol=1e-9)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"fields": ["sit_id"]}, "fields"),
        ({"score": "sit_id"}, "score"),
        ({"label": "sit_id"}, "label"),
        ({"weight": "sit_id"}, "weight"),
        ({"time": "sit_id"}, "time"),
        ({"numeric": ["sit_id"]}, "numeric"),
        ({"sampling_rate": "sit_id"}, "sampling_rate"),
        ({"score": None, "label": None, "tasks": {"a": ("click", "pctr"), "b": ("click", "sit_id")}}, "tasks"),
    ],
)
def test_a_mistyped_column_is_told_by_its_argument_with_the_nearest_one(given, named):
    with pytest.raises(UnknownName, match=f"^{named}: got 'sit_id'; expected one of .* did you mean 'site_id'"):
        monocal.fit(TABLE, **(ARGUMENTS | given))


def test_the_time_column_as_a_number_warns():
    """Later rows lie beyond its last knot."""
    dated = TABLE.append_column("when", pa.array(np.arange(N)))
    with pytest.warns(MonocalWarning, match="numeric: got 'when', the column that orders rows"):
        monocal.fit(dated, **ARGUMENTS, time="when", numeric=["when"])


def test_several_tasks_with_missing_labels():
    labels = np.where(np.arange(N) % 3 == 0, None, (np.arange(N) % 5 == 0).astype(float))
    table = TABLE.append_column("view", pa.array(labels, pa.float64())).append_column("plv", TABLE["pctr"])
    model = monocal.fit(
        table, method="platt", tasks={"click": ("click", "pctr"), "view": ("view", "plv")}, fields=["site_id"]
    )
    answers = model.predict(table)
    observed = np.array([label is not None for label in labels])
    assert answers["view"][observed].mean() == pytest.approx(np.mean([label for label in labels if label is not None]))
    fused = model.with_fusion(Fusion({"click": 1.0, "view": 2.0}))
    assert fused.fusion.fuse(answers)[0] == pytest.approx(answers["click"][0] + 2 * answers["view"][0])
    with pytest.raises(UnknownName, match="task: got 'vieww'"):
        model.predict(table, task="vieww")


def test_sampling_rate_column_and_number_agree():
    with_column = TABLE.append_column("rate", pa.array(np.full(N, 0.2)))
    by_number = monocal.fit(TABLE, **ARGUMENTS, sampling_rate=0.2).predict(TABLE)
    by_column = monocal.fit(with_column, **ARGUMENTS, sampling_rate="rate").predict(with_column)
    np.testing.assert_allclose(by_column, by_number)


def test_pandas_frame_with_an_odd_index_keeps_row_order():
    frame = pd.DataFrame(TABLE.to_pydict()).sample(frac=1, random_state=0)
    model = monocal.fit(TABLE, **ARGUMENTS)
    expected = model.predict(TABLE)[frame.index.to_numpy()]
    np.testing.assert_array_equal(model.predict(frame), expected)


@pytest.mark.parametrize("rate", [1.5, 0.0, -0.1, float("nan")])
def test_a_sampling_rate_outside_of_0_to_1_is_refused_as_a_number_and_in_a_column(rate):
    with pytest.raises(InvalidInput, match=r"sampling_rate: got .*; expected the share of negatives kept, in \(0, 1\]"):
        monocal.fit(TABLE, **ARGUMENTS, sampling_rate=rate)
    rates = np.full(N, 0.2)
    rates[7] = rate
    with_column = TABLE.append_column("rate", pa.array(rates))
    with pytest.raises(InvalidInput, match="sampling.rate"):
        monocal.fit(with_column, **ARGUMENTS, sampling_rate="rate")
    model = monocal.fit(TABLE.append_column("rate", pa.array(np.full(N, 0.2))), **ARGUMENTS, sampling_rate="rate")
    with pytest.raises(InvalidInput, match="sampling.rate"):
        model.predict(with_column)
