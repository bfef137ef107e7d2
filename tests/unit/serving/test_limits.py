"""What happens around the application, whatever happens inside."""

import asyncio
import json
from pathlib import Path

from monocal.serving.limits import Limits
from monocal.serving.settings import Settings


def call(app, body=b"", headers=(), chunks=None):
    """Runs one request through the middleware; returns status and body."""
    return asyncio.run(acall(app, body, headers, chunks))


def scope_of(path, headers=()):
    raw = path.encode()
    return {"type": "http", "method": "POST", "path": path, "raw_path": raw, "query_string": b"", "headers": headers}


async def acall(app, body=b"", headers=(), chunks=None, path="/x"):
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in (chunks or [])]
    messages.append({"type": "http.request", "body": body, "more_body": False})
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    await app(scope_of(path, headers), receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"fine"})


def limited(app, **changes):
    return Limits(app, Settings(Path("model"), **changes))


def test_an_unexpected_error_becomes_a_worded_500_that_gives_nothing_away(caplog):
    async def broken(scope, receive, send):
        raise KeyError("a feature value")

    status, body = call(limited(broken))
    assert status == 500
    assert list(json.loads(body)) == ["error"]
    assert b"a feature value" not in body


def test_an_error_after_the_answer_began_does_not_begin_another():
    async def broken(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError("late")

    assert call(limited(broken))[0] == 200


def test_of_a_burst_the_first_are_served_and_the_rest_refused():
    app = limited(answer, max_in_flight=3)

    async def burst():
        return await asyncio.gather(*(acall(app) for _ in range(10)))

    statuses = [status for status, _ in asyncio.run(burst())]
    assert statuses == [200] * 3 + [429] * 7
    assert not app.in_hand


def test_a_request_whose_body_is_still_coming_takes_no_place():
    app = limited(answer, max_in_flight=1)

    async def run():
        never = asyncio.Event()

        async def stuck():
            await never.wait()

        waiting = [asyncio.ensure_future(app(scope_of("/x"), stuck, None)) for _ in range(5)]
        await asyncio.sleep(0.01)
        found = await acall(app)
        for pending in waiting:
            pending.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return found

    assert asyncio.run(run())[0] == 200
    assert (len(app.in_hand), app.n_body_bytes) == (0, 0)


def test_health_and_metrics_are_answered_when_all_places_are_taken():
    app = limited(answer, max_in_flight=1)
    app.in_hand.add(1)
    assert call(app)[0] == 429
    for path in ("/healthz", "/metrics"):
        assert asyncio.run(acall(app, path=path))[0] == 200


def test_large_bodies_share_a_bound_and_small_ones_pass_beside_them():
    app = limited(answer, max_bytes_in_hand=300_000)

    async def run():
        half = asyncio.Event()

        async def large():
            if half.is_set():
                await asyncio.Event().wait()
            half.set()
            return {"type": "http.request", "body": b"x" * 200_000, "more_body": True}

        waiting = asyncio.ensure_future(app(scope_of("/x"), large, None))
        await asyncio.sleep(0.01)
        assert app.n_body_bytes == 200_000
        found = [await acall(app, body=b"x" * 200_000), await acall(app, body=b"x" * 60_000)]
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return [*found, await acall(app, body=b"x" * 200_000)]

    refused, small, after = asyncio.run(run())
    assert (refused[0], small[0], after[0]) == (429, 200, 200)
    assert b"bodies in hand: got more than 300000 bytes" in refused[1]
    assert app.n_body_bytes == 0
