"""The OpenAPI document as a page for people: one file, no script, nothing loaded from elsewhere."""

from __future__ import annotations

import json
from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing."""

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
    "h2{font:600 15px ui-monospace,monospace;margin:1.6rem 0 .2rem}h2 b{color:#0a5}"
    "pre{background:#f4f6f8;padding:.7rem;overflow:auto;font-size:13px}summary{cursor:pointer;color:#456}"
)


def docs_page(document: dict[str, Any]) -> str:
    """Returns the page of an OpenAPI document: every call with its summary, its body, its answers and an example.

    Example:
        >>> call = {"summary": "Calibrate", "responses": {"200": {"description": "The answer"}}}
        >>> page = docs_page({"info": {"title": "monocal", "version": "1"}, "paths": {"/v1/calibrate": {"post": call}}})
        >>> "<b>POST</b> /v1/calibrate" in page, "<script" in page
        (True, False)
    """
    info = document["info"]
    title = escape(f"{info['title']} {info['version']}")
    calls = "".join(
        _call(path, method, call) for path, methods in document["paths"].items() for method, call in methods.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"</head><body><h1>{title}</h1><p>{escape(info.get('summary', ''))}</p>"
        f'<p>For machines: <a href="openapi.json">openapi.json</a></p>{calls}</body></html>'
    )


def _call(path: str, method: str, call: dict[str, Any]) -> str:
    needs = " Needs the token." if "security" in call else ""
    parts = [f"<h2><b>{method.upper()}</b> {escape(path)}</h2><p>{escape(call['summary'])}.{needs}</p>"]
    for kind, content in call.get("requestBody", {}).get("content", {}).items():
        schema = dict(content["schema"])
        example = schema.pop("example", None)
        if example is not None:
            parts.append(f"<pre>curl HOST{escape(path)} -d '{escape(json.dumps(example))}'</pre>")
        parts.append(_folded(f"Body ({kind})", schema))
    parts.append(_folded("Answers", {status: said["description"] for status, said in call["responses"].items()}))
    return "".join(parts)


def _folded(title: str, value: Any) -> str:
    text = escape(json.dumps(value, indent=1, ensure_ascii=False))
    return f"<details><summary>{escape(title)}</summary><pre>{text}</pre></details>"
