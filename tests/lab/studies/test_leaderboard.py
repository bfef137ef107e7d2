"""The leaderboard calls a tie a tie."""

import math

from monocal.lab.studies.leaderboard import markdown, sections
from monocal.lab.studies.study import CalibratorSpec, DataSpec, Study

STUDY = Study(
    "s",
    "a < b?",
    (DataSpec("small", n_calibration=10), DataSpec("large", n_calibration=1000)),
    (CalibratorSpec("a", "none"), CalibratorSpec("<b>", "platt")),
    seeds=(0, 1),
    metrics=("log_loss", "ece"),
)


def row(data, calibrator, seed, metric, value, verdict="", is_best=False):
    return {
        "data": data,
        "calibrator": calibrator,
        "seed": seed,
        "status": "ok",
        "reason": "",
        "cpu_seconds": 1.0,
        "n_calibration": 10,
        "n_test": 20,
        "n_fields": 3,
        "rate": 0.25,
        "metric": metric,
        "value": value,
        "low": value - 0.01,
        "high": value + 0.01,
        "floor": 0.001,
        "verdict_to_best": verdict,
        "is_best": is_best,
    }


def rows_of(data, verdicts):
    return [
        *[row(data, "a", seed, metric, 0.3, "", True) for seed in (0, 1) for metric in STUDY.metrics],
        *[row(data, "<b>", seed, m, 0.4, verdicts[seed]) for seed in (0, 1) for m in STUDY.metrics],
    ]


def test_worse_only_if_every_seed_says_so():
    for verdicts, expected in (
        (("worse", "worse"), "worse"),
        (("worse", "tie"), "tie"),
        (("better", "better"), "better"),
        (("better", "worse"), "tie"),
    ):
        (section,) = sections(STUDY, rows_of("small", verdicts))
        (_, best, _), (_, other, _) = section.lines
        assert [entry.verdict for entry in best] == ["best", "best"]
        assert [entry.verdict for entry in other] == [expected, expected]


def test_skipped_calibrators_keep_their_reason():
    failed = {**row("small", "<b>", 0, "", math.nan), "status": "skipped", "reason": "no memory & no time"}
    rows = [*rows_of("small", ("tie", "tie"))[:4], failed]
    assert "- <b>: skipped, no memory & no time" in markdown(STUDY, rows)
