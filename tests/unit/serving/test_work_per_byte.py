"""What a request costs grows with its bytes, whatever they are: no value, name, number or key makes a worker hang."""

import json
import time
from contextlib import suppress

import numpy as np
import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.serving.engine import Engine, Request
from monocal.serving.limits import Refusal
from monocal.serving.schemas import calibrate_request

N_BYTES = 1 << 22
TIMES_A_PLAIN_ONE = 40
"""A text that is hashed step by step in the interpreter takes two thousand times as long as a plain one."""


@pytest.fixture(scope="module")
def engine():
    rng = np.random.default_rng(0)
    n = 2_000
    log = {
        "p": rng.uniform(0.1, 0.3, n),
        "click": rng.integers(0, 2, n),
        "site": rng.choice(["news", "games"], n).tolist(),
        "device": [str(number) for number in rng.integers(0, 500, n)],
        "price": rng.uniform(1, 9, n),
    }
    found = Engine(
        monocal.fit(log, method="wide_logistic", score="p", label="click", fields=["site", "device"], numeric=["price"])
    )
    found.warm_up()
    return found


def natural(**changes):
    fields = {"site": ["news"], "device": ["7"], "price": [2.0]}
    return {"scores": {"click": [0.2]}, "fields": {**fields, **changes}}


def cut(text):
    """As many whole characters as fit into the bytes of the plain body, as JSON has them."""
    n_each = len(json.dumps(text)) - 2
    return text * (N_BYTES // n_each)


def bodies():
    plain = "z" * N_BYTES
    yield "plain", natural(device=[plain])
    yield "a NUL first", natural(device=["\0" + plain])
    yield "NULs", natural(device=[cut("\0")])
    yield "a NUL in every field", natural(device=["\0" + cut("z")[: N_BYTES // 2]], site=["\0" + "z" * (N_BYTES // 2)])
    yield "a number beside", natural(device=[plain], site=[7])
    yield "a null beside", natural(device=[plain], site=[None])
    yield "combining marks", natural(device=["e" + cut("\u0301")])
    yield "characters of four bytes", natural(device=["\0" + cut("\U0001f600")])
    yield "text for a number", natural(price=[plain])
    yield "a list for a value", natural(device=[[1] * (N_BYTES // 2)])
    yield "text of digits", natural(device=["1" * N_BYTES])
    yield (
        "a shared value",
        {"scores": {"click": [0.2]}, "shared": natural(device=1)["fields"] | {"device": "\0" + plain}},
    )
    yield "a field's name", natural(**{plain: ["a"]})
    yield "a field's name with NULs", natural(**{cut("\0"): ["a"]})
    yield "a member", {**natural(), plain: 1}
    yield "a task", {"scores": {plain: [0.2]}}
    yield "many short keys", natural(**{f"f{place}": 1 for place in range(N_BYTES // 12)})
    yield "digits of a score", b'{"scores": {"click": [0.' + b"1" * N_BYTES + b"]}}"
    yield "a huge integer", b'{"scores": {"click": [' + b"1" * N_BYTES + b"]}}"
    yield "a long exponent", b'{"scores": {"click": [1e' + b"1" * N_BYTES + b"]}}"
    yield (
        "half a character",
        b'{"scores": {"click": [0.2]}, "shared": {"site": "' + b"\\ud800" * (N_BYTES // 6) + b'"}}',
    )
    yield "lists in lists", b'{"scores": ' + b"[" * (N_BYTES // 2) + b"]" * (N_BYTES // 2) + b"}"


BODIES = {name: body if isinstance(body, bytes) else json.dumps(body).encode() for name, body in bodies()}


def answered(engine, body):
    """The CPU seconds from bytes to an answer or a refusal; the least of three."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        with suppress(InvalidInput, Refusal):
            engine.calibrate(calibrate_request(body, 10_000))
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("what", [name for name in BODIES if name != "plain"])
def test_a_body_costs_what_a_plain_one_of_its_length_does(engine, what):
    assert len(BODIES[what]) < 1.5 * len(BODIES["plain"])
    assert answered(engine, BODIES[what]) < TIMES_A_PLAIN_ONE * answered(engine, BODIES["plain"])


def test_half_characters_cost_what_plain_text_does(engine):
    """As a caller of the engine may hand over; a body cannot hold them."""

    def seconds(text):
        start = time.process_time()
        fields = {"site": "news", "device": text, "price": 2.0}
        engine.calibrate(Request({"click": [0.2]}, fields))
        return time.process_time() - start

    plain, half = "z" * N_BYTES, "\ud800" * (N_BYTES // 6)
    assert min(seconds(half) for _ in range(3)) < TIMES_A_PLAIN_ONE * min(seconds(plain) for _ in range(3))


def test_many_strange_values_of_moderate_length_cost_what_plain_ones_do(engine):
    """A thousand candidates whose values are as long as a category may be."""

    def body(text):
        n = 500
        fields = {"site": [text] * n, "device": [text] * n, "price": [1.0] * n}
        return json.dumps({"scores": {"click": [0.2] * n}, "fields": fields}).encode()

    strange = answered(engine, body("\0" + "z" * 4_000))
    assert strange < TIMES_A_PLAIN_ONE * answered(engine, body("z" * 4_006))


def test_one_short_request_with_a_zero_byte_costs_what_another_does(engine):
    """A worker that needs milliseconds for a request of 4 KB is held up by little traffic."""
    body = {text: json.dumps(natural(device=[text])).encode() for text in ("z" * 4_000, "\0" + "z" * 4_000)}
    plain, strange = (min(answered(engine, said) for _ in range(5)) for said in body.values())
    assert strange < TIMES_A_PLAIN_ONE * plain
