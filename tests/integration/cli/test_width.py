"""Tables of the command line fit a terminal of 80 columns, without breaking a number."""

import pytest

COLUMNS = ("--score", "pctr", "--label", "click", "--fields", "device,country,site_id", "--time", "timestamp")


@pytest.mark.parametrize("verb", ["fit", "compare", "evaluate", "methods", "metrics"])
def test_tables_fit(monocal_command, model_folder, log_file, tmp_path, verb):
    arguments = {
        "fit": (log_file, *COLUMNS, "--method", "wide_logistic", "--out", tmp_path / "model"),
        "compare": (log_file, *COLUMNS, "--methods", "platt,wide_logistic,confcalib", "--group", "user_id"),
        "evaluate": (model_folder, log_file, "--by", "device", "--group", "user_id", "--top-k", 1, "--metrics", "all"),
        "methods": (),
        "metrics": (),
    }
    ended = monocal_command(verb, *arguments[verb])
    assert ended.code == 0
    lines = ended.out.splitlines()
    rules = [line for line in lines if line.startswith("──")]
    assert rules
    assert max(len(line.rstrip()) for line in rules) <= 80
    for place, line in enumerate(lines):
        if line.startswith("──"):
            table = lines[place - 1 :]
            assert max(len(one.rstrip()) for one in table[:3]) <= 80
            if verb not in ("methods", "metrics"):
                # a folded row would begin with blanks
                assert table[2][:1].strip()
                assert table[3][:1].strip()
