"""What all calls share: the service behind them, and an answer with what is left to do after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.background import BackgroundTask
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from monocal.serving.engine import Answer, Request
from monocal.serving.runtime.service import Service

JSON = "application/json"


def service_of(http: HttpRequest) -> Service:
    """Returns the service that a request reached."""
    service: Service = http.app.state.service
    return service


def json_response(value: Mapping[str, Any]) -> Response:
    """Answers with a JSON object; numpy columns become lists of numbers that read back to the last bit."""
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)


def counted(http: HttpRequest, response: Response, request: Request, answer: Answer) -> Response:
    """Counts an answered request, and lets the shadow model score it once the answer has gone out."""
    http.scope["monocal_rows"] = answer.n_rows
    after = service_of(http).after_answer(request, answer)
    response.background = None if after is None else BackgroundTask(after)
    return response
