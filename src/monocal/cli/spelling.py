"""Errors of the library in the words of the command line: options instead of arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

OPTIONS: dict[str, str | tuple[str, ...]] = {
    "arguments": "--set",
    "by": "--by",
    "column": "--column",
    "cuts": "--cut",
    "event_time": "--event-time",
    "every": "--every",
    "false_alarm_rate": "--false-alarm-rate",
    "fields": "--fields",
    "fit_on": "--fit-on",
    "group": "--group",
    "hashed_fields": "--hash",
    "history": "--history",
    "holdout": "--holdout",
    "html": "--html",
    "inputs": "--inputs",
    "interval": "--interval",
    "label": "--label",
    "label_time": "--label-time",
    "loss": "--loss",
    "margin": "--margin",
    "max_drift": "--max-drift",
    "max_harm": "--max-harm",
    "max_size": "--max-size",
    "max_unseen": "--max-unseen",
    "method": ("--method", "--methods"),
    "methods": "--methods",
    "metric": "--metric",
    "metrics": "--metrics",
    "min_count": "--min-count",
    "n_nodes": "--nodes",
    "n_shards": "--shards",
    "n_threads": "--threads",
    "negative_rate": "--negative-rate",
    "numeric": "--numeric",
    "on_error": "--on-error",
    "out": "--out",
    "reference": "--reference",
    "registry": "--registry",
    "sampling_rate": "--sampling-rate",
    "score": "--score",
    "scores_are": "--logits",
    "seed": "--seed",
    "shares": "--part",
    "since": "--since",
    "soft_labels": "--soft-labels",
    "state": "--state",
    "task": "--task",
    "tasks": ("--task", "--tasks"),
    "time": "--time",
    "title": "--title",
    "tolerance": "--tolerance",
    "until": "--until",
    "value": "--value",
    "weight": "--weight",
    "window": "--window",
    "workers": "--workers",
    "world": "--world",
}
"""Argument of a library function to the option that stands for it; of several the one that a verb has."""

METHOD_ARGUMENTS = ("carry", "guard", "l2", "recent_share", "variant")
"""Arguments of methods that messages advise to set."""

_CARRY = re.compile(r"\bcarry=(\{[^}]*\})")
_NAMES = "|".join(OPTIONS)
_LONG_NAMES = "|".join(name for name in OPTIONS if "_" in name)
_SETTING = re.compile(rf'(?<![\w-])({_NAMES})=(?:"([^"]*)"|(\w[\w.]*)|(?![\w"{{]))')
_METHOD_SETTING = re.compile(rf'(?<![\w-])({"|".join(METHOD_ARGUMENTS)})=(?:"([^"]*)"|([\w.]+))')
_OF_THE_FIT = re.compile(rf"(?<![\w-])({_NAMES})= of the fit\b")
_BUCKETS = re.compile(r"hashed_fields=\{'([^']+)': ([\d_]+)\}")


def carry_as_option(text: str, method: str = "") -> str:
    """Returns a text in which a wish about what to carry forward is an option of the command line.

    Arguments:
        text: What the library says.
        method: Whose option it is, for verbs that take several methods.

    Example:
        >>> print(carry_as_option('carry={"hour": 1.0} keeps it', "umc"))
        --set 'umc.carry={"hour": 1.0}' keeps it
    """
    prefix = f"{method}." if method else ""
    return _CARRY.sub(lambda found: f"--set '{prefix}carry={found[1]}'", text)


def _choices(name: str) -> Sequence[str]:
    known = OPTIONS.get(name, ())
    return [known] if isinstance(known, str) else known


def in_options(message: str, offered: Collection[str] | None = None, settings: Collection[str] = ()) -> str:
    """Returns a message with the names of arguments turned into options.

    An argument is recognised before "got", as `name=` anywhere, and by a name of several words in advice. What stands
    elsewhere may be a column of the caller's.

    Arguments:
        message: An error or a warning of the library.
        offered: The options of the verb that was called; an argument for which it has none keeps its name. None
            stands for all.
        settings: Names that the caller gave with --set.

    Example:
        >>> in_options('score: got None; expected the name of the score column. Hint: pass score="…".')
        '--score: got nothing; expected the name of the score column. Hint: pass --score ….'
        >>> in_options('scores: got 3; expected probabilities. Hint: pass scores_are="logit" if these are logits.')
        'scores: got 3; expected probabilities. Hint: pass --logits if these are logits.'
        >>> in_options("task: got 'clck'; expected one of click, buy. Hint: did you mean 'click'?", {"--task"})
        "--task: got 'clck'; expected one of click, buy. Hint: did you mean 'click'?"
        >>> in_options("l2: got -1; expected a number ≥ 0. Hint: leave l2 out.", settings={"l2"})
        '--set l2: got -1; expected a number ≥ 0. Hint: leave l2 out.'
    """

    def is_offered(choice: str) -> bool:
        return offered is None or choice in offered

    def option(name: str) -> str:
        return next((choice for choice in _choices(name) if is_offered(choice)), name)

    def setting(found: re.Match[str]) -> str:
        value = found[2] or found[3]
        spelled = option(found[1])
        if spelled == found[1]:
            return found[0]
        return f"{spelled} {value}" if value else spelled

    def head(found: re.Match[str]) -> str:
        named = re.sub(r"\w+(?=,|$)", lambda name: option(name[0]), found[0])
        return f"--set {found[0]}" if found[0] in settings else named

    message = carry_as_option(message).replace(": got None;", ": got nothing;")
    message = re.sub(
        r"^output (file|folder)(?=: got )", lambda place: "--out" if is_offered("--out") else place[0], message
    )
    message = _OF_THE_FIT.sub(lambda found: f"{_choices(found[1])[0]} of monocal fit", message)
    message = message.replace('scores_are="logit"', "--logits").replace("soft_labels=True", "--soft-labels")
    message = message.replace("a Roles with the table", "--label and --fields")
    message = _BUCKETS.sub(lambda found: f"--hash {found[1]}={found[2].replace('_', '')}", message)
    message = _METHOD_SETTING.sub(lambda found: f"--set {found[1]}={found[2] or found[3]}", message)
    message = _SETTING.sub(setting, message)
    message = re.sub(r"^argument of '(\w+)'(?=: got)", r"--set of \1", message)
    # an argument, several of them, or a part of one
    message = re.sub(r"^(\w+, )*(\w+ of )?\w+(?=: got )", head, message)
    body, advised, hint = message.partition("Hint: ")
    return body + advised + re.sub(rf"(?<![\w'\"-])({_LONG_NAMES})(?![\w'\"=])", lambda name: option(name[0]), hint)
