"""The page about the command line names every verb and exit code."""

from importlib import import_module
from pathlib import Path

from monocal.cli.exits import MEANINGS
from monocal.cli.main import HOMES, LABORATORY

PAGE = Path(__file__).parents[3] / "docs/cli.md"


def test_every_verb_and_exit_code_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    verbs = [name for name in HOMES if name != LABORATORY]
    verbs += [f"lab {name}" for name in import_module(HOMES[LABORATORY]).VERBS]
    for verb in verbs:
        assert f"| `monocal {verb}` | " in page
    for code, meaning in MEANINGS.items():
        assert f"| {code} | {meaning} |" in page
