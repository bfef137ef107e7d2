"""Errors of the library in the words of the command line: options instead of arguments."""

from __future__ import annotations

import re

OPTIONS = {
    "column": "--column",
    "cuts": "--cut",
    "event_time": "--event-time",
    "fields": "--fields",
    "fit_on": "--fit-on",
    "group": "--group",
    "hashed_fields": "--hash",
    "holdout": "--holdout",
    "keep_order_within": "--keep-order-within",
    "interval": "--interval",
    "label": "--label",
    "label_time": "--label-time",
    "margin": "--margin",
    "max_size": "--max-size",
    "method": "--method",
    "methods": "--methods",
    "metric": "--metric",
    "metrics": "--metrics",
    "min_count": "--min-count",
    "n_threads": "--threads",
    "numeric": "--numeric",
    "on_error": "--on-error",
    "parents": "--parent",
    "product": "--product",
    "sampling_rate": "--sampling-rate",
    "score": "--score",
    "selected": "--selected",
    "shares": "--part",
    "since": "--since",
    "soft_labels": "--soft-labels",
    "tasks": "--task",
    "time": "--time",
    "top_k": "--top-k",
    "until": "--until",
    "value": "--value",
    "weight": "--weight",
    "window": "--window",
    "winners": "--winners",
}
"""Argument of a library function to the option that stands for it."""

_NAMES = "|".join(OPTIONS)
_SETTING = re.compile(rf'\b({_NAMES})=(?:"([^"]*)"|([\w.]+))')


def in_options(message: str) -> str:
    """Returns a message with the names of arguments turned into options.

    Example:
        >>> in_options('score: got None; wanted the name of the score column. Way out: pass score="…".')
        '--score: got None; wanted the name of the score column. Way out: pass --score ….'
        >>> in_options('scores: got 3; wanted probabilities. Way out: pass scores_are="logit" if these are logits.')
        'scores: got 3; wanted probabilities. Way out: pass --logits if these are logits.'
    """
    message = message.replace('scores_are="logit"', "--logits").replace("soft_labels=True", "--soft-labels")
    message = message.replace("a Roles with the table", "--label and --fields")
    message = _SETTING.sub(lambda found: f"{OPTIONS[found[1]]} {found[2] or found[3]}", message)
    message = re.sub(rf"^({_NAMES})(?=: got)", lambda found: OPTIONS[found[1]], message)
    return re.sub(r"^argument of '(\w+)'(?=: got)", r"--set of \1", message)
