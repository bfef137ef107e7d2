"""Builds the sdist and the wheel as a package index should show them; run from the project's root.

    python deploy/release.py --out dist --repository https://example.org/team/monocal

On an index page a relative link leads nowhere. Links of the README become those of the tagged version in the
repository, and the project's URLs are filled in; without --repository links become plain text and there are no URLs.
Only committed files are built.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

RELATIVE = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?!https?://|#)[^)]+)\)")


def absolute_links(readme: str, files: str | None) -> str:
    """Returns a README whose links start at `files`; without it their texts alone, and no pictures.

    Example:
        >>> absolute_links("see [speed](docs/how_fast.md) and ![a page](docs/page.png)", None)
        'see speed and '
        >>> absolute_links("see [speed](docs/how_fast.md)", "https://example.org/m/blob/v1")
        'see [speed](https://example.org/m/blob/v1/docs/how_fast.md)'
    """

    def replaced(found: re.Match[str]) -> str:
        if files is None:
            return "" if found["image"] else found["text"]
        place = files.replace("/blob/", "/raw/") if found["image"] else files
        return f"{found['image']}[{found['text']}]({place}/{found['path']})"

    return RELATIVE.sub(replaced, readme)


def build(out: Path, repository: str | None) -> None:
    """Builds the committed tree into `out`."""
    archive = subprocess.run(["git", "archive", "HEAD"], check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        with tarfile.open(fileobj=BytesIO(archive)) as tree:
            tree.extractall(root, filter="data")
        version = version_of(root)
        readme, project = root / "README.md", root / "pyproject.toml"
        files = None if repository is None else f"{repository}/blob/v{version}"
        readme.write_text(absolute_links(readme.read_text(encoding="utf-8"), files), encoding="utf-8")
        if repository is not None:
            urls = {"Source": repository, "Issues": f"{repository}/issues"}
            urls |= {"Documentation": f"{files}/docs/index.md", "Changelog": f"{files}/CHANGELOG.md"}
            lines = ["[project.urls]", *(f'{name} = "{url}"' for name, url in urls.items()), "", "[project.scripts]"]
            project.write_text(project.read_text().replace("[project.scripts]", "\n".join(lines)), encoding="utf-8")
        subprocess.run([sys.executable, "-m", "build", "--outdir", str(out.resolve()), str(root)], check=True)


def version_of(root: Path) -> str:
    """Returns what the package says of itself in `monocal.__version__`."""
    found = re.search(r'__version__ = "(.+)"', (root / "src/monocal/core/__init__.py").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--repository", help="where the repository can be seen, without a slash at the end")
    given = parser.parse_args()
    build(given.out, given.repository)


if __name__ == "__main__":
    main()
