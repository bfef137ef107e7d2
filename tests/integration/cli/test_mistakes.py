"""A mistake at the command line is one line that names it, and nothing is written."""

import pytest

SCORED = "--score pctr --label click"
CALIBRATE = f"calibrate LOG {SCORED} --time timestamp --out box"
COMPARE = f"compare LOG {SCORED} --methods platt"
FIT = "fit LOG --method platt --out m"
REPORT = "report MODEL LOG --out report.html"

MISTAKES = {
    "apply MODEL LOG --out s.parquet --column click": "output column: got 'click', which is there already",
    "apply MODEL LOG --out s.parquet --sampling-rate rat": "sampling rate column: got 'rat'",
    "calibrate LOG --score pctr --label clik --out box": "--label: got 'clik'; expected one of",
    "calibrate lgo.parquet --score pctr --label click --out box": "lgo.parquet",
    f"{CALIBRATE} --pcoc 0.9": "--pcoc: got '0.9'; expected two numbers with a comma",
    f"{CALIBRATE} --pcoc 1.1,0.9": "--pcoc: got 1.1,0.9; expected two limits around 1",
    f"{CALIBRATE} --methods plat": "did you mean 'platt'?",
    f"{COMPARE} --set n_bins=3": "expected method.name=value",
    f"{COMPARE} --set platt.n_bins=3": "argument of 'platt': got 'n_bins'",
    f"{COMPARE} --set beta.guard=true": "method of arguments: got 'beta'",
    "evaluate LOG --label click": "score: got nothing",
    f"evaluate LOG {SCORED} --by devise": "did you mean 'device'?",
    f"evaluate LOG {SCORED} --time timestamp --since 2024-01-01": "expected a number, as in the time column (int64)",
    f"{FIT} --score pctr --label clik": "did you mean 'click'?",
    f"{FIT} --score pctr": "label: got nothing; expected the name of the label column",
    f"{FIT} --tasks click": "--tasks: got 'click'; expected label:score",
    f"{FIT} {SCORED} --set bins=3": "argument of 'platt': got 'bins'",
    f"{REPORT} --label clik": "did you mean 'click'?",
    f"{REPORT} --fields devise": "did you mean 'device'?",
    f"{REPORT} --since 2024-01-01": "name the time column",
    f"{REPORT} --value bids": "got 'bids'",
    "serve MODEL --set max_row=3": "did you mean 'max_rows'?",
    "serve MODEL --port 70000": "port: got 70000; expected int <= 65535",
    "serve MODEL --set missing_fields=ignore": "missing_fields",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(
    monocal_command, model_folder, log_file, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    places = {"MODEL": model_folder, "LOG": log_file}
    ended = monocal_command(*(places.get(word, word) for word in words.split()))
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended.err
    assert MISTAKES[words] in ended.err
    assert list(tmp_path.iterdir()) == []
