"""Writers of the laboratory replace what an earlier one of the same kind left, and nothing else."""

import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.lab.prepare.encoder import encode_log
from monocal.lab.rankers import rank_log, ranker
from monocal.tables.roles import Roles

LOG = monocal.simulate_log(400, seed=3).table()
SCHEMA = Roles(label="click", fields=["device"], time="timestamp")


@pytest.mark.parametrize(
    "write",
    [
        lambda box, log: encode_log(LOG, SCHEMA, box),
        lambda box, log: log.save(box),
        lambda box, log: rank_log(log, ranker("hashed_logistic"), box),
        lambda box, log: ranker("hashed_logistic").fit(log).save(box),
        lambda box, log: rank_log(log, ranker("hashed_logistic"), log.folder),
    ],
    ids=["encode_log", "encoded log", "rank_log", "ranker", "rank_log over its own log"],
)
def test_a_folder_with_other_files_is_refused(tmp_path, write):
    log = encode_log(LOG, SCHEMA, tmp_path / "log")
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "notes.md").write_text("a month of work")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInput, match=r"notes\.md|manifest\.json"):
        write(tmp_path / "box", log)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
