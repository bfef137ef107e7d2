"""Places that are named by a URI."""

from __future__ import annotations

import re
from typing import TypeGuard

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")


def is_uri(place: object) -> TypeGuard[str]:
    """Whether a place is named by a URI such as `s3://bucket/model` rather than a path.

    Example:
        >>> is_uri("hdfs:///models/ctr"), is_uri("models/ctr")
        (True, False)
    """
    return isinstance(place, str) and _SCHEME.match(place) is not None
