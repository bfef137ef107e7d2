"""Errors speak the caller's language: arguments in Python, options on the command line, JSON members over HTTP.

The last is asserted of every refusal in tests/integration/serving/test_calibrate.py.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import monocal
from monocal.cli.main import main
from monocal.core.errors import InvalidInput, MonocalWarning
from monocal.evaluation.table import evaluate_table

TABLE = {"p": [0.1, 0.4] * 50, "y": [0, 1] * 50, "site": ["a", "b"] * 50, "z": [-1.5, 2.0] * 50}
TABLE |= {"y2": [1, 1, 1, 0] * 25, "list": [number // 4 for number in range(100)]}


def fit(**arguments):
    return monocal.fit(TABLE, **{"score": "p", "label": "y", "method": "platt"} | arguments)


SCORED = "--score p --label y"
MISTAKES = {
    "no score": (lambda: fit(score=None), 'pass score="…"', "fit --label y", "pass --score …"),
    "logits": (
        lambda: fit(score="z"),
        'pass scores_are="logit"',
        "fit --score z --label y",
        "pass --scores-are logit if these are logits",
    ),
    "sampling rate": (
        lambda: fit(sampling_rate=2.0),
        "sampling_rate: got 2.0",
        f"fit {SCORED} --sampling-rate 2",
        "--sampling-rate: got 2.0",
    ),
    "unknown method": (
        lambda: fit(method="plat"),
        "method: got 'plat'",
        f"fit {SCORED} --method plat",
        "--method: got 'plat'",
    ),
    "since without time": (
        lambda: evaluate_table(TABLE, score="p", label="y", since="2024-05-01"),
        'time="timestamp"',
        f"evaluate {SCORED} --since 2024-05-01",
        "--time timestamp",
    ),
    "field of a judgement": (
        lambda: evaluate_table(TABLE, score="p", label="y", fields=["sites"]),
        "fields: got 'sites'",
        f"evaluate {SCORED} --fields sites",
        "--fields: got 'sites'",
    ),
    "float field": (
        lambda: fit(fields=["z"]),
        "name it under numeric= instead of fields= if it is a quantity, or cast it to whole numbers if it is an id",
        f"fit {SCORED} --fields z",
        "name it under --numeric instead of --fields if it is a quantity",
    ),
    "impossible argument of a method": (
        lambda: fit(recent_share=5),
        "recent_share: got 5",
        f"fit {SCORED} --set recent_share=5",
        "--set recent_share: got 5",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_python_and_command_line(mistake, tmp_path, capsys):
    call, in_python, command, on_command_line = MISTAKES[mistake]
    verb, *options = command.split()
    with pytest.raises(InvalidInput) as refused:
        call()
    assert in_python in str(refused.value)
    assert "--" not in str(refused.value)
    pq.write_table(pa.table(TABLE), tmp_path / "log.parquet")
    if verb == "fit":
        options += ["--out", str(tmp_path / "model"), *([] if "--fields" in options else ["--fields", "none"])]
        options += [] if "--method" in options else ["--method", "platt"]
    assert main([verb, str(tmp_path / "log.parquet"), *options]) == 2
    said = capsys.readouterr().err
    assert on_command_line in said
    assert '="' not in said


def test_warnings_name_the_option_too(tmp_path, capsys):
    n = 2_000
    site = ["a", "b"] * (n // 2)
    table = {"p": [0.1, 0.4] * (n // 2), "y": [0, 1, 1, 0] * (n // 4), "site": site, "row": [*range(n)]}
    table |= {"copy": [f"c{y}" for y in table["y"]], "when": [1.5 * row for row in range(n)]}
    given = {"fields": ["site", "row", "copy"], "numeric": ["when"]}
    with pytest.warns(MonocalWarning) as warned:
        monocal.fit(table, method="wide_logistic", score="p", label="y", **given)
    told = [str(warning.message) for warning in warned]
    assert any("fields: got 'row', which names rows" in text and "name fields= without it" in text for text in told)
    assert any("fields: got 'copy', which tells 'y'" in text for text in told)
    assert any("numeric: got 'when', whose newest values lie beyond nearly all older ones" in text for text in told)
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    options = ["--fields", "site,row,copy", "--numeric", "when", "--method", "wide_logistic"]
    options += ["--score", "p", "--label", "y", "--out", str(tmp_path / "model")]
    assert main(["fit", str(tmp_path / "log.parquet"), *options]) == 0
    said = capsys.readouterr().err
    assert "warning: --fields: got 'row', which names rows" in said
    assert "Hint: name --fields without it" in said
    assert "warning: --fields: got 'copy', which tells 'y'" in said
    assert "warning: --numeric: got 'when', whose newest values" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["apply", "m", "t.csv", "--out", "o.csv", "--interval", "lots"],
            "--interval: got 'lots'; expected a valid number.",
        ),
        (["compare", "t.csv", "--holdout=2"], "--holdout: got '2'; expected less than or equal to 0.9."),
        (["fit", "t.csv", "--out", "m", "--min-count", "x"], "--min-count: got 'x'; expected a valid integer."),
        (["apply", "m", "t.csv", "--intervl", "0.1"], "No such option: --intervl (Possible options: --interval)."),
    ],
)
def test_an_option_of_a_wrong_kind_is_told_with_its_value(words, said, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err == f"error: {said} Hint: monocal {words[0]} --help.\n"
