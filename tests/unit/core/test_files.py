import os
import stat

import pytest

from monocal.core import files, folders
from monocal.core.errors import InvalidInput
from monocal.core.files import atomic_file, check_output
from monocal.core.locks import hold
from monocal.core.manifest import FolderFormat

KIND = FolderFormat("monocal test", 1, "manifest.json", called="a test", remedy="write it again")


def write(target, *names):
    with KIND.writing(target) as temporary:
        for name in names:
            (temporary / name).write_text(name)
        KIND.seal(temporary, {})


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


def test_a_folder_with_foreign_files_is_refused_before_the_work_begins(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InvalidInput), KIND.writing(tmp_path):
        pytest.fail("the work began")


def test_a_failed_folder_leaves_the_old_one_and_nothing_else(tmp_path):
    target = tmp_path / "m"
    write(target, "x")
    with pytest.raises(KeyboardInterrupt), KIND.writing(target) as temporary:
        (temporary / "x").write_text("half")
        raise KeyboardInterrupt
    assert (target / "x").read_text() == "x"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_replaces_an_older_one_whole(tmp_path, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    target = tmp_path / "m"
    for name in ("a", "b"):
        write(target, name)
    assert sorted(path.name for path in target.iterdir()) == ["b", "manifest.json"]
    assert list(tmp_path.iterdir()) == [target]


def test_without_an_exchange_the_next_writer_finds_the_old_folder_of_a_killed_one(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    target = tmp_path / "m"
    write(target, "old")
    os.rename(target, tmp_path / ".m.0123abcd.old")  # as a kill between the two steps leaves it
    with pytest.raises(RuntimeError), KIND.writing(target):
        raise RuntimeError
    assert (target / "old").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_foreign_file_that_comes_at_the_last_moment_survives(tmp_path, monkeypatch):
    target = tmp_path / "m"
    write(target, "x")
    real = folders.exchange
    calls = []

    def late(one, other):
        if not calls:
            (target / "notes.md").write_text("mine")
        calls.append(one)
        return real(one, other)

    monkeypatch.setattr(folders, "exchange", late)
    with pytest.raises(InvalidInput, match=r"notes\.md"):
        write(target, "y")
    assert sorted(os.listdir(target)) == ["manifest.json", "notes.md", "x"]
    assert os.listdir(tmp_path) == ["m"]


def test_leftovers_of_dead_writers_go_and_those_of_live_ones_stay(tmp_path):
    dead, live = tmp_path / ".m.00000000.part", tmp_path / ".m.11111111.part"
    other = tmp_path / ".m.b.00000000.part"
    for folder in (dead, live, other):
        folder.mkdir()
        (folder / "x").write_text("half")
    lock = hold(live)
    write(tmp_path / "m", "x")
    os.close(lock)
    assert sorted(os.listdir(tmp_path)) == sorted([live.name, other.name, "m"])


def test_leftover_files_of_dead_writers_go_and_those_of_live_ones_stay(tmp_path):
    dead, live = tmp_path / ".a.csv.00000000.part.csv", tmp_path / ".a.csv.11111111.part.csv"
    for path in (dead, live):
        path.write_text("half")
    lock = hold(live)
    with atomic_file(tmp_path / "a.csv") as temporary:
        temporary.write_text("whole")
    os.close(lock)
    assert sorted(os.listdir(tmp_path)) == sorted([live.name, "a.csv"])


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "a.txt"
    with atomic_file(target) as one:
        one.write_text("one")
        with atomic_file(target) as two:
            two.write_text("two")
        assert target.read_text() == "two"
    assert target.read_text() == "one"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_modes_follow_the_umask_even_if_a_library_writes_private_files(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        with KIND.writing(tmp_path / "m") as temporary:
            (temporary / "x").write_text("x")
            (temporary / "x").chmod(0o600)
            KIND.seal(temporary, {})
        with atomic_file(tmp_path / "a.txt") as path:
            path.unlink()
            path.write_text("x")
            path.chmod(0o600)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {"a.txt": mode, "x": mode, "manifest.json": mode, "m": mode | (mode & 0o444) >> 2}


def test_everything_is_on_the_disk_before_and_after_the_exchange(tmp_path, monkeypatch):
    """Without it, a power failure could leave a model of empty files in the place of a whole one."""
    write(tmp_path / "m", "x")
    events = []
    real_sync, real_exchange = os.fsync, folders.exchange

    def sync(descriptor):
        events.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        real_sync(descriptor)

    def exchange(one, other):
        events.append("exchange")
        return real_exchange(one, other)

    monkeypatch.setattr(files.os, "fsync", sync)
    monkeypatch.setattr(folders, "exchange", exchange)
    write(tmp_path / "m", "x")
    at = events.index("exchange")
    assert {"x", "manifest.json"} < set(events[:at])
    assert any(name.endswith(".part") for name in events[:at])
    assert events[at + 1 :] == [tmp_path.name]


def test_a_file_is_on_the_disk_before_and_its_name_after_the_rename(tmp_path, monkeypatch):
    events = []
    real = os.fsync

    def sync(descriptor):
        events.append((os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")), (tmp_path / "a.txt").exists()))
        real(descriptor)

    monkeypatch.setattr(files.os, "fsync", sync)
    with atomic_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("x")
    assert events == [(temporary.name, False), (tmp_path.name, True)]
