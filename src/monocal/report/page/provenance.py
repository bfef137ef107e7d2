"""Fingerprints, and how to do it again."""

from __future__ import annotations

from monocal.findings.provenance import Provenance
from monocal.report.page.elements import section, text


def provenance(found: Provenance, identifier: str) -> str:
    """The last section."""
    facts = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in found.facts)
    return section(
        identifier,
        "Provenance",
        "Equal fingerprints mean equal contents; the same model, rows and seed give the same page again.",
        f'<dl class="plain">{facts}</dl>',
        f'<pre tabindex="0" aria-label="How to reproduce"><code>{text(found.reproduce)}</code></pre>',
    )
