"""Text is text in whichever of Arrow's types it comes: every part of a table, the same numbers."""

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.evaluation.table import evaluate_table
from monocal.tables.categories import encode_values

N_ROWS = 600
INDICES = (pa.int8(), pa.uint8(), pa.uint32(), pa.int64())
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
BINARIES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))


def dictionary(values, kind, indices=None, *, ordered=False):
    coded = values.combine_chunks().dictionary_encode()
    codes = coded.indices if indices is None else coded.indices.cast(indices)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, coded.dictionary.cast(kind), ordered=ordered)])


KINDS = {str(kind): lambda values, kind=kind: values.cast(kind) for kind in TEXTS} | {
    f"{kind} by {indices}": lambda values, kind=kind, indices=indices: dictionary(values, kind, indices, ordered=True)
    for kind in TEXTS
    for indices in INDICES
    if not (kind == pa.string() and indices == pa.int8())
}


@pytest.fixture(scope="module")
def plain():
    """A table of which every column is text."""
    draw = np.random.default_rng(7)
    scores = draw.choice(np.linspace(0.05, 0.95, 40), N_ROWS)
    return pa.table(
        {
            "pctr": scores.astype(str),
            "click": (draw.random(N_ROWS) < scores).astype(int).astype(str),
            "site": pa.array([None if row % 11 == 0 else "abc"[row % 3] for row in range(N_ROWS)]),
            "user": [f"u{row % 20}" for row in range(N_ROWS)],
            "weight": ["1.5" if row % 2 else "1" for row in range(N_ROWS)],
            "age": [str(20 + row % 30) for row in range(N_ROWS)],
            "time": [f"2024-05-{1 + row * 30 // N_ROWS:02d}" for row in range(N_ROWS)],
        }
    )


ROLES = {"score": "pctr", "label": "click", "fields": ["site"], "numeric": ["age"], "time": "time", "weight": "weight"}


@pytest.fixture(scope="module")
def expected(plain):
    model = monocal.fit(plain, method="wide_logistic", **ROLES)
    return model, model.predict(plain)


def everything(table, model, folder):
    """What the verbs that take a table give for it."""
    older, newer = table.slice(0, N_ROWS // 2), table.slice(N_ROWS // 2, N_ROWS // 2)
    old, new = (monocal.fit(older, method=name, score="pctr", label="click") for name in ("isotonic", "platt"))
    judged = evaluate_table(newer, model=new, group="user", fields=["site"], metrics=["log_loss", "gauc", "mfrce"])
    passed = monocal.gate(old, new, newer, by=["site"])
    compared = monocal.compare(
        table, methods=["platt"], score="pctr", label="click", fields=["site"], metric="log_loss", metrics=["log_loss"]
    )
    for name in ("out.parquet", "out.csv"):
        monocal.apply(model, table, folder / name)
    answers = pa_csv.read_csv(folder / "out.csv")["pctr_calibrated"].to_pylist()
    assert pq.read_table(folder / "out.parquet")["pctr_calibrated"].to_pylist() == answers
    return [answers, judged.as_dict(), passed.as_dict(), compared.best.evaluation.value("log_loss")]


@pytest.mark.parametrize("kind", KINDS)
def test_text_of_any_type_is_the_same(plain, expected, kind):
    model, answers = expected
    table = pa.table({name: KINDS[kind](plain[name]) for name in plain.column_names})
    fitted = monocal.fit(table, method="wide_logistic", **ROLES)
    assert np.array_equal(fitted.predict(table), answers)
    assert np.array_equal(fitted.predict(plain), answers)
    assert np.array_equal(model.predict(pa_dataset.dataset(table)), answers)
    coded = encode_values(table["site"], N_ROWS, "site")
    assert coded.decode(coded.ids) == plain["site"].to_pylist()


@pytest.mark.parametrize("kind", ["string_view", "string_view by uint32", "large_string by int8"])
def test_every_verb_takes_it(plain, expected, kind, tmp_path):
    table = pa.table({name: KINDS[kind](plain[name]) for name in plain.column_names})
    assert everything(table, expected[0], tmp_path) == everything(plain, expected[0], tmp_path)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["c", "a", "b"]), pl.String])
def test_polars(plain, expected, kind, tmp_path):
    frame = pl.from_arrow(plain).with_columns(pl.col("site").cast(kind))
    assert everything(frame, expected[0], tmp_path) == everything(plain, expected[0], tmp_path)
    assert np.array_equal(expected[0].predict(frame.lazy()), expected[1])
    frame.write_parquet(tmp_path / "frame.parquet")
    assert np.array_equal(expected[0].predict(tmp_path / "frame.parquet"), expected[1])


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("kind", BINARIES)
def test_bytes_are_no_categories(plain, expected, kind, coded):
    bytes_of = pa.chunked_array([plain["site"].combine_chunks().cast(pa.binary()).cast(kind)])
    column = dictionary(bytes_of, kind) if coded and kind != pa.binary_view() else bytes_of
    table = plain.set_column(2, "site", column)
    with pytest.raises(InvalidInput, match="field 'site': got values of type"):
        monocal.fit(table, method="wide_logistic", **ROLES)
    with pytest.raises(InvalidInput, match="field 'site': got values of type"):
        expected[0].predict(table)


@pytest.mark.parametrize("column", [pl.Series("pctr", [0.1, 0.2]), pa.chunked_array([[0.1, 0.2]])])
def test_a_column_is_no_table(expected, column):
    with pytest.raises(InvalidInput, match=r"table: got .*one column"):
        expected[0].predict(column)
