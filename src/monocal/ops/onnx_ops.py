"""Maps as nodes of an ONNX graph, whose exponential and logarithm keep order (see `ordered`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.ops.numpy_ops import Arrays, LearnedArrays, arrays_below
from monocal.ops.onnx_graph import GraphBuilder, Node
from monocal.ops.operations import OwnRows
from monocal.ops.ordered import ordered_exp, ordered_log

_FINE = 2.0**42


@final
class OnnxOps(LearnedArrays):
    """The operations on values of a graph; see `Ops` for what each of them means. Layers run in float64.

    Arguments:
        graph: Where nodes are added.
        arrays: The learned arrays of a map; none for a map that knows its numbers itself.
    """

    def __init__(self, graph: GraphBuilder, arrays: Arrays | None = None) -> None:
        super().__init__(arrays)
        self.graph = graph
        self._apply = graph.apply

    # Learned arrays

    def over(self, arrays: Arrays) -> OnnxOps:
        return OnnxOps(self.graph, arrays)

    def part(self, name: str) -> OnnxOps:
        return OnnxOps(self.graph, arrays_below(self._arrays, name))

    def dense(self, network: str, rows: Node) -> Node:
        layers = self.layers(network)
        for place, (matrix, bias) in enumerate(zip(layers.matrices, layers.biases, strict=True)):
            if place > 0:
                rows = self._apply("Relu", rows)
            rows = self._apply("MatMul", rows, matrix) + bias
        return rows

    # Precision and constants

    def double(self, values: Any) -> Any:
        return values if isinstance(values, Node) else np.asarray(values, dtype=np.float64)

    def rows(self, numbers: Any, like: Node) -> Node:
        return self.upright(like * 0.0) + np.asarray(numbers, dtype=np.float64)[None]

    def cast(self, values: Node, dtype: Any) -> Node:
        """Returns the values as numbers of another type."""
        from onnx import helper

        kind = np.dtype(dtype)
        return self._apply("Cast", values, to=helper.np_dtype_to_tensor_dtype(kind), whole=kind.kind in "iu")

    # Numbers

    def exp(self, values: Node) -> Node:
        return ordered_exp(self, values)

    def log(self, values: Node) -> Node:
        return ordered_log(self, values)

    def log1p(self, values: Any) -> Any:
        return self.log(values + 1.0) if isinstance(values, Node) else np.log1p(values)

    def softplus(self, values: Node) -> Node:
        return self.log(self.exp(values) + 1.0)

    def power(self, values: Node, exponents: Any) -> Node:
        return self.exp(self.log(values) * exponents)

    def sigmoid(self, values: Node) -> Node:
        # three steps that keep order
        return 1.0 / (self.exp(-values) + 1.0)

    def logit(self, probabilities: Node, floor: float) -> Node:
        p = self.clip(probabilities, floor, 1.0 - floor)
        return self.log(p) - self.log(1.0 - p)

    def rounded(self, values: Node) -> Node:
        return self._apply("Round", values * _FINE) / _FINE

    def floor(self, values: Node) -> Node:
        """Returns the whole number below every value, in float64."""
        return self._apply("Floor", values)

    def minimum(self, values: Any, bound: Any) -> Node:
        return self._apply("Min", values, bound)

    def maximum(self, values: Any, bound: Any) -> Node:
        return self._apply("Max", values, bound)

    def clip(self, values: Node, low: Any, high: Any) -> Node:
        return self._apply("Clip", values, float(low), float(high))

    def where(self, condition: Any, then: Any, otherwise: Any) -> Node:
        return self._apply("Where", condition, then, otherwise)

    # Rows and columns

    def column(self, matrix: Node, place: int) -> Node:
        return self._apply("Gather", matrix, places=place, axis=1)

    def columns(self, matrix: Node, start: int, end: int) -> Node:
        edges = (self.graph.constant([place], np.int64) for place in (start, end, 1))
        return self._apply("Slice", matrix, *edges, whole=matrix.whole)

    def take_columns(self, matrix: Node, places: Sequence[int]) -> Node:
        return self._apply("Gather", matrix, places=list(places), axis=1)

    def upright(self, values: Node) -> Node:
        return self._apply("Unsqueeze", values, places=[1])

    def concat(self, parts: Sequence[Any]) -> Node:
        return self._apply("Concat", *parts, axis=1)

    def pick(self, matrix: Node, places: Node) -> Node:
        found = self._apply("GatherElements", matrix, self.upright(places), axis=1, whole=matrix.whole)
        return self._apply("Squeeze", found, places=[1])

    def sum(self, matrix: Node) -> Node:
        # a runtime's own sum may take the numbers in another order from row to row: equal rows get different results
        return self._apply("Gather", self.running_sum(matrix), places=-1, axis=1)

    def count(self, matrix: Node) -> Node:
        return self._apply("ReduceSum", self.cast(matrix, np.int64), places=[1], keepdims=0)

    def running_sum(self, matrix: Node, *, from_end: bool = False) -> Node:
        return self._apply("CumSum", matrix, places=1, reverse=int(from_end))

    def running_max(self, numbers: Any) -> NDArray[Any]:
        result: NDArray[Any] = np.maximum.accumulate(numbers)
        return result

    def softmax(self, values: Node) -> Node:
        powers = self._powers(values)
        last = self._apply("Gather", self._apply("CumSum", powers, places=-1), places=[-1], axis=-1)
        return powers / last

    def softmax_sums(self, matrix: Node) -> Node:
        sums = self.running_sum(self._powers(matrix))
        return sums / self._apply("Gather", sums, places=[-1], axis=1)

    def _powers(self, values: Node) -> Node:
        return self.exp(values - self._apply("ReduceMax", values, places=[-1], keepdims=1))

    # Tables

    def look_up(self, table: Any, places: Node) -> Node:
        entries = np.asarray(table)
        constant = self.graph.constant(entries, entries.dtype)
        found = self._apply("Gather", constant, places, axis=0, whole=constant.whole)
        # vectors are kept in float32, as they were trained, and go on in float64
        return self.cast(found, np.float64) if entries.dtype == np.float32 else found

    def segment(self, values: Node, knots: NDArray[Any]) -> Node:
        return self.minimum(self._last_not_above(values, knots), len(knots) - 2)

    def count_below(self, values: Node, edges: NDArray[Any], *, or_equal: bool = False) -> Node:
        # an edge below everything makes the number of edges the place of the last one
        starts = np.concatenate([[-np.inf], edges])
        return self._last_not_above(values, starts, "LessOrEqual" if or_equal else "Less")

    def _last_not_above(self, values: Node, knots: NDArray[Any], is_below: str = "LessOrEqual") -> Node:
        """The place of the last knot that is below every value, at least 0, by binary search."""
        n_knots = len(knots)
        place = self.cast(self._apply("IsNaN", values), np.int64) * 0
        step = 1 << max(math.ceil(math.log2(max(n_knots, 2))) - 1, 0)
        while step:
            candidate = place + step
            knot = self.look_up(knots, self.minimum(candidate, n_knots - 1))
            passed = self._apply("And", candidate < n_knots, self._apply(is_below, knot, values))
            place = self.where(passed, candidate, place)
            step //= 2
        return place

    def bin_of(self, values: Node, n_bins: int) -> tuple[Node, Node]:
        whole = self.clip(self.floor(values), 0.0, n_bins - 1.0)
        return whole, self.cast(whole, np.int64)

    def interpolate(self, values: Node, knots: NDArray[Any], heights: NDArray[Any]) -> Node:
        if len(knots) == 1:
            return values * 0.0 + float(heights[0])
        inside = self.clip(values, knots[0], knots[-1])
        left = self.segment(inside, knots)
        offset = inside - self.look_up(knots, left)
        line = self.look_up(np.diff(heights) / np.diff(knots), left) * offset + self.look_up(heights, left)
        # never beyond the ends of a piece
        return self.maximum(self.minimum(line, self.look_up(heights[1:], left)), self.look_up(heights[:-1], left))

    # Matrices of fields

    def vectors(self, context: Node) -> Node:
        return context

    def matrices(self, rows: Node, n_rows: int, n_columns: int) -> Node:
        found = self._apply("Reshape", rows, places=[-1, n_rows, n_columns])
        found.cut_from = rows, n_rows, n_columns
        return found

    def turned(self, matrices: Node) -> Node:
        # by hand: ONNX Runtime 1.20 to 1.22 fuse Transpose and MatMul into a step that they have for float32 only
        assert matrices.cut_from is not None
        rows, n_rows, n_columns = matrices.cut_from
        places = np.arange(n_rows * n_columns).reshape(n_rows, n_columns).T.reshape(-1)
        return self.matrices(self.take_columns(rows, places.tolist()), n_columns, n_rows)

    def matrix_of(self, matrices: Node, place: int) -> Node:
        return self._apply("Gather", matrices, places=place, axis=1)

    def product(self, left: Node, right: Any) -> Node:
        return self._apply("MatMul", left, right)

    def weighted_sum(self, weights: Node, parts: Sequence[Node]) -> Node:
        total = self.columns(weights, 0, 1) * parts[0]
        for place, part in enumerate(parts[1:], 1):
            total = total + self.columns(weights, place, place + 1) * part
        return total

    # Field ids

    def known_ids(self, ids: Node, sizes: Any) -> Node:
        return self.where(self._apply("And", ids < sizes, ids > 0), ids, 0)

    def joined(self, vectors: Node) -> Node:
        return self._apply("Flatten", vectors, axis=1)

    def add_shifts(self, base: Node, ids: Node, shifts: NDArray[Any], offsets: NDArray[np.int64]) -> Node:
        for field in range(len(offsets) - 1):
            own = np.asarray(shifts[offsets[field] : offsets[field + 1]], dtype=np.float64)
            base = base + self.look_up(own, self.known_ids(self.column(ids, field), len(own)))
        return base

    def replaced(self, common: Node, ids: Node, values: Sequence[int], own: OwnRows) -> Node:
        result = common
        for k, value in enumerate(values):
            here = self._apply("Equal", ids, int(value), whole=False)
            result = self.where(here, own(k, lambda column: column), result)
        return result
