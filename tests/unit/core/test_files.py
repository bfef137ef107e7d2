"""Output files: refused before the work, whole or not at all, and a full disk by its name."""

import errno

import pytest

from monocal.core.errors import DiskFull, InvalidInput
from monocal.core.files import atomic_file, check_output, is_disk_full, naming_disk_full


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_output_is_refused_over_its_input_and_inside_an_input_folder_alone(tmp_path):
    output, folder = tmp_path / "out.parquet", tmp_path / "log"
    output.touch()
    folder.mkdir()
    check_output(output, [tmp_path / "missing.parquet", folder])
    (tmp_path / "link.parquet").hardlink_to(output)
    for target, given in ((output, tmp_path / "link.parquet"), (folder / "part.parquet", folder)):
        with pytest.raises(InvalidInput, match="expected a file other than the input"):
            check_output(target, [given])


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "new" / "a.txt"
    with atomic_file(target) as first:
        first.write_text("one")
        with atomic_file(target) as second:
            second.write_text("two")
        assert target.read_text() == "two"
    assert target.read_text() == "one"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_a_full_quota_and_a_size_limit_are_one_error_whoever_met_them(number):
    errors = (
        OSError(number, "no room"),
        RuntimeError(f"I/O error: (os error {number})"),
        ValueError(f"[Errno {number}] Error writing bytes to file"),
    )
    for error in errors:
        assert is_disk_full(error)
        with pytest.raises(DiskFull, match="disk full while writing 'model'.*Hint"), naming_disk_full("model"):
            raise error
    assert not is_disk_full(OSError(errno.EACCES, "Permission denied"))
    assert not is_disk_full(ValueError(f"os error {number}0"))
