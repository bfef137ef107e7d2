import pytest

from monocal.core.files import atomic_file, atomic_folder


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_folder_leaves_the_old_one_and_nothing_else(tmp_path):
    target = tmp_path / "m"
    with atomic_folder(target) as temporary:
        (temporary / "x").write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_folder(target) as temporary:
        (temporary / "x").write_text("half")
        raise KeyboardInterrupt
    assert (target / "x").read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_replaces_an_older_one_whole(tmp_path):
    target = tmp_path / "m"
    for name in ("a", "b"):
        with atomic_folder(target) as temporary:
            (temporary / name).write_text(name)
    assert [path.name for path in target.iterdir()] == ["b"]
    assert list(tmp_path.iterdir()) == [target]
