"""Tables of the command line fit a terminal of 80 columns, without breaking a number."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monocal.calibrators import CALIBRATORS
from monocal.metrics import METRICS

COLUMNS = ("--score", "pctr", "--label", "click", "--fields", "device,country,site_id", "--time", "timestamp")


@pytest.mark.parametrize("verb", ["fit", "compare", "evaluate", "methods", "metrics"])
def test_tables_fit(monocal_command, model_folder, log_file, tmp_path, verb):
    arguments = {
        "fit": (log_file, *COLUMNS, "--method", "wide_logistic", "--out", tmp_path / "model"),
        "compare": (log_file, *COLUMNS, "--methods", "platt,wide_logistic,confcalib", "--group", "user_id"),
        "evaluate": (model_folder, log_file, "--by", "device", "--group", "user_id", "--metrics", "all"),
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


def test_what_is_in_a_model_and_in_a_log_fits(monocal_command, log_file, tmp_path):
    fields = "site_id,ad_id,country,hour,position,device"
    more = ("--numeric", "user_number")
    frame = pq.read_table(log_file)
    n = frame.num_rows
    pq.write_table(frame.append_column("user_number", pa.array(range(n))), tmp_path / "log.parquet")
    columns = ("--score", "pctr", "--label", "click", "--fields", fields)
    fitted = monocal_command(
        "fit", tmp_path / "log.parquet", *columns, *more, "--method", "wide_logistic", "--out", tmp_path / "model"
    )
    assert fitted.code == 0, fitted.err
    prepared = monocal_command(
        "lab", "prepare", log_file, "--label", "click", "--fields", fields, "--out", tmp_path / "log"
    )
    assert prepared.code == 0
    for folder in ("model", "log"):
        told = monocal_command("inspect", tmp_path / folder)
        assert told.code == 0
        assert max(len(line) for line in told.out.splitlines()) <= 80
        assert "device (" in told.out
    assert "strictly monotone for fixed features" in " ".join(
        monocal_command("inspect", tmp_path / "model").out.split()
    )
    assert max(len(line.rstrip()) for line in fitted.out.splitlines()) <= 80


@pytest.mark.parametrize("name", [*CALIBRATORS, *METRICS])
def test_what_a_method_and_a_metric_say_of_themselves_fits_80_columns(monocal_command, name):
    """Formulas, and examples of metrics, are left as they are."""
    told = monocal_command("methods" if name in CALIBRATORS else "metrics", name)
    assert told.code == 0
    code = () if name in CALIBRATORS else (">>>",)
    blocks = [part for part in told.out.split("\n\n") if not any(word in part for word in (*code, "\\"))]
    assert max(len(line) for block in blocks for line in block.splitlines()) <= 80
