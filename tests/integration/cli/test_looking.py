"""monocal inspect, methods and metrics."""

from monocal.calibrators import CALIBRATORS
from monocal.metrics import METRICS


def test_inspect_for_people(monocal_command, model_folder):
    ended = monocal_command("inspect", model_folder)
    assert ended.code == 0
    assert "click: pctr (probability) -> wide_logistic, fitted on click" in ended.out
    assert "fields: site_id (" in ended.out
    assert "fingerprint:" in ended.out


def test_inspect_for_programs(monocal_command, model_folder):
    found = monocal_command("inspect", model_folder, "--json").json
    assert found["format"] == "monocal model"
    assert found["tasks"][0]["method"] == "wide_logistic"


def test_inspect_a_log_folder(monocal_command, tmp_path, log_file):
    from monocal.tables.encoded import save_encoded
    from monocal.tables.roles import Roles
    from monocal.tables.table import Table

    roles = Roles.of(score="pctr", label="click", fields=["device"])
    save_encoded(Table.read(str(log_file), roles).encoded(), tmp_path / "log")
    ended = monocal_command("inspect", tmp_path / "log")
    assert "monocal encoded log with 20,000 rows" in ended.out
    assert "fields: device (5)" in ended.out
    assert monocal_command("inspect", tmp_path / "log", "--json").json["n_rows"] == 20_000


def test_inspect_something_else(monocal_command, tmp_path):
    ended = monocal_command("inspect", tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "not a folder with a manifest.json; expected a saved model or a prepared log" in ended.err
    assert "nothing: there is no such folder; expected" in monocal_command("inspect", tmp_path / "nothing").err
    (tmp_path / "manifest.json").write_text("{")
    assert "not a whole JSON file" in monocal_command("inspect", tmp_path).err


def test_methods_lists_every_method_with_its_promises(monocal_command):
    assert set(monocal_command("methods", "--json").json) == set(CALIBRATORS)
    ended = monocal_command("methods")
    for name, kind in CALIBRATORS.items():
        line = next(line for line in ended.out.splitlines() if line.split()[:1] == [name])
        assert kind().tags.monotone in line


def test_one_method_with_its_options(monocal_command):
    ended = monocal_command("methods", "histogram")
    assert "n_bins = " in ended.out
    assert monocal_command("methods", "histogram", "--json").json["options"]["guard"] is False
    assert "did you mean 'histogram'?" in monocal_command("methods", "histgram").err


def test_metrics_lists_every_metric_with_its_goal(monocal_command):
    found = monocal_command("metrics", "--json").json
    assert set(found) == set(METRICS)
    assert found["pcoc"]["goal"] == "toward 1"
    assert ":math:" not in monocal_command("metrics").out
    assert "Goal: minimize" in monocal_command("metrics", "ece").out
    ended = monocal_command("metrics", "ecce")
    assert ended.code == 2
    assert "did you mean 'ece'?" in ended.err
