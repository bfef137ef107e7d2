r"""Exponential and logarithm as graphs that never turn two numbers around.

A runtime's own `Exp`, `Log` and `Sigmoid` are right to a unit in the last place or two, and differ by that much from
one position of a batch to the next. A higher score may then get a lower probability. Here both functions are made of
additions, multiplications, divisions, comparisons and table look-ups, which IEEE 754 rounds the same way everywhere and
in order: the same number gives the same result in any position, and a larger number never a smaller one.

Both split their argument into a table entry and a remainder :math:`\ge 0`. The remainder goes through a polynomial
with positive coefficients, every step of which rises with it, and the result is capped by the next table entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from monocal.core.scores import Floats

if TYPE_CHECKING:
    from monocal.ops.onnx_graph import Node
    from monocal.ops.onnx_ops import OnnxOps

EXPONENT_LIMIT = 100.0
"""Arguments of the exponential are clipped to ±100: e^-100 is 4e-44."""

_STEPS = 16
"""Table entries of the exponential per doubling. The remainder is at most ln 2 / 16."""

_EXP_TERMS = 7
"""Degree of its polynomial: the first term left out is 3e-16."""

_OCTAVES, _LOG_STEPS, _LOG_TERMS = 60, 8, 6
"""The logarithm knows 2^-60 … 2^60, with 8 table entries per doubling and six terms of its series."""


def ordered_exp(ops: OnnxOps, values: Node) -> Node:
    """Returns e^x, relative error below 4e-15, for float64 values of any shape."""
    n_entries = int(np.ceil(EXPONENT_LIMIT / np.log(2.0))) * _STEPS
    # the first part has few enough digits that its multiples are exact
    high = np.float64(np.float32(np.log(2.0) / _STEPS))
    low = np.log(2.0) / _STEPS - high
    x = ops.clip(values, -EXPONENT_LIMIT, EXPONENT_LIMIT)
    steps = ops.floor(x * (_STEPS / np.log(2.0)))
    rest = ops.clip(x - steps * high - steps * low, 0.0, np.log(2.0) / _STEPS)
    power = rest * (1.0 / _EXP_TERMS) + 1.0
    for term in range(_EXP_TERMS - 1, 0, -1):
        power = rest * power * (1.0 / term) + 1.0
    entry = ops.cast(steps + float(n_entries), np.int64)
    table = np.exp2(np.arange(-n_entries, n_entries + 2) / _STEPS)
    return ops.minimum(ops.look_up(table[:-1], entry) * power, ops.look_up(table[1:], entry))


def ordered_log(ops: OnnxOps, values: Node) -> Node:
    """Returns ln x, absolute error below 2e-14, for float64 values from 2^-60 to 2^60."""
    table = np.exp2(np.arange(-_OCTAVES * _LOG_STEPS, _OCTAVES * _LOG_STEPS + 2) / _LOG_STEPS)
    logs = np.log(table)
    x = ops.clip(values, table[0], table[-3])
    entry = _entry_of(ops, x, table)
    here = ops.look_up(table[:-1], entry)
    # ln(x / here) = 2 artanh(s) with s = q / (2 + q), written so that it rises with q step by step
    q = (x - here) / here
    s = 1.0 - 2.0 / (q + 2.0)
    square = s * s
    series: Any = 1.0 / (2 * _LOG_TERMS - 1)
    for term in range(_LOG_TERMS - 2, -1, -1):
        series = square * series + 1.0 / (2 * term + 1)
    rise = s * series * 2.0
    return ops.minimum(rise + ops.look_up(logs[:-1], entry), ops.look_up(logs[1:], entry))


def _entry_of(ops: OnnxOps, x: Node, table: Floats) -> Node:
    """The last table entry that is not above x: a guess by the runtime's logarithm, put right by two comparisons."""
    guess = ops.floor(ops.graph.apply("Log", x) * (_LOG_STEPS / np.log(2.0)))
    entry = ops.cast(ops.clip(guess + float(_OCTAVES * _LOG_STEPS), 0.0, len(table) - 3.0), np.int64)
    entry = entry - ops.cast(x < ops.look_up(table, entry), np.int64)
    entry = entry + ops.cast(x >= ops.look_up(table, entry + 1), np.int64)
    return ops.minimum(entry, len(table) - 2)
