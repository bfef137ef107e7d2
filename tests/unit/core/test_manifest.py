"""The checked folder: what is noticed, what is left to the reader, what a refusal names."""

import os

import pytest

from monocal.core.errors import ArtefactError, InvalidInput
from monocal.core.files import atomic_file
from monocal.core.manifest import FolderFormat, _is_safe

KIND = FolderFormat("monocal test", 1, "manifest.json", called="a test", remedy="write it again")
OTHER = FolderFormat("monocal other", 1, "manifest.json", called="another", remedy="write it again")


@pytest.fixture
def folder(tmp_path):
    """One file, and one in a folder below."""
    with KIND.writing(tmp_path / "m") as temporary:
        (temporary / "x").write_text("one")
        (temporary / "below").mkdir()
        (temporary / "below" / "y").write_text("two")
        KIND.seal(temporary, {})
    return tmp_path / "m"


def test_a_changed_byte_in_a_file_of_the_same_size_is_noticed(folder):
    manifest = KIND.read(folder)
    KIND.verify(folder, manifest)
    (folder / "x").write_text("onE")
    KIND.verify(folder, manifest, contents=False)
    with pytest.raises(ArtefactError, match="do not match the manifest's fingerprint"):
        KIND.verify(folder, manifest)


def test_a_copy_leaves_out_what_is_missing_and_its_reader_says_so(folder, tmp_path):
    (folder / "x").unlink()
    copy = tmp_path / "copy"
    copy.mkdir()
    manifest = KIND.copy(folder, copy)
    assert (copy / "below" / "y").read_text() == "two"
    with pytest.raises(ArtefactError, match="x: missing; nothing was loaded"):
        KIND.read_file(copy, manifest, "x")


def test_a_folder_of_its_kind_is_removed_whole_and_no_other(folder):
    with pytest.raises(InvalidInput):
        OTHER.remove(folder)
    (folder / "notes.md").touch()
    with pytest.raises(InvalidInput, match=r"notes\.md"):
        KIND.remove(folder)
    assert len(list(folder.iterdir())) == 4
    (folder / "notes.md").unlink()
    KIND.remove(folder)
    assert not folder.exists()


def test_a_refusal_names_the_kind_of_another_writer_s_folder_and_only_of_that(folder):
    with pytest.raises(InvalidInput, match=r"x \(a monocal test\); expected"):
        OTHER.check_target(folder)
    (folder / "notes.md").touch()
    with pytest.raises(InvalidInput, match=r"which holds notes\.md; expected"):
        KIND.check_target(folder)
    (folder / "manifest.json").write_text('{"format": "somebody else\'s"}')
    with pytest.raises(InvalidInput, match="x; expected"):
        OTHER.check_target(folder)


def test_a_replaced_folder_goes_with_the_folders_below_it(folder):
    with KIND.writing(folder) as temporary:
        KIND.seal(temporary, {})
    assert os.listdir(folder) == ["manifest.json"]
    assert os.listdir(folder.parent) == ["m"]


def test_a_writer_gives_back_every_lock_it_took(folder):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with KIND.writing(folder) as temporary:
            KIND.seal(temporary, {})
        with atomic_file(folder.parent / "a.txt") as path:
            path.write_text("x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_may_go_into_a_folder_that_is_not_there_yet(tmp_path):
    with atomic_file(tmp_path / "new" / "newer" / "a.txt") as path:
        path.write_text("x")
    assert (tmp_path / "new" / "newer" / "a.txt").read_text() == "x"


@pytest.mark.parametrize(("n_foreign", "ends"), [(5, "note4"), (6, "note4 and 1 more")])
def test_a_refusal_shows_five_foreign_files_and_counts_the_rest(folder, n_foreign, ends):
    for number in range(n_foreign):
        (folder / f"note{number}").touch()
    with pytest.raises(InvalidInput) as refusal:
        KIND.check_target(folder)
    shown = str(refusal.value)
    assert ends in shown
    assert ("more" in shown) == (n_foreign > 5)


@pytest.mark.parametrize("name", ["", "/etc/x", "a/../x", "a\\x", "a\0x", "./x", "a//x", 7, None])
def test_names_that_could_leave_the_folder_are_not_safe(name):
    assert not _is_safe(name)
    assert _is_safe("below/y")


def test_a_foreign_file_that_comes_while_a_writer_works_is_refused_and_stays(folder):
    with pytest.raises(InvalidInput, match="note"), KIND.writing(folder) as temporary:
        (temporary / "x").write_text("new")
        KIND.seal(temporary, {})
        (folder / "note").write_text("mine")
    assert (folder / "x").read_text() == "one"
    assert (folder / "note").read_text() == "mine"
