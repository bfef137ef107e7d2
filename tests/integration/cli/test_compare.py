"""monocal compare."""

import pytest

COLUMNS = ("--score", "pctr", "--label", "click", "--time", "timestamp")


def test_sorted_by_excess_with_ties(monocal_command, log_file):
    arguments = ("--fields", "site_id,device", "--methods", "platt,beta,wide_logistic", "--group", "user_id")
    ended = monocal_command("compare", log_file, *COLUMNS, *arguments, "--json")
    assert ended.code == 0
    assert "split by time" in ended.err
    found = ended.json
    assert found["metric"] == "mfrce"
    methods = [one["method"] for one in found["methods"]]
    assert methods[0] == "wide_logistic"
    assert methods[-1] == "none"
    excesses = [one["report"]["metrics"]["mfrce"]["excess"] for one in found["methods"]]
    assert excesses == sorted(excesses)
    worst = found["methods"][-1]
    assert worst["against_uncalibrated"] is None
    assert worst["against_best"]["mfrce"]["verdict"] == "worse"
    assert found["methods"][0]["against_best"] is None
    assert found["methods"][0]["against_uncalibrated"]["mfrce"]["verdict"] == "better"


def test_methods_that_cannot_be_told_apart_tie(monocal_command, log_file):
    arguments = ("--methods", "platt,beta", "--metric", "ece")
    ended = monocal_command("compare", log_file, *COLUMNS, *arguments)
    assert ended.code == 0
    assert "tie" in ended.out
    assert "the data cannot tell" in ended.out
    assert "floor" in ended.out


def test_a_method_that_cannot_be_fitted_is_listed_with_the_reason(monocal_command, log_file):
    found = monocal_command("compare", log_file, *COLUMNS, "--methods", "platt,per_segment", "--json").json
    last = found["methods"][-1]
    assert (last["method"], last["report"]) == ("per_segment", None)
    assert "field ids, which 'per_segment' needs" in last["problem"]


def test_options_of_one_method(monocal_command, log_file):
    arguments = ("--methods", "histogram", "--metric", "log_loss", "--json")
    one = monocal_command("compare", log_file, *COLUMNS, *arguments, "--set", "histogram.n_bins=1").json
    many = monocal_command("compare", log_file, *COLUMNS, *arguments).json
    losses = [
        next(m["report"]["metrics"]["log_loss"]["value"] for m in found["methods"] if m["method"] == "histogram")
        for found in (one, many)
    ]
    assert losses[0] > losses[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "plat"), "did you mean 'platt'?"),
        (("--methods", "platt", "--metric", "loss"), "metric: got 'loss'"),
        (("--methods", "platt", "--set", "n_bins=3"), "wanted method.name=value"),
        (("--methods", "platt", "--set", "platt.n_bins=3"), "--set of platt: got 'n_bins'"),
        (("--methods", "platt", "--set", "beta.guard=true"), "method of arguments: got 'beta'"),
        (("--methods", "platt", "--fields", "sites"), "did you mean 'site_id'?"),
    ],
)
def test_bad_arguments(monocal_command, log_file, arguments, message):
    ended = monocal_command("compare", log_file, *COLUMNS, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
