"""The study of joint losses runs from its plan to its tables, and names what is missing."""

import numpy as np
import pytest

from monocal.core.errors import UnknownName
from monocal.lab.studies.cell_runner import RunOptions
from monocal.lab.studies.joint import METRICS, JointPlan
from monocal.lab.studies.run_study import run_file
from monocal.lab.studies.study import read_entries
from monocal.lab.studies.tables_of_studies import KL, JointRow, JointTable, joint_markdown, paired

PLAN = {
    "name": "small",
    "question": "?",
    "ranker": {"hidden": [8], "n_dimensions": 4, "batch_rows": 512},
    "teacher": {"hidden": [16]},
    "calibrators": ["none", "platt"],
    "n_bootstrap": 5,
    "logs": [
        {"name": "search", "kind": "search", "n_rows": 3_000, "group": ["user_id", "timestamp"], "rates": ["user_id"]},
        {"name": "elsewhere", "kind": "source", "source": "avazu", "file": "nowhere", "group": ["a"], "rates": ["a"]},
    ],
    "losses": [
        {"name": "log-loss", "loss": "log_loss"},
        {"name": "CLID", "loss": "clid", "reference": "teacher"},
        {"name": "BBP", "loss": "bbp"},
    ],
}


def test_from_plan_to_tables(tmp_path, monkeypatch):
    monkeypatch.setattr("monocal.lab.studies.run_study.read_entries", lambda _: ({**PLAN, "kind": "joint"}, "plan"))
    text = run_file("plan.toml", tmp_path, RunOptions(data_folder=tmp_path)).read_text()
    rows = [line for line in text.splitlines() if line.startswith(("| log-loss", "| CLID", "| BBP"))]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| " + loss, method] for loss in ("log-loss", "CLID", "BBP") for method in ("none", "platt")
    ]
    assert "elsewhere: not run (nowhere not found; pass --data-dir)." in text
    assert "Lists by user_id, timestamp." in text
    # calibration moves the level, and the paired interval sees it
    assert "▲" in rows[1].split(" | ")[5]
    assert "▲" not in rows[0]
    assert "▼" not in rows[0]
    # the simulated log knows its truth: calibration comes nearer to it, with an interval of its own
    head = next(line for line in text.splitlines() if line.startswith("| loss")).split(" | ")
    assert head[8] == "KL to the truth"
    assert "▲" in rows[1].split(" | ")[8]
    # the practitioner's two questions: against the loss alone, and against log-loss with the same calibrator
    assert [bool(cell.strip(" |")) for cell in rows[0].split(" | ")[9:]] == [False, False]
    assert [bool(cell.strip(" |")) for cell in rows[1].split(" | ")[9:]] == [True, False]
    assert [bool(cell.strip(" |")) for cell in rows[3].split(" | ")[9:]] == [True, True]


def test_the_shipped_plan_is_readable_and_small_runs_stay_small():
    plan = JointPlan.of(*read_entries("joint"))
    assert [loss.loss for loss in plan.losses] == ["log_loss", "jrc", "rcr", "calsoftmax", "clid", "sbcr", "bbp"]
    assert max(log.n_rows for log in plan.scaled(500).logs) == 500
    assert plan.scaled(500).seeds == (0,)
    assert [log.name for log in plan.only(["kuairand"]).logs] == ["kuairand"]
    with pytest.raises(UnknownName, match="data of 'joint': got 'kuairant'"):
        plan.only(["kuairant"])
    with pytest.raises(UnknownName, match="key of the plan: got 'logz'"):
        JointPlan.of({**PLAN, "logz": []})


def test_differences_are_paired_and_undefined_values_are_dashes():
    noise = np.linspace(-1.0, 1.0, 21)
    rows = [
        JointRow("a", "none", dict.fromkeys(METRICS, 1.0), dict.fromkeys(METRICS, 1.0 + noise), {"ece": 0.5}),
        JointRow("b", "none", {**dict.fromkeys(METRICS, 1.1), "gauc": np.nan}, dict.fromkeys(METRICS, 1.1 + noise), {}),
    ]
    change, low, high = paired(rows[1], rows[0], "ece")
    assert (change, low, high) == pytest.approx((0.1, 0.1, 0.1))
    plan = JointPlan.of(PLAN)
    cells = joint_markdown("n", "?", [JointTable(plan.logs[0], 0, rows)], {}, METRICS).splitlines()[11].split(" | ")
    assert cells[2:6] == ["1.1000 ▲", "–", "1.1000 ▲", "1.10000 ▼"]
    assert cells[-2:] == ["", "+0.10000 (+0.10000 to +0.10000) |"]
    assert KL not in "".join(cells)
