"""What a package index shows: links that lead somewhere."""

import runpy
from pathlib import Path

import monocal

ROOT = Path(__file__).parents[3]
absolute_links = runpy.run_path(str(ROOT / "deploy" / "release.py"))["absolute_links"]


def test_no_link_of_the_readme_is_relative_on_an_index_page():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = absolute_links(readme, "https://example.org/team/monocal/blob/v1")
    assert "](docs/" in readme
    assert "](docs/" not in shown
    assert "](https://example.org/team/monocal/blob/v1/docs/" in shown
    assert "![" not in absolute_links(readme, None)


def test_every_file_that_the_readme_links_is_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = runpy.run_path(str(ROOT / "deploy" / "release.py"))["RELATIVE"].finditer(readme)
    places = [found["path"].partition("#")[0] for found in links]
    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_the_release_reads_the_version_that_the_package_says():
    release = runpy.run_path(str(ROOT / "deploy" / "release.py"))
    assert release["version_of"](ROOT) == monocal.__version__
