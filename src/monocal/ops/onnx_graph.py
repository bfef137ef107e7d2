"""A small writer of ONNX graphs: constants, operators, and the few compound steps that calibrators need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.ops.ordered import write_exp, write_log


@final
class GraphBuilder:
    """Collects nodes and constants; every method returns the name of the value it made.

    Values are float64 columns `(n,)` unless said otherwise, as in `predict`.

    Arguments:
        n_nodes: Nodes of the quadrature rule wherever an integral has no closed form in ONNX.

    Attributes:
        is_exact: False once some part is an approximation of `predict` and not the same formula.
    """

    def __init__(self, n_nodes: int = 0) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.n_nodes = n_nodes
        self.is_exact = True
        self._n_values = 0
        self._kept: dict[tuple[Any, ...], str] = {}

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """Stores an array in the graph; equal arrays are stored once."""
        from onnx import numpy_helper

        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._kept:
            self._kept[key] = self._fresh("constant")
            self.constants.append(numpy_helper.from_array(array, self._kept[key]))
        return self._kept[key]

    def apply(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Adds one operator and returns its first output."""
        return self._node(operator, inputs, self._fresh(operator.lower()), domain=domain, **attributes)

    def answer(self, value: str, name: str) -> str:
        """Gives a value the name under which the graph returns it."""
        return self._node("Identity", [value], name)

    def add(self, a: str, b: str | float) -> str:
        return self.apply("Add", a, self._value(b))

    def subtract(self, a: str | float, b: str | float) -> str:
        return self.apply("Sub", self._value(a), self._value(b))

    def multiply(self, a: str, b: str | float) -> str:
        return self.apply("Mul", a, self._value(b))

    def clip(self, a: str, low: float, high: float) -> str:
        return self.apply("Clip", a, self.constant(low), self.constant(high))

    def exp(self, a: str) -> str:
        """e^a, never decreasing in a; see `ordered_functions`, like the next three."""
        return write_exp(self, a)

    def log(self, a: str) -> str:
        return write_log(self, a)

    def sigmoid(self, logits: str) -> str:
        """1 / (1 + e^{−z}): three steps that keep order."""
        return self.apply("Div", self.constant(1.0), self.add(self.exp(self.apply("Neg", logits)), 1.0))

    def softplus(self, a: str) -> str:
        """ln(1 + e^a), for a up to 40."""
        return self.log(self.add(self.exp(a), 1.0))

    def logit(self, probabilities: str, epsilon: float) -> str:
        """ln p − ln(1 − p) after clipping to [epsilon, 1 − epsilon]."""
        p = self.clip(probabilities, epsilon, 1.0 - epsilon)
        return self.subtract(self.log(p), self.log(self.subtract(1.0, p)))

    def look_up(self, table: NDArray[Any], ids: str) -> str:
        """Rows of a constant table; ids int64 `(n,)`."""
        return self.apply("Gather", self.constant(table, table.dtype), ids, axis=0)

    def last_not_above(self, values: str, sorted_knots: NDArray[np.float64], *, strictly: bool = False) -> str:
        """The index of the last knot ≤ value (or < value if `strictly`), int64, at least 0, by binary search."""
        n_knots = len(sorted_knots)
        knots = self.constant(sorted_knots)
        index = self.multiply_int(self.cast(self.apply("IsNaN", values), np.int64), 0)
        step = 1 << max(math.ceil(math.log2(max(n_knots, 2))) - 1, 0)
        while step:
            candidate = self.apply("Add", index, self.constant(step, np.int64))
            inside = self.apply("Less", candidate, self.constant(n_knots, np.int64))
            safe = self.apply("Min", candidate, self.constant(n_knots - 1, np.int64))
            at = self.apply("Gather", knots, safe, axis=0)
            passed = self.apply("Less" if strictly else "LessOrEqual", at, values)
            index = self.apply("Where", self.apply("And", inside, passed), candidate, index)
            step //= 2
        return index

    def interpolate(self, values: str, knots: NDArray[np.float64], heights: NDArray[np.float64]) -> str:
        """Straight lines through (knots, heights), constant outside; inside a segment never beyond its ends."""
        if len(knots) == 1:
            return self.add(self.multiply(values, 0.0), float(heights[0]))
        inside = self.clip(values, float(knots[0]), float(knots[-1]))
        found = self.last_not_above(inside, knots)
        left = self.apply("Min", found, self.constant(len(knots) - 2, np.int64))
        slopes = np.diff(heights) / np.diff(knots)
        offset = self.subtract(inside, self.look_up(knots, left))
        line = self.add(self.multiply(self.look_up(slopes, left), offset), self.look_up(heights, left))
        low, high = np.minimum(heights[:-1], heights[1:]), np.maximum(heights[:-1], heights[1:])
        return self.apply("Max", self.apply("Min", line, self.look_up(high, left)), self.look_up(low, left))

    def multiply_int(self, a: str, factor: int) -> str:
        return self.apply("Mul", a, self.constant(factor, np.int64))

    def known_ids(self, ids: str, sizes: int | Sequence[int]) -> str:
        """Ids with everything outside the tables turned into 0, the unseen value.

        Arguments:
            ids: Of one field `(n,)`, or of all `(n, F)`.
            sizes: How many ids the field has, or every field.
        """
        known = self.apply("Less", ids, self.constant(sizes, np.int64))
        positive = self.apply("Greater", ids, self.constant(0, np.int64))
        return self.apply("Where", self.apply("And", known, positive), ids, self.constant(0, np.int64))

    def column(self, matrix: str, index: int) -> str:
        """One column of an `(n, F)` matrix."""
        return self.apply("Gather", matrix, self.constant(index, np.int64), axis=1)

    def columns(self, matrix: str, start: int, end: int) -> str:
        """Neighbouring columns of an `(n, F)` matrix, `start` up to but without `end`."""
        return self.apply("Slice", matrix, *(self.constant([place], np.int64) for place in (start, end, 1)))

    def sum(self, matrix: str, axis: int) -> str:
        """Sums along an axis, which is dropped, one number after the other.

        A runtime's own sum may take the numbers in another order from row to row, so that equal rows get different
        results.
        """
        sums = self.apply("CumSum", matrix, self.constant(axis, np.int64))
        return self.apply("Gather", sums, self.constant(-1, np.int64), axis=axis)

    def pick(self, matrix: str, places: str) -> str:
        """From every row of an `(n, F)` matrix the number in the column that `places` `(n,)` says."""
        return self.apply(
            "Squeeze", self.apply("GatherElements", matrix, self.upright(places), axis=1), self.constant([1], np.int64)
        )

    def upright(self, values: str) -> str:
        """A column `(n,)` as a matrix `(n, 1)`."""
        return self.apply("Unsqueeze", values, self.constant([1], np.int64))

    def cast(self, values: str, dtype: Any) -> str:
        from onnx import helper

        return self.apply("Cast", values, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Adds a node under the name of its output: runtimes that fuse nodes name the result after one of them."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def _value(self, a: str | float) -> str:
        return a if isinstance(a, str) else self.constant(a)

    def _fresh(self, stem: str) -> str:
        self._n_values += 1
        return f"{stem}_{self._n_values}"
