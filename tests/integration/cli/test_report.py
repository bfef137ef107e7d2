"""monocal report."""

COLUMNS = ("--time", "timestamp", "--group", "user_id")


def test_writes_one_page(monocal_command, model_folder, log_file, tmp_path, monkeypatch):
    arguments = ["report", model_folder, log_file, *COLUMNS, "--fields", "device", "--title", "A page"]
    arguments = [str(argument) for argument in [*arguments, "--out", tmp_path / "report.html"]]
    monkeypatch.setattr("sys.argv", ["monocal", *arguments])
    ended = monocal_command(*arguments)
    assert (ended.code, ended.out) == (0, "")
    assert "open it in a browser" in ended.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A page" in page
    assert "monocal report" in page
    assert len(page.encode()) < 600_000


def test_json_and_sampling_rate(monocal_command, model_folder, log_file, tmp_path):
    arguments = ("--sampling-rate", "0.5", "--fields", "device", "--out", tmp_path / "report.html", "--json")
    found = monocal_command("report", model_folder, log_file, *arguments).json
    assert found["n_bytes"] == (tmp_path / "report.html").stat().st_size
