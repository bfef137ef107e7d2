"""The service's secret: who may change what it serves and what its operator sees."""

from __future__ import annotations

import hmac

from starlette.requests import Request as HttpRequest

from monocal.serving.http.refusals import NO_TOKEN, NOT_ALLOWED, Refusal


def check_admin_token(http: HttpRequest, token: str | None) -> None:
    """Refuses a call without the token, and every call if the service has none."""
    if token is None:
        raise Refusal(NOT_ALLOWED, "admin calls are switched off. Hint: start the service with a token.")
    check_token(http, token)


def check_token(http: HttpRequest, token: str) -> None:
    """Refuses a call without the token; comparing takes the same time whatever was sent."""
    scheme, _, sent = http.headers.get("authorization", "").partition(" ")
    is_right = hmac.compare_digest(sent.encode("utf-8", "replace"), token.encode())
    if scheme.lower() != "bearer" or not is_right:
        raise Refusal(
            NO_TOKEN,
            "authorization: wanted the service's token. Hint: send it as 'Bearer <token>'.",
            {"www-authenticate": "Bearer"},
        )
