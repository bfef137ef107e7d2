"""What was written has left the caches of the system before it takes its place."""

import os

import pytest

from monocal.core.files import atomic_file
from monocal.core.folders import atomic_folder


@pytest.fixture
def synced(monkeypatch):
    """The files and folders that were handed to fsync while they had their full size."""
    seen = {}

    def fsync(descriptor):
        facts = os.fstat(descriptor)
        seen[facts.st_ino] = facts.st_size

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def test_a_file_and_its_folder_are_synced(tmp_path, synced):
    target = tmp_path / "a.txt"
    with atomic_file(target) as temporary:
        temporary.write_text("whole")
    assert synced[target.stat().st_ino] == len("whole")
    assert tmp_path.stat().st_ino in synced


def test_every_file_of_a_folder_and_the_folders_are_synced(tmp_path, synced):
    target = tmp_path / "model"
    with atomic_folder(target, lambda folder: frozenset()) as temporary:
        (temporary / "a").write_text("one")
        (temporary / "deeper").mkdir()
        (temporary / "deeper" / "b").write_text("another")
    assert synced[(target / "a").stat().st_ino] == len("one")
    assert synced[(target / "deeper" / "b").stat().st_ino] == len("another")
    assert tmp_path.stat().st_ino in synced
