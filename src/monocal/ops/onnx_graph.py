"""A graph of ONNX that is written like a formula: its values are added, multiplied and compared like arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np


@final
class Node:
    """A value of a graph.

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

    def __add__(self, other: Any) -> Node:
        return self.graph.apply("Add", self, other)

    def __radd__(self, other: Any) -> Node:
        return self.graph.apply("Add", other, self)

    def __sub__(self, other: Any) -> Node:
        return self.graph.apply("Sub", self, other)

    def __rsub__(self, other: Any) -> Node:
        return self.graph.apply("Sub", other, self)

    def __mul__(self, other: Any) -> Node:
        return self.graph.apply("Mul", self, other)

    def __rmul__(self, other: Any) -> Node:
        return self.graph.apply("Mul", other, self)

    def __truediv__(self, other: Any) -> Node:
        return self.graph.apply("Div", self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return self.graph.apply("Div", other, self)

    def __neg__(self) -> Node:
        return self.graph.apply("Neg", self)

    def __lt__(self, other: Any) -> Node:
        return self.graph.apply("Less", self, other, whole=False)

    def __le__(self, other: Any) -> Node:
        return self.graph.apply("LessOrEqual", self, other, whole=False)

    def __gt__(self, other: Any) -> Node:
        return self.graph.apply("Greater", self, other, whole=False)

    def __ge__(self, other: Any) -> Node:
        return self.graph.apply("GreaterOrEqual", self, other, whole=False)


@final
class GraphBuilder:
    """Collects nodes and constants. Values are float64 columns `(n,)` unless said otherwise, as in `predict`.

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

    def constant(self, value: Any, dtype: Any = np.float64) -> Node:
        """Stores an array in the graph; equal arrays are stored once."""
        from onnx import numpy_helper

        array = np.asarray(value, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._kept:
            self._kept[key] = self._fresh("constant")
            self.constants.append(numpy_helper.from_array(array, self._kept[key]))
        return Node(self, self._kept[key], whole=array.dtype.kind in "iu")

    def apply(
        self, operator: str, *values: Any, places: Any = None, whole: bool | None = None, **attributes: Any
    ) -> Node:
        """Adds one operator and returns its first output.

        Arguments:
            operator: Its name.
            values: What it takes. Numbers beside whole ones are whole, all others float64: types of a graph never mix.
            places: A last input of whole numbers: an axis, a shape, rows of a table.
            whole: Whether the output consists of whole numbers; None if it does when an input does.
            attributes: Of the operator.
        """
        beside = any(isinstance(value, Node) and value.whole for value in values)
        inputs = [self._node_of(value, whole=beside).name for value in values]
        if places is not None:
            inputs.append(self._node_of(places, whole=True).name)
        name = self._add(operator, inputs, self._fresh(operator.lower()), **attributes)
        return Node(self, name, whole=beside if whole is None else whole)

    def answer(self, value: Node, name: str) -> None:
        """Gives a value the name under which the graph returns it."""
        self._add("Identity", [value.name], name)

    def _add(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Adds a node under the name of its output: runtimes that fuse nodes name the result after one of them."""
        from onnx import helper

        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=output, **attributes))
        return output

    def _node_of(self, value: Any, *, whole: bool) -> Node:
        """Returns a node as it is, and of numbers a constant: int64 if they are `whole`, truths, or float64."""
        if isinstance(value, Node):
            return value
        array = np.asarray(value)
        return self.constant(array, np.bool_ if array.dtype == np.bool_ else np.int64 if whole else np.float64)

    def _fresh(self, stem: str) -> str:
        self._n_values += 1
        return f"{stem}_{self._n_values}"
