"""monocal compare."""

import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COLUMNS = ("--score", "pctr", "--label", "click", "--time", "timestamp")


def test_sorted_by_log_loss_with_ties(monocal_command, log_file):
    arguments = ("--fields", "site_id,device", "--methods", "platt,beta,wide_logistic", "--group", "user_id")
    ended = monocal_command("compare", log_file, *COLUMNS, *arguments, "--json")
    assert ended.code == 0
    assert "split by time" in ended.err
    found = ended.json
    assert found["metric"] == "log_loss"
    methods = [method["method"] for method in found["methods"]]
    assert methods[0] == "wide_logistic"
    assert methods[-1] == "none"
    losses = [method["report"]["metrics"]["log_loss"]["value"] for method in found["methods"]]
    assert losses == sorted(losses)
    worst = found["methods"][-1]
    assert worst["against_uncalibrated"] is None
    assert worst["against_best"]["log_loss"]["verdict"] == "worse"
    assert found["methods"][0]["against_best"] is None
    assert found["methods"][0]["against_uncalibrated"]["log_loss"]["verdict"] == "better"


def test_what_was_believed_is_shown_with_the_option_that_overrides(monocal_command, tmp_path):
    """A field whose values never recur is named, and the hint that is printed works as it stands."""
    day = 86_400 * np.repeat(np.arange(12), 1_000) + 1_767_225_600
    random = np.random.default_rng(0)
    z, site, batch = random.normal(-1.0, 1.0, 12_000), random.integers(0, 5, 12_000), (day // 86_400).astype(str)
    clicks = (random.random(12_000) < 1 / (1 + np.exp(-z - 0.3 * site))).astype(np.int8)
    columns = {"pctr": 1 / (1 + np.exp(-z)), "click": clicks, "site": site.astype(str), "batch": batch, "ts": day}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    given = ("--score", "pctr", "--label", "click", "--time", "ts", "--fields", "site,batch")
    carried = ("--methods", "wide_logistic", "--set", "wide_logistic.carry=auto")
    shown = monocal_command("compare", tmp_path / "log.parquet", *given, *carried).out
    assert "Carried forward, as shares of what was learned:" in shown
    told = " ".join(shown.split())
    assert "wide_logistic: batch 0." in told
    assert "other fields 0.75 or more" in told
    wish = 'carry={"batch": 1.0} keeps it'
    assert f"batch is confounded with time; {wish}" in told
    assert max(len(line) for line in shown.splitlines()) <= 80
    option = ("--set", 'wide_logistic.carry={"batch": 1.0}', "--json")
    found = monocal_command("compare", tmp_path / "log.parquet", *given, "--methods", "wide_logistic", *option).json
    (wide,) = [one for one in found["methods"] if one["method"] == "wide_logistic"]
    assert (wide["carried"]["batch"], wide["calendar"]) == (1.0, [])


def test_fields_auto_and_the_settings_are_those_of_fit(monocal_command, log_file, tmp_path):
    given = (log_file, *COLUMNS, "--fields", "auto")
    compared = monocal_command("compare", *given, "--methods", "wide_logistic", "--json")
    fitted = monocal_command("fit", *given, "--method", "wide_logistic", "--out", tmp_path / "model")
    assert "fields: user_id, site_id, ad_id, country, hour, position, device" in compared.err
    assert "fields: user_id, site_id, ad_id, country, hour, position, device" in fitted.err
    assert compared.json["methods"][0]["method"] == "wide_logistic"
    without = monocal_command("compare", *given[:-1], "none", "--methods", "platt", "--json")
    assert "mfrce" not in without.json["methods"][0]["report"]["metrics"]


def test_a_method_that_cannot_be_fitted_is_listed_with_the_reason(monocal_command, log_file):
    found = monocal_command("compare", log_file, *COLUMNS, "--methods", "platt,per_segment", "--json").json
    last = found["methods"][-1]
    assert (last["method"], last["report"]) == ("per_segment", None)
    assert "field ids, which 'per_segment' needs" in last["problem"]


@pytest.mark.extras
def test_the_fast_ones_are_compared_and_the_fit_of_the_winner_is_printed(monocal_command, tmp_path):
    monocal_command("simulate", tmp_path / "log.parquet", "--rows", "3000")
    given = (tmp_path / "log.parquet", *COLUMNS, "--fields", "device,site_id", "--set", "umc.n_epochs=1")
    ended = monocal_command("compare", *given)
    methods = {line.split()[0] for line in ended.out.splitlines()[3:14]}
    expected = {"none", "histogram", "isotonic", "sir", "platt", "temperature", "beta", "gauss", "gamma"}
    assert methods == expected | {"wide_logistic", "umc"}
    line = ended.err.splitlines()[-1].removeprefix("Next: ")
    words = shlex.split(line)
    assert words[:2] == ["monocal", "fit"]
    assert words[words.index("--method") + 1] == ended.out.splitlines()[3].split()[0]
    assert monocal_command(*words[1:-1], tmp_path / "model").code == 0
