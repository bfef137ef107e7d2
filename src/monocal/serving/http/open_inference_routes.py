"""The Open Inference Protocol, version 2, over HTTP: so that clients of other servers find their way."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.version import __version__
from monocal.serving.http.answering import counted, json_response, service_of
from monocal.serving.http.json_bodies import parse_object
from monocal.serving.http.open_inference_bodies import PLATFORM, metadata, outputs_of, request_of
from monocal.serving.http.open_inference_tensors import write_outputs
from monocal.serving.http.ports import HEALTH, LIVE, READY
from monocal.serving.http.refusals import MALFORMED, NOT_FOUND, Refusal
from monocal.serving.runtime.service import Service

SERVER, MODEL = "/v2", "/v2/models/{name}"

LONGEST_ID = 200
"""Characters of a request's id."""

HEADER_LENGTH = "Inference-Header-Content-Length"


async def infer(http: HttpRequest) -> Response:
    """Answers an inference request in the form it came: JSON, or JSON with binary data behind it."""
    service = service_of(http)
    name = _check_model(service, http)
    content = await http.body()
    head, raw = _cut(content, http.headers.get(HEADER_LENGTH))
    body = parse_object(head)
    identifier = _id_of(body)
    engine = service.engine
    request = request_of(body, raw, service.settings.max_rows, engine)
    answer = service.calibrate(request, engine)
    columns, as_binary = outputs_of(body, answer)
    described, raw_out = write_outputs(columns, as_binary)
    said: dict[str, Any] = {"model_name": name, "model_version": answer.version, "outputs": described}
    if identifier is not None:
        said["id"] = identifier
    response = json_response(said)
    if raw_out:
        headers = {HEADER_LENGTH: str(len(response.body))}
        response = Response(bytes(response.body) + raw_out, headers=headers, media_type="application/octet-stream")
    return counted(http, response, request, answer)


async def live(_http: HttpRequest) -> Response:
    return json_response({"live": True})


async def ready(http: HttpRequest) -> Response:
    return json_response({"ready": service_of(http).is_ready})


async def healthy(http: HttpRequest) -> Response:
    """Answers 200, or 503 while no model is loaded, for probes that read nothing but the status."""
    is_ready = service_of(http).is_ready
    response = json_response({"ready": is_ready})
    response.status_code = 200 if is_ready else 503
    return response


async def server_metadata(_http: HttpRequest) -> Response:
    return json_response({"name": PLATFORM, "version": __version__, "extensions": ["binary_tensor_data"]})


async def model_metadata(http: HttpRequest) -> Response:
    service = service_of(http)
    name = _check_model(service, http)
    return json_response(metadata(name, service.engine))


async def model_ready(http: HttpRequest) -> Response:
    service = service_of(http)
    return json_response({"name": _check_model(service, http), "ready": True})


def routes() -> list[Route]:
    found = [
        Route(SERVER, server_metadata),
        Route(LIVE, live),
        Route(READY, ready),
        Route(HEALTH, healthy),
    ]
    for start in (MODEL, f"{MODEL}/versions/{{version}}"):
        found += [
            Route(start, model_metadata),
            Route(f"{start}/ready", model_ready),
            Route(f"{start}/infer", infer, methods=["POST"]),
        ]
    return found


def _check_model(service: Service, http: HttpRequest) -> str:
    name = http.path_params["name"]
    if name != service.settings.name:
        raise Refusal(NOT_FOUND, str(UnknownName.among("model", name, [service.settings.name])))
    version = http.path_params.get("version")
    if version is not None and version != service.engine.version:
        raise Refusal(NOT_FOUND, str(UnknownName.among("version", version, [service.engine.version])))
    return service.settings.name


def _id_of(body: dict[str, Any]) -> str | None:
    identifier = body.get("id")
    if isinstance(identifier, str) and len(identifier) > LONGEST_ID:
        raise InvalidInput.of(
            "id", f"{len(identifier)} characters", f"at most {LONGEST_ID}, since the answer repeats it", "shorten it"
        )
    return identifier if isinstance(identifier, str) else None


def _cut(content: bytes, header: str | None) -> tuple[bytes, bytes]:
    if header is None:
        return content, b""
    if not header.isascii() or not header.isdigit() or len(header) > 12 or int(header) > len(content):
        raise Refusal(
            MALFORMED,
            f"{HEADER_LENGTH}: got {header[:20]!r}; expected the length of the JSON part, at most {len(content)} "
            "bytes. Hint: leave it out if there is no binary data.",
        )
    return content[: int(header)], content[int(header) :]
