"""What speaks against a column as a field: proposed fields and objections, and warnings about those named by hand."""

import os
from pathlib import Path

import numpy as np
import pytest

import monocal
from monocal.core.errors import MonocalWarning, UnknownName
from monocal.tables.checks import propose_fields, usable_fields
from monocal.tables.roles import Roles

RNG = np.random.default_rng(0)


def log(n=4000):
    click = RNG.random(n) < 0.2
    return {
        "row": np.arange(n),
        "score": RNG.random(n),
        "site": RNG.integers(0, 30, n).astype(str),
        "constant": ["x"] * n,
        "bought": (click & (RNG.random(n) < 0.9)).astype(int),
        "shared": (click & (RNG.random(n) < 0.1)).astype(int),
        "blocked": (~click & (RNG.random(n) < 0.3)).astype(int),
        "device": RNG.integers(0, 5, n),
        "click": click.astype(int),
    }


def test_columns_that_know_the_outcome_are_objected_to():
    found = {field.name: field.objection for field in propose_fields(log(), Roles(label="click"))}
    assert found["row"] == "most values occur once"
    assert found["constant"] == "one value only"
    assert found["bought"].startswith("it seems to know click: it explains")
    assert found["blocked"].startswith("it seems to know click: always 0 where it is 1 (")
    assert (found["site"], found["device"]) == ("", "")
    assert found["score"] == "no categories; numeric= takes numbers"
    assert usable_fields(propose_fields(log(), Roles(label="click", weight="device", group="shared"))) == ["site"]
    one = propose_fields({"site": ["a", "a", "b", None], "click": [0, 1, 0, 1]}, Roles(label="click"))[0]
    assert (one.n_values, one.most_common, one.most_common_share) == (3, "a", 0.5)


def test_a_mistyped_column_is_refused_before_fields_are_proposed():
    with pytest.raises(UnknownName, match="label: got 'clik'.*did you mean 'click'"):
        propose_fields(log(10), Roles(label="clik"))


def test_fields_that_know_the_label_or_name_rows_are_warned_about_when_named_by_hand():
    n = 14_000
    scores = RNG.uniform(0.2, 0.8, n)
    labels = (RNG.random(n) < scores).astype(int)
    table = {
        "s": scores,
        "y": labels,
        "copy": np.where(labels, "long", "short"),
        # known for four fifths of the rows after the fact
        "watched": np.where(RNG.random(n) < 0.8, np.where(labels, "long", "short"), "unknown"),
        # one click in thirteen is followed up, so the field explains little of all clicks
        "followed": np.where((labels == 1) & (RNG.random(n) < 0.08), "yes", "no"),
        "request": np.arange(n),
        "site": RNG.integers(0, 5, n),
    }
    columns = {"method": "platt", "score": "s", "label": "y"}
    for name, message in {
        "copy": "'copy', which tells 'y'.*name fields= without it",
        "watched": r"'watched', which tells 'y': it explains \d\d % of it.*after the outcome",
        "followed": r"'followed', which tells 'y': always 1 where it is 'yes' \(\d+ rows\)",
        "request": "'request', which names rows: .* rows. Hint: name fields=",
    }.items():
        with pytest.warns(MonocalWarning, match=f"fields: got {message}"):
            monocal.fit(table, **columns, fields=["site", name])
    monocal.fit(table, **columns, fields=["site"])


SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.shared_data
def test_outcomes_of_real_logs_are_found():
    folder = Path(os.environ.get("MONOCAL_SHARED_DATA", SHARED))
    if not (folder / "retrosheet_pa.parquet").is_file():
        pytest.skip("the real logs are not beside the checkout")
    videos = {
        field.name: field.objection for field in propose_fields(folder / "kuairand_pure.parquet", Roles(label="label"))
    }
    assert all(videos[name] for name in ("is_click", "long_view", "play_time_ms"))
    assert not any(videos[name] for name in ("user_id", "video_id", "tab", "tag", "hour"))
