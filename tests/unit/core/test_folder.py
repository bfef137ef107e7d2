"""The checked folder: whole or not at all, nothing foreign removed, anything damaged refused."""

import errno
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from monocal.core import files, folder
from monocal.core.errors import ArtefactError, InvalidInput, MissingFolder, MonocalError
from monocal.core.files import atomic_file, turn_in
from monocal.core.folder import FolderFormat

KIND = FolderFormat("monocal test", 1, "manifest.json", called="a test", remedy="write it again", known=("x",))

KIND_OF_TEST = """
import json, os, sys
from pathlib import Path
from monocal.core.errors import ArtefactError
from monocal.core.folder import FolderFormat
KIND = FolderFormat("monocal test", 1, "manifest.json", called="a test", remedy="write it again", known=("x",))
target = Path(sys.argv[1]) / "m"

def write(text):
    with KIND.writing(target) as temporary:
        (temporary / "x").write_text(text)
        KIND.seal(temporary, {})

def read():
    manifest = KIND.read(target)
    KIND.verify(target, manifest)
    return KIND.read_file(target, manifest, "x").decode()
"""

KILL_EVERYWHERE = (
    KIND_OF_TEST
    + """
found, is_whole, k = [], False, 0
while not is_whole:
    k += 1
    write("old")
    is_whole = ends_whole(lambda: write("new"), k)
    found.append(read())
    write("old")
    assert os.listdir(target.parent) == ["m"], os.listdir(target.parent)
print(json.dumps(found))
"""
)

WRITE = KIND_OF_TEST + "print('ready', flush=True)\nfor k in range(int(sys.argv[2])):\n    write(str(k))\n"

READ = (
    KIND_OF_TEST
    + """
from monocal.core.files import read_unchanged
print("ready", flush=True)
n_reads = 0
while not (target.parent / "stop").exists():
    read_unchanged(target, read)
    n_reads += 1
print(n_reads)
"""
)


def run(script, *arguments):
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def write(target, **texts):
    with KIND.writing(target) as temporary:
        for name, text in texts.items():
            (temporary / name).write_text(text)
        KIND.seal(temporary, {})


def tree(place):
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


@pytest.fixture
def target(tmp_path):
    """One file, and one in a folder below."""
    with KIND.writing(tmp_path / "m") as temporary:
        (temporary / "x").write_text("one")
        (temporary / "below").mkdir()
        (temporary / "below" / "y").write_text("two")
        KIND.seal(temporary, {})
    return tmp_path / "m"


def test_a_writer_killed_at_every_call_leaves_the_old_folder_or_the_new_one(quick_place, dying):
    child = run(dying + KILL_EVERYWHERE, quick_place)
    found = json.loads(child.communicate()[0])
    assert child.returncode == 0
    # one step: the old folder up to some call, the new one from then on
    n_old = found.count("old")
    assert found == ["old"] * n_old + ["new"] * (len(found) - n_old)
    assert n_old > 10
    assert found[-1] == "new"


def test_two_writers_disturb_no_reader_and_leave_nothing_behind(quick_place):
    run(WRITE, quick_place, 1).communicate()
    processes = [run(READ, quick_place), *(run(WRITE, quick_place, 50) for _ in range(2))]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    reader, *writers = processes
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    (quick_place / "stop").touch()
    assert int(reader.communicate()[0]) > 10
    assert reader.returncode == 0
    assert sorted(os.listdir(quick_place)) == ["m", "stop"]


def test_a_failed_writer_leaves_the_old_folder_and_nothing_else(target):
    before = tree(target)
    with pytest.raises(KeyboardInterrupt), KIND.writing(target) as temporary:
        (temporary / "x").write_text("half")
        raise KeyboardInterrupt
    assert tree(target) == before
    assert os.listdir(target.parent) == ["m"]


def test_a_folder_replaces_an_empty_one_and_an_older_one_whole(tmp_path):
    (tmp_path / "m").mkdir()
    write(tmp_path / "m", x="1", y="2")
    write(tmp_path / "m", x="3")
    assert sorted(os.listdir(tmp_path / "m")) == ["manifest.json", "x"]
    assert os.listdir(tmp_path) == ["m"]


def foreign_file(target):
    (target / "notes.md").write_text("mine")
    return "notes.md"


def foreign_folder(target):
    (target / ".git").mkdir()
    return r"\.git"


def other_kind(target):
    manifest = json.loads((target / "manifest.json").read_text())
    (target / "manifest.json").write_text(json.dumps({**manifest, "format": "monocal other"}))
    return "x"


def no_manifest(target):
    (target / "manifest.json").unlink()
    return "x"


def damaged_and_foreign(target):
    (target / "manifest.json").write_text("{")
    return "below/y"


@pytest.mark.parametrize("change", [foreign_file, foreign_folder, other_kind, no_manifest, damaged_and_foreign])
def test_a_folder_with_anything_foreign_is_refused_before_the_work_begins(target, change):
    named = change(target)
    before = tree(target)
    for refused in (lambda: KIND.check_target(target), lambda: write(target, x="new")):
        with pytest.raises(InvalidInput, match=rf"{named}.*Hint: choose another folder"):
            refused()
    assert tree(target) == before


def test_a_damaged_manifest_beside_nothing_foreign_is_replaced(tmp_path):
    write(tmp_path / "m", x="old")
    (tmp_path / "m" / "manifest.json").write_text("{")
    write(tmp_path / "m", x="new")
    assert KIND.read_file(tmp_path / "m", KIND.read(tmp_path / "m"), "x") == b"new"


def test_a_manifest_cannot_name_files_outside_the_folder(target):
    precious = target.parent / "precious.txt"
    precious.write_text("mine")
    manifest = json.loads((target / "manifest.json").read_text())
    for name in ("../precious.txt", str(precious), "a\\x", "a\0x", "./x", "a//x", ""):
        damaged = {**manifest, "files": {**manifest["files"], name: {"n_bytes": 4, "fingerprint": ""}}}
        damaged.pop("fingerprint")
        damaged["fingerprint"] = folder.fingerprint(damaged)
        (target / "manifest.json").write_text(json.dumps(damaged))
        with pytest.raises(ArtefactError, match="damaged"):
            KIND.read(target)
    write(target, x="new")
    assert precious.read_text() == "mine"


def test_places_that_no_folder_may_take_are_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "here").mkdir()
    (tmp_path / "disk").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "disk")
    places = {"file": "is a file", "link": "symbolic link", "here": "current folder", "disk": "mounted file system"}
    for name, reason in places.items():
        with pytest.raises(InvalidInput, match=reason):
            write(tmp_path / name, x="new")
    assert sorted(os.listdir(tmp_path)) == sorted(places)


def test_a_foreign_file_that_comes_while_a_writer_works_survives(target, monkeypatch):
    with pytest.raises(InvalidInput, match="note"), KIND.writing(target) as temporary:
        KIND.seal(temporary, {})
        (target / "note").write_text("mine")
    (target / "note").unlink()
    real, late = os.rename, []

    def rename(old, new):
        if Path(old) == target and not late:
            late.append((target / "late").write_text("mine"))
        real(old, new)

    monkeypatch.setattr(files.os, "rename", rename)
    with pytest.raises(InvalidInput, match="late"):
        write(target, x="new")
    assert (target / "late").read_text() == "mine"
    assert (target / "x").read_text() == "one"
    assert os.listdir(target.parent) == ["m"]


def test_leftovers_of_dead_writers_go_and_those_of_live_ones_stay(tmp_path):
    dead, live, other = (tmp_path / f".{name}.part" for name in ("m.00000000", "m.11111111", "m.b.00000000"))
    for path in (dead, live, other):
        path.mkdir()
    old, new = (tmp_path / f".a.csv.{digit * 8}.part.csv" for digit in "01")
    for path in (old, new):
        path.write_text("half")
    with turn_in(live), turn_in(new):
        write(tmp_path / "m", x="1")
        with atomic_file(tmp_path / "a.csv") as temporary:
            temporary.write_text("whole")
    assert sorted(os.listdir(tmp_path)) == sorted([live.name, other.name, new.name, "m", "a.csv"])


def test_a_writer_gives_back_every_lock_it_took(target):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        write(target, x="1")
        with atomic_file(target.parent / "a.txt") as path:
            path.write_text("x")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda m: (m / "x").write_text("onE"), "do not match the manifest's fingerprint"),
        (lambda m: (m / "x").write_text("on"), "2 bytes instead of 3"),
        (lambda m: (m / "x").write_text("one more"), "8 bytes instead of 3"),
        (lambda m: (m / "x").unlink(), "missing"),
        (lambda m: (m / "manifest.json").write_text("{"), "not a whole JSON file"),
        (lambda m: (m / "manifest.json").write_text("[]"), "not a monocal test"),
        (lambda m: (m / "manifest.json").write_text('{"format": "monocal test", "schema_version": true}'), "damaged"),
        (lambda m: (m / "manifest.json").unlink(), "there is no such file"),
    ],
)
def test_anything_damaged_is_refused(target, damage, message):
    damage(target)
    with pytest.raises(ArtefactError, match=message):
        KIND.verify(target, KIND.read(target))


@pytest.mark.parametrize(("version", "hint"), [(2, "fit again"), (4, "upgrade monocal")])
def test_a_folder_of_another_version_says_what_to_do(target, version, hint):
    kinds = [FolderFormat("monocal test", n, "manifest.json", "a test", "", anew="fit again") for n in (version, 3)]
    kinds[0].seal(target, {})
    with pytest.raises(ArtefactError, match=f"schema version {version}, .*nothing was loaded.*Hint: {hint}"):
        kinds[1].read(target)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(MissingFolder, match="there is no such folder; a test is a folder with"):
        KIND.read(tmp_path / "nowhere")


def test_a_file_that_grew_after_the_look_is_not_read_whole(target, monkeypatch):
    manifest = KIND.read(target)
    real = FolderFormat._stated

    def stated(self, *arguments):
        found = real(self, *arguments)
        (target / "x").write_bytes(b"z" * 1_000_000)
        return found

    sizes = []
    monkeypatch.setattr(FolderFormat, "_stated", stated)
    monkeypatch.setattr(folder, "fingerprint_bytes", lambda contents: sizes.append(len(contents)))
    with pytest.raises(ArtefactError):
        KIND.read_file(target, manifest, "x")
    assert sizes == [4]


@pytest.mark.parametrize("is_checked", [True, False])
def test_a_reader_takes_no_parts_of_two_folders(target, is_checked):
    """Neither one that is stopped by what does not fit, nor a copy, which nothing checks before it is whole."""

    def read():
        manifest, first = KIND.read(target), (target / "x").read_bytes()
        if not calls:
            calls.append(write(target, x="new"))
        return first, KIND.read_file(target, manifest, "x") if is_checked else (target / "x").read_bytes()

    calls = []
    assert files.read_unchanged(target, read) == (b"new", b"new")


def test_a_copy_holds_what_the_manifest_names_and_nothing_of_another_size(target, tmp_path):
    before = tree(target)
    foreign_file(target)
    (tmp_path / "copy").mkdir()
    KIND.copy(target, tmp_path / "copy")
    assert tree(tmp_path / "copy") == before
    (target / "x").write_bytes(b"z" * 1_000_000)
    (tmp_path / "second").mkdir()
    with pytest.raises(ArtefactError, match="1000000 bytes instead of 3"):
        KIND.copy(target, tmp_path / "second")
    assert "x" not in tree(tmp_path / "second")


def test_arrays_of_any_layout_are_written(tmp_path):
    arrays = {
        "table": np.arange(12, dtype=np.float32).reshape(3, 4)[:, :3],
        "turned": np.arange(12.0).reshape(3, 4).T,
        "steps": np.array(7, np.int64),
    }
    folder.write_arrays(tmp_path / "a.safetensors", arrays)
    read = load_file(tmp_path / "a.safetensors")
    assert all(read[name].dtype == array.dtype and np.array_equal(read[name], array) for name, array in arrays.items())


def test_whoever_has_the_turn_may_take_it_again_and_others_wait(tmp_path):
    def wait():
        with turn_in(tmp_path, 0.01):
            pass

    with ThreadPoolExecutor(1) as pool, turn_in(tmp_path):
        with turn_in(tmp_path, 0.01):
            pass
        with pytest.raises(MonocalError, match="another process has kept this place locked"):
            pool.submit(wait).result()
    wait()


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


def test_everything_is_on_the_disk_before_the_renames_and_the_names_after(target, monkeypatch):
    """Without it, a power failure could leave a model of empty files in the place of a whole one."""
    events, real_sync, real_rename = [], os.fsync, os.rename
    name = "os.readlink(f'/proc/self/fd/{descriptor}')"

    def sync(descriptor):
        events.append(os.path.basename(eval(name)))
        real_sync(descriptor)

    monkeypatch.setattr(files.os, "fsync", sync)
    monkeypatch.setattr(files.os, "rename", lambda old, new: (events.append("rename"), real_rename(old, new)))
    write(target, x="new")
    first = events.index("rename")
    assert {"x", "manifest.json"} < set(events[:first])
    assert any(name.endswith(".part") for name in events[:first])
    assert events[first:] == ["rename", "rename", target.parent.name]
    events.clear()
    with atomic_file(target.parent / "a.txt") as temporary:
        temporary.write_text("x")
    assert events == [temporary.name, target.parent.name]


def test_where_folders_cannot_be_opened_and_nothing_locked_writing_works(tmp_path, monkeypatch):
    """Windows opens no folders, so it can neither sync nor lock them."""
    real = os.open

    def opened(path, flags, *more, **options):
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *more, **options)

    monkeypatch.setattr("monocal.core.files.fcntl", None)
    monkeypatch.setattr(os, "open", opened)
    for text in ("1", "2"):
        write(tmp_path / "m", x=text)
        with atomic_file(tmp_path / "a.txt") as temporary:
            temporary.write_text(text)
    monkeypatch.undo()
    assert KIND.read_file(tmp_path / "m", KIND.read(tmp_path / "m"), "x") == b"2"
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "m"]
