"""The natural form: scores and fields in, probabilities out."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from monocal.serving.http.answering import counted, json_response, service_of
from monocal.serving.http.calibrate_bodies import calibrate_request
from monocal.serving.http.feedback_bodies import feedback_of
from monocal.serving.http.json_bodies import parse_object
from monocal.serving.http.refusals import TOO_MANY, Refusal
from monocal.serving.http.token import check_token

CALIBRATE, FEEDBACK = "/v1/calibrate", "/v1/feedback"


async def calibrate(http: HttpRequest) -> Response:
    """Answers `{"scores": {task: [...]}, "shared": {field: value}, "fields": {field: [...]}}`."""
    service = service_of(http)
    engine = service.engine
    request = calibrate_request(parse_object(await http.body()), service.settings.max_rows, engine)
    answer = service.calibrate(request, engine)
    said: dict[str, Any] = {
        "model": service.settings.name,
        "version": answer.version,
        "probabilities": answer.probabilities,
    }
    if request.interval is not None:
        said |= answer.ends(request.interval)
    if answer.fused is not None:
        said["fused"] = answer.fused
    return counted(http, json_response(said), request, answer)


async def feedback(http: HttpRequest) -> Response:
    """Takes labels together with the probabilities that were answered, for the running PCOC.

    Nothing is remembered about single answers, so the caller sends both; rows with a null label are skipped. Labels
    change what the operator sees, so a service with a token asks for it, and one without takes them at a bounded rate.
    """
    service = service_of(http)
    if service.settings.token is not None:
        check_token(http, service.settings.token)
    found = feedback_of(parse_object(await http.body()), service.settings.max_rows, service.engine.task_names)
    n_rows = {task: int(labels.size) for task, (_, labels) in found.items()}
    if service.settings.token is None and not service.feedback_rate.take(sum(n_rows.values())):
        raise Refusal(
            TOO_MANY,
            f"feedback without a token: got more than {service.settings.feedback_rows_per_second} labels per second; "
            "wanted at most that. Hint: send fewer at a time, or start the service with a token.",
            {"retry-after": "1"},
        )
    for task, (probabilities, labels) in found.items():
        service.metrics.observe_feedback(task, probabilities, labels)
    return json_response({"counted": n_rows})


def routes() -> list[Route]:
    return [Route(CALIBRATE, calibrate, methods=["POST"]), Route(FEEDBACK, feedback, methods=["POST"])]
