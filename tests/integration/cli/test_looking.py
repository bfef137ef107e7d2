"""monocal inspect, methods and metrics; and every table and text within a terminal of 80 columns."""

from monocal.calibrators import CALIBRATORS
from monocal.metrics import METRICS

COLUMNS = ("--score", "pctr", "--label", "click", "--fields", "site_id,ad_id,country,hour,position,device")


def widest(text):
    return max(len(line.rstrip()) for line in text.splitlines())


def test_what_is_in_a_model(monocal_command, model_folder):
    shown = monocal_command("inspect", model_folder).out
    assert "click: pctr (probability) -> wide_logistic, fitted on click" in shown
    assert "strictly monotone for fixed features" in " ".join(shown.split())
    assert "fields: site_id (" in shown
    assert widest(shown) <= 80
    found = monocal_command("inspect", model_folder, "--json").json
    assert (found["format"], found["tasks"][0]["method"]) == ("monocal model", "wide_logistic")


def test_what_is_in_a_prepared_log(monocal_command, log_file, tmp_path):
    columns = ("--label", "click", "--fields", "device,site_id")
    assert monocal_command("lab", "prepare", log_file, *columns, "--out", tmp_path / "log").code == 0
    shown = monocal_command("inspect", tmp_path / "log").out
    assert "20,000 rows" in shown
    assert "fields: device (5)" in shown
    assert widest(shown) <= 80
    assert monocal_command("inspect", tmp_path / "log", "--json").json["parts"]["train"] == 12_000


def test_what_is_neither(monocal_command, tmp_path):
    ended = monocal_command("inspect", tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "not a folder with a manifest.json; expected a saved model or a prepared log" in ended.err
    assert "nothing: there is no such folder; expected" in monocal_command("inspect", tmp_path / "nothing").err
    (tmp_path / "manifest.json").write_text("{")
    assert "not a whole JSON file" in monocal_command("inspect", tmp_path).err


def test_methods_and_metrics_explain_themselves(monocal_command):
    assert set(monocal_command("methods", "--json").json) == set(CALIBRATORS)
    listed = monocal_command("methods").out
    for name, kind in CALIBRATORS.items():
        line = next(line for line in listed.splitlines() if line.split()[:1] == [name])
        assert kind().tags.monotone in line
        told = monocal_command("methods", name).out
        assert widest("\n\n".join(block for block in told.split("\n\n") if "\\" not in block)) <= 80
    assert "n_bins = " in monocal_command("methods", "histogram").out
    assert monocal_command("methods", "histogram", "--json").json["options"]["guard"] is False
    assert "did you mean 'histogram'?" in monocal_command("methods", "histgram").err
    found = monocal_command("metrics", "--json").json
    assert set(found) == set(METRICS)
    assert found["pcoc"]["goal"] == "toward 1"
    assert ":math:" not in monocal_command("metrics").out
    for name in METRICS:
        blocks = monocal_command("metrics", name).out.split("\n\n")
        assert widest("\n\n".join(block for block in blocks if "\\" not in block and ">>>" not in block)) <= 80
    assert "did you mean 'ece'?" in monocal_command("metrics", "ecce").err


def test_tables_fit_without_breaking_a_number(monocal_command, model_folder, log_file):
    commands = [
        ("compare", log_file, *COLUMNS, "--methods", "platt,wide_logistic,confcalib", "--group", "user_id"),
        ("evaluate", model_folder, log_file, "--by", "device", "--group", "user_id", "--metrics", "all"),
    ]
    for words in commands:
        ended = monocal_command(*words)
        assert ended.code == 0, ended.err
        lines = ended.out.splitlines()
        rules = [place for place, line in enumerate(lines) if line.startswith("──")]
        assert rules
        for place in rules:
            table = lines[place - 1 : place + 3]
            assert widest("\n".join(table)) <= 80
            # a folded row would begin with blanks
            assert all(line[:1].strip() for line in table[2:4])
