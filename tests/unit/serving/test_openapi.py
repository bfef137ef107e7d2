"""The OpenAPI document says what the service does."""

from pathlib import Path

from monocal.serving import Settings, create_app
from monocal.serving.engine import Engine
from monocal.serving.http.app import OPENAPI
from monocal.serving.http.calibrate_bodies import CALIBRATE_MEMBERS
from monocal.serving.http.openapi import openapi


def test_every_route_is_described_and_nothing_else(model):
    settings = Settings(Path("model"))
    described = {
        (path, method.upper())
        for path, methods in openapi(settings, Engine(model))["paths"].items()
        for method in methods
    }
    served = {
        (route.path, method)
        for route in create_app(settings).routes
        for method in route.methods - {"HEAD"}
        if route.path != OPENAPI and "{version}" not in route.path
    }
    assert described == served


def test_every_member_of_a_request_is_described(model):
    document = openapi(Settings(Path("model"), max_rows=7), Engine(model))
    body = document["paths"]["/v1/calibrate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert tuple(body["properties"]) == CALIBRATE_MEMBERS
    assert body["properties"]["scores"]["properties"]["click"]["maxItems"] == 7
