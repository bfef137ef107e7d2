"""Proposed fields and objections to them."""

from pathlib import Path

import numpy as np
import pytest

from monocal.core.errors import UnknownName
from monocal.tables.checks import propose_fields, usable_fields
from monocal.tables.roles import Roles


def log(n=4000):
    rng = np.random.default_rng(0)
    click = rng.random(n) < 0.2
    return {
        "row": np.arange(n),
        "score": rng.random(n),
        "site": rng.integers(0, 30, n).astype(str),
        "constant": ["x"] * n,
        "bought": (click & (rng.random(n) < 0.9)).astype(int),
        "shared": (click & (rng.random(n) < 0.1)).astype(int),
        "blocked": (~click & (rng.random(n) < 0.3)).astype(int),
        "device": rng.integers(0, 5, n),
        "click": click.astype(int),
    }


def test_columns_that_know_the_outcome_are_objected_to():
    found = {field.name: field.objection for field in propose_fields(log(), Roles("click"))}
    assert found["row"] == "most values occur once"
    assert found["constant"] == "one value only"
    assert found["bought"].startswith("it seems to know click: it explains")
    assert found["blocked"].startswith("click is always 0 where it is 1 (")
    assert (found["site"], found["device"]) == ("", "")
    assert "score" not in found


def test_usable_fields_leave_out_objections_and_excluded_columns():
    assert usable_fields(propose_fields(log(), Roles("click", weight="device", group="shared"))) == ["site"]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (Roles("clik"), "label: got 'clik'.*did you mean 'click'"),
        (Roles.of(label="click", score="scor"), "score: got 'scor'.*did you mean 'score'"),
        (Roles("click", time="rows"), "time: got 'rows'.*did you mean 'row'"),
    ],
)
def test_a_mistyped_column_is_refused_before_fields_are_proposed(roles, message):
    with pytest.raises(UnknownName, match=message):
        propose_fields(log(10), roles)


def test_facts_about_a_column():
    one = propose_fields({"site": ["a", "a", "b", None], "click": [0, 1, 0, 1]}, Roles("click"))[0]
    assert (one.n_values, one.most_common, one.most_common_share) == (3, "a", 0.5)


SHARED = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.shared_data
def test_outcomes_of_real_logs_are_found():
    import os

    folder = Path(os.environ.get("MONOCAL_SHARED_DATA", SHARED))
    if not (folder / "retrosheet_pa.parquet").is_file():
        pytest.skip("the real logs are not beside the checkout")
    videos = {field.name: field.objection for field in propose_fields(folder / "kuairand_pure.parquet", Roles("label"))}
    assert all(videos[name] for name in ("is_click", "long_view", "play_time_ms"))
    assert not any(videos[name] for name in ("user_id", "video_id", "tab", "tag", "hour"))
    plays = {field.name: field.objection for field in propose_fields(folder / "retrosheet_pa.parquet", Roles("label"))}
    assert all(plays[name] for name in ("event", "is_k", "is_hit", "is_hr", "is_walk"))
    assert not any(plays[name] for name in ("batter", "pitcher", "park", "season"))
