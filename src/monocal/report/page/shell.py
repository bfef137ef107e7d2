"""The frame of every page: styles, script, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from monocal.core.version import __version__
from monocal.report.page.elements import text


def page(title: str, subtitle: str, summary: str, body: str) -> str:
    """Returns one HTML document.

    Arguments:
        title: Its heading.
        subtitle: The line below.
        summary: What a list of files shows of it.
        body: Ready HTML.
    """
    style, script = _style(), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="description" content="{text(summary)}">\n'
        f'<meta name="generator" content="monocal {text(__version__)}">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<div class="wrap"><header class="page"><div><h1>{text(title)}</h1>'
        f'<div class="sub">{text(subtitle)}</div></div>'
        f'<button type="button" id="theme" class="js">Dark</button></header>\n'
        f"{body}"
        f"<footer>Written by monocal {text(__version__)}. This file loads nothing from the network.</footer></div>\n"
        f'<div id="tip" role="status" aria-live="polite"></div>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _style() -> str:
    dark = _asset("dark.css")
    both = (
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {{\n{dark}}} }}\n"
        f':root[data-theme="dark"] {{\n{dark}}}\n'
    )
    return _asset("page.css").replace("/*dark*/\n", f"@media screen {{\n{both}}}\n")


def _asset(name: str) -> str:
    return resources.files("monocal.report.page").joinpath(name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
