"""Tables of the command line fit a terminal of 80 columns, without breaking a number."""

import pytest

from monocal.calibrators import CALIBRATORS
from monocal.metrics import METRICS

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
            assert max(len(line.rstrip()) for line in table[:3]) <= 80
            if verb not in ("methods", "metrics"):
                # a folded row would begin with blanks
                assert table[2][:1].strip()
                assert table[3][:1].strip()


@pytest.mark.parametrize("name", [*CALIBRATORS, *METRICS])
def test_what_a_method_and_a_metric_say_of_themselves_fits_80_columns(monocal_command, name):
    """Formulas and code are left as they are."""
    told = monocal_command("methods" if name in CALIBRATORS else "metrics", name)
    assert told.code == 0
    blocks = [part for part in told.out.split("\n\n") if ">>>" not in part and "\\" not in part]
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 80
