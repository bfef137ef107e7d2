"""The command line's reference page is what the commands say."""

from pathlib import Path

from monocal.cli.reference import reference_page

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == reference_page(), "run python -m monocal.cli.reference > docs/cli.md"
