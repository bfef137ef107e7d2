"""Maps as nodes of an ONNX graph, whose exponential and logarithm keep order (see `ordered`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.ops.numpy_ops import Arrays, Layers, arrays_below
from monocal.ops.onnx_graph import GraphBuilder
from monocal.ops.operations import Ops

_FINE = 2.0**42


@final
class Node:
    """A value of a graph that is added, multiplied and compared like an array.

    Arguments:
        graph: The graph.
        name: The value's name in it.
        whole: Whether it consists of whole numbers: places in tables, field ids.

    Attributes:
        cut_from: The rows that matrices were cut from, and how many rows and columns these have.
    """

    __array_ufunc__ = None  # numpy leaves `array + node` to the node
    __slots__ = ("cut_from", "graph", "name", "whole")

    def __init__(self, graph: GraphBuilder, name: str, *, whole: bool = False) -> None:
        self.graph, self.name, self.whole = graph, name, whole
        self.cut_from: tuple[Node, int, int] | None = None

    def _apply(self, operator: str, *values: Any) -> Node:
        # numbers beside whole ones are whole, all others are float64: types of a graph never mix
        names = [name_of(self.graph, value, whole=self.whole) for value in values]
        return Node(self.graph, self.graph.apply(operator, *names), whole=self.whole)

    def __add__(self, other: Any) -> Node:
        return self._apply("Add", self, other)

    def __radd__(self, other: Any) -> Node:
        return self._apply("Add", other, self)

    def __sub__(self, other: Any) -> Node:
        return self._apply("Sub", self, other)

    def __rsub__(self, other: Any) -> Node:
        return self._apply("Sub", other, self)

    def __mul__(self, other: Any) -> Node:
        return self._apply("Mul", self, other)

    def __rmul__(self, other: Any) -> Node:
        return self._apply("Mul", other, self)

    def __truediv__(self, other: Any) -> Node:
        return self._apply("Div", self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return self._apply("Div", other, self)

    def __neg__(self) -> Node:
        return Node(self.graph, self.graph.apply("Neg", self.name))

    def __lt__(self, other: Any) -> Node:
        return self._apply("Less", self, other)

    def __le__(self, other: Any) -> Node:
        return self._apply("LessOrEqual", self, other)

    def __gt__(self, other: Any) -> Node:
        return self._apply("Greater", self, other)

    def __ge__(self, other: Any) -> Node:
        return self._apply("GreaterOrEqual", self, other)


def name_of(graph: GraphBuilder, value: Any, *, whole: bool) -> str:
    """Returns the name of a node, or of the constant that numbers become: int64 if they are `whole`, else float64."""
    if isinstance(value, Node):
        return value.name
    array = np.asarray(value)
    return graph.constant(array, np.bool_ if array.dtype == np.bool_ else np.int64 if whole else np.float64)


@final
class OnnxOps(Ops):
    """The operations on values of a graph; see `Ops` for what each of them means. Layers run in float64.

    Arguments:
        graph: Where nodes are added.
        arrays: The learned arrays of a map; none for a map that knows its numbers itself.
    """

    def __init__(self, graph: GraphBuilder, arrays: Arrays | None = None) -> None:
        self.graph = graph
        self._arrays: Arrays = arrays or {}

    def _node(self, name: str, *, whole: bool = False) -> Node:
        return Node(self.graph, name, whole=whole)

    def _apply(self, operator: str, *values: Any, places: Any = None, **attributes: Any) -> Node:
        """Adds one operator; `places` is a last input of whole numbers: an axis, a shape, rows of a table."""
        whole = any(isinstance(value, Node) and value.whole for value in values)
        names = [name_of(self.graph, value, whole=whole) for value in values]
        if places is not None:
            names.append(name_of(self.graph, places, whole=True))
        return self._node(self.graph.apply(operator, *names, **attributes), whole=whole)

    # Learned arrays

    def over(self, arrays: Arrays) -> OnnxOps:
        return OnnxOps(self.graph, arrays)

    def part(self, name: str) -> OnnxOps:
        return OnnxOps(self.graph, arrays_below(self._arrays, name))

    def learned(self, name: str) -> NDArray[Any]:
        return self._arrays[name]

    def has(self, name: str) -> bool:
        return name in self._arrays or f"{name}.layers.0.weight" in self._arrays

    def n_inputs(self, network: str) -> int:
        return int(self._arrays[f"{network}.layers.0.weight"].shape[1])

    def dense(self, network: str, rows: Node) -> Node:
        layers = Layers.of(self._arrays, network)
        for place, (matrix, bias) in enumerate(zip(layers.matrices, layers.biases, strict=True)):
            if place > 0:
                rows = self._apply("Relu", rows)
            rows = self._apply("MatMul", rows, matrix) + bias
        return rows

    # Precision and constants

    def double(self, values: Any) -> Any:
        return values if isinstance(values, Node) else np.asarray(values, dtype=np.float64)

    def constant(self, values: Any) -> NDArray[np.float64]:
        return np.asarray(values, dtype=np.float64)

    def rows(self, numbers: Any, like: Node) -> Node:
        return self.upright(like * 0.0) + np.asarray(numbers, dtype=np.float64)[None]

    # Numbers

    def exp(self, values: Node) -> Node:
        return self._node(self.graph.exp(values.name))

    def log(self, values: Node) -> Node:
        return self._node(self.graph.log(values.name))

    def log1p(self, values: Any) -> Any:
        return self.log(values + 1.0) if isinstance(values, Node) else np.log1p(values)

    def softplus(self, values: Node) -> Node:
        return self._node(self.graph.softplus(values.name))

    def power(self, values: Node, exponents: Any) -> Node:
        return self.exp(self.log(values) * exponents)

    def sigmoid(self, values: Node) -> Node:
        return self._node(self.graph.sigmoid(values.name))

    def logit(self, probabilities: Node, floor: float) -> Node:
        return self._node(self.graph.logit(probabilities.name, floor))

    def rounded(self, values: Node) -> Node:
        return self._apply("Round", values * _FINE) / _FINE

    def minimum(self, values: Any, bound: Any) -> Node:
        return self._apply("Min", values, bound)

    def maximum(self, values: Any, bound: Any) -> Node:
        return self._apply("Max", values, bound)

    def clip(self, values: Node, low: Any, high: Any) -> Node:
        return self._node(self.graph.clip(values.name, float(low), float(high)))

    def where(self, condition: Any, then: Any, otherwise: Any) -> Node:
        return self._apply("Where", condition, then, otherwise)

    # Rows and columns

    def column(self, matrix: Node, place: int) -> Node:
        return self._node(self.graph.column(matrix.name, place), whole=matrix.whole)

    def columns(self, matrix: Node, start: int, end: int) -> Node:
        return self._node(self.graph.columns(matrix.name, start, end))

    def take_columns(self, matrix: Node, places: Sequence[int]) -> Node:
        return self._apply("Gather", matrix, places=list(places), axis=1)

    def upright(self, values: Node) -> Node:
        return self._node(self.graph.upright(values.name))

    def concat(self, parts: Sequence[Any]) -> Node:
        return self._apply("Concat", *parts, axis=1)

    def pick(self, matrix: Node, places: Node) -> Node:
        return self._node(self.graph.pick(matrix.name, places.name))

    def sum(self, matrix: Node) -> Node:
        return self._node(self.graph.sum(matrix.name, 1))

    def count(self, matrix: Node) -> Node:
        ones = self._node(self.graph.cast(matrix.name, np.int64), whole=True)
        return self._apply("ReduceSum", ones, places=[1], keepdims=0)

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

    def look_up(self, table: NDArray[Any], places: Node) -> Node:
        found = self._node(self.graph.look_up(np.asarray(table), places.name), whole=table.dtype.kind in "iu")
        # vectors are kept in float32, as they were trained, and go on in float64
        return self._node(self.graph.cast(found.name, np.float64)) if table.dtype == np.float32 else found

    def segment(self, values: Node, knots: NDArray[Any]) -> Node:
        return self._apply("Min", self._node(self.graph.last_not_above(values.name, knots), whole=True), len(knots) - 2)

    def count_below(self, values: Node, edges: NDArray[Any], *, or_equal: bool = False) -> Node:
        # an edge below everything makes the number of edges the place of the last one
        starts = np.concatenate([[-np.inf], edges])
        return self._node(self.graph.last_not_above(values.name, starts, strictly=not or_equal), whole=True)

    def bin_of(self, values: Node, n_bins: int) -> tuple[Node, Node]:
        whole = self.clip(self._apply("Floor", values), 0.0, n_bins - 1.0)
        return whole, self._node(self.graph.cast(whole.name, np.int64), whole=True)

    def interpolate(self, values: Node, knots: NDArray[Any], heights: NDArray[Any]) -> Node:
        return self._node(self.graph.interpolate(values.name, knots, heights))

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
        return self._node(self.graph.known_ids(ids.name, np.asarray(sizes).tolist()), whole=True)

    def joined(self, vectors: Node) -> Node:
        return self._apply("Flatten", vectors, axis=1)

    def add_shifts(self, base: Node, ids: Node, shifts: NDArray[Any], offsets: NDArray[np.int64]) -> Node:
        for field in range(len(offsets) - 1):
            own = np.asarray(shifts[offsets[field] : offsets[field + 1]], dtype=np.float64)
            base = base + self.look_up(own, self.known_ids(self.column(ids, field), len(own)))
        return base

    def replaced(
        self,
        common: Node,
        ids: Node,
        values: Sequence[int],
        own: Callable[[int, Callable[[Any], Any]], Node],
    ) -> Node:
        result = common
        for k, value in enumerate(values):
            here = self._apply("Equal", ids, int(value))
            result = self.where(here, own(k, lambda column: column), result)
        return result
