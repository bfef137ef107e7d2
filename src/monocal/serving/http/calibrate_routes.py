"""The natural form: scores and fields in, probabilities out."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from monocal.core.errors import UnknownName
from monocal.serving.http.answering import counted, json_response, service_of
from monocal.serving.http.calibrate_bodies import calibrate_request, feedback_of, parse_object

CALIBRATE, FEEDBACK = "/v1/calibrate", "/v1/feedback"


async def calibrate(http: HttpRequest) -> Response:
    """Answers `{"scores": {task: [...]}, "shared": {field: value}, "fields": {field: [...]}}`."""
    service = service_of(http)
    request = calibrate_request(parse_object(await http.body()), service.settings.max_rows)
    answer = service.calibrate(request, service.engine)
    said: dict[str, Any] = {
        "model": service.settings.name,
        "version": answer.version,
        "probabilities": answer.probabilities,
    }
    if answer.fused is not None:
        said["fused"] = answer.fused
    return counted(http, json_response(said), request, answer)


async def feedback(http: HttpRequest) -> Response:
    """Takes labels together with the probabilities that were answered, for the running PCOC.

    Nothing is remembered about single answers, so the caller sends both; rows with a null label are skipped.
    """
    service = service_of(http)
    found = feedback_of(parse_object(await http.body()), service.settings.max_rows)
    for task in found:
        if task not in service.engine.task_names:
            raise UnknownName.among("task", task, service.engine.task_names)
    for task, (probabilities, labels) in found.items():
        service.metrics.observe_feedback(task, probabilities, labels)
    return json_response({"counted": {task: int(labels.size) for task, (_, labels) in found.items()}})


def routes() -> list[Route]:
    return [Route(CALIBRATE, calibrate, methods=["POST"]), Route(FEEDBACK, feedback, methods=["POST"])]
