"""The reference page of the command line, written from the commands themselves.

`python -m monocal.cli.reference > docs/cli.md` writes it anew.
"""

from __future__ import annotations

import sys
from typing import Any

import typer

from monocal.cli.exits import MEANINGS
from monocal.cli.main import app

_OPENING = """\
# Command line

Every verb is one arrow of the data's way, thin over one library function. Results go to standard output, remarks and
progress bars to standard error; bars are shown on a terminal only. `--json` prints one JSON document instead of tables.
Tables are Parquet or CSV: a file, a folder, or a quoted glob.

The shortest useful session:

```sh
monocal fit log.parquet --score pctr --label click --fields site_id,app_id --method umc --out model/
monocal apply model/ new.parquet --out scored.parquet
monocal report model/ test.parquet --out report.html
```

`monocal --install-completion` sets up your shell to complete verbs, options, methods and metrics.
"""


def reference_page() -> str:
    """Returns the page as Markdown."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="monocal")
    codes = ["## Exit codes", "", "| code | meaning |", "| --- | --- |"]
    codes += [f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()]
    laboratory = group.commands["lab"]
    verbs = [_verb(name, command, context) for name, command in group.commands.items() if command is not laboratory]
    verbs += [f"## monocal lab\n\n{laboratory.help}\n"]
    inside = typer.Context(laboratory, info_name="lab", parent=context)
    verbs += [_verb(name, command, inside) for name, command in laboratory.commands.items()]
    return "\n".join([_OPENING, *verbs, *codes, ""])


def _verb(name: str, command: Any, parent: typer.Context) -> str:
    context = typer.Context(command, info_name=name, parent=parent)
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    examples = command.epilog.split("Examples:\n", 1)[1]
    lines = [f"## {context.command_path}", ""]
    for paragraph in paragraphs:
        lines += [paragraph, ""]
    lines += ["```sh", *(line.strip() for line in examples.splitlines()), "```", ""]
    lines += ["| argument or option | meaning |", "| --- | --- |"]
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            lines.append(f"| `{_cell(record[0])}` | {_cell(record[1])} |")
    return "\n".join([*lines, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference_page())
