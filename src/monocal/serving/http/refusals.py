"""Answers other than 200: a status, and a body that says what was wrong and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import orjson
from starlette.responses import Response

from monocal.core.errors import InvalidInput

MALFORMED, NO_TOKEN, NOT_ALLOWED, NOT_FOUND, WRONG_METHOD, TOO_SLOW, CONFLICT = 400, 401, 403, 404, 405, 408, 409
TOO_LARGE, WRONG_ENCODING, UNUSABLE, TOO_MANY, HEADERS_TOO_LARGE, OUR_FAULT = 413, 415, 422, 429, 431, 500

CLOSE = {"connection": "close"}
"""Sent with a refusal that leaves a body unread: reading on would be the work we refuse."""

KINDS = {
    MALFORMED: "malformed",
    NO_TOKEN: "no token",
    NOT_ALLOWED: "not allowed",
    NOT_FOUND: "not found",
    WRONG_METHOD: "wrong method",
    TOO_SLOW: "too slow",
    CONFLICT: "conflict",
    TOO_LARGE: "too large",
    WRONG_ENCODING: "wrong encoding",
    UNUSABLE: "unusable",
    TOO_MANY: "too many requests",
    HEADERS_TOO_LARGE: "headers too large",
    OUR_FAULT: "internal error",
}


@final
class Refusal(Exception):
    """A request that is answered with a status of class 4xx.

    Arguments:
        status: The HTTP status.
        message: For the client: what was got, what was expected, a hint.
        headers: Further response headers.
        facts: Further members of the body.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.facts = dict(facts or {})

    def response(self) -> Response:
        return refusal_response(self.status, str(self), self.headers, self.facts)


def refusal_response(
    status: int, message: str, headers: Mapping[str, str] | None = None, facts: Mapping[str, Any] | None = None
) -> Response:
    """Returns `{"error": message, "kind": kind}` with a status.

    Example:
        >>> refusal_response(404, "there is no such path").body
        b'{"error":"there is no such path","kind":"not found"}'
    """
    body = {"error": message, "kind": KINDS.get(status, "refused"), **(facts or {})}
    # a lone surrogate in a client's text cannot be written as UTF-8, and must not turn a refusal into a failure
    try:
        content = orjson.dumps(body)
    except TypeError:
        content = orjson.dumps({**body, "error": message.encode("utf-8", "replace").decode()})
    return Response(content, status, headers, media_type="application/json")


def unusable(error: InvalidInput) -> Refusal:
    """Turns what the library says about bad input into a 422."""
    return Refusal(UNUSABLE, str(error))
