"""What a map may be written with, and what each operation means in every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

Values = Any
"""One number per row `(n,)`, or a matrix `(n, K)`: an array, a tensor, or a value of a graph. All of them can be added,
subtracted, multiplied, divided and compared."""

Learned = Any
"""A learned array: a parameter while training, an array afterwards."""

OwnRows = Callable[[int, Callable[[Values], Values]], Values]
"""Returns the rows of the k-th of some values; takes k, and a function that picks those rows of any column."""


class Ops(Protocol):
    """The operations of one backend, together with the learned arrays of one map.

    A map is a function of these, of logits and of what conditions it. Run on torch it can be trained, run on numpy it
    predicts without torch, run on ONNX it is exported. Two rules make its order hold in floating point:

    - Additions, multiplications, divisions, comparisons and choices are rounded correctly everywhere and never turn
      two numbers around. A map is made of them as far as it depends on the score.
    - `exp`, `log` and `sigmoid` of a graph are made of those, too (see `ordered`), because a runtime's own are not
      in order from one position of a batch to the next.

    Tensors lack what is only done after training: other learned arrays, field ids, tables of a fitted score.

    A choice has the gradient of what was chosen; where both sides meet, `minimum`, `maximum` and `clip` have that of
    their first argument, on any release of torch.
    """

    # Learned arrays

    def over(self, arrays: Mapping[str, NDArray[Any]]) -> Ops:
        """Returns the same operations with other learned arrays."""

    def part(self, name: str) -> Ops:
        """Returns the same operations with the learned arrays below a name, `name.…`."""

    def learned(self, name: str) -> Learned:
        """Returns a learned array by name."""

    def has(self, name: str) -> bool:
        """Says whether there is a learned array, or a network, of that name."""

    def n_inputs(self, network: str) -> int:
        """Returns how many numbers a network takes per row."""

    def dense(self, network: str, rows: Values) -> Values:
        """Runs affine layers with ReLU in between: `(n, inputs)` to `(n, outputs)`.

        A row's result depends on that row alone outside training, to the last bit.
        """

    # Precision and constants

    def double(self, values: Values) -> Values:
        """Goes on in float64; layers are trained in float32, and fixed numbers become what the backend takes."""

    def rows(self, numbers: Learned, like: Values) -> Values:
        """Repeats K numbers for every row of `like`: `(n, K)`."""

    # Numbers

    def exp(self, values: Values) -> Values: ...

    def log(self, values: Values) -> Values: ...

    def log1p(self, values: Values) -> Values: ...

    def softplus(self, values: Values) -> Values:
        """Returns ln(1 + e^v), for v up to 40."""

    def power(self, values: Values, exponents: Values) -> Values:
        """Returns v^a for positive v."""

    def sigmoid(self, values: Values) -> Values: ...

    def logit(self, probabilities: Values, floor: float) -> Values:
        """Returns ln p − ln(1 − p) after clipping to [floor, 1 − floor]."""

    def rounded(self, values: Values) -> Values:
        """Rounds logits to multiples of 2⁻⁴², between which sums of functions rise; see `round_logits`."""

    def minimum(self, values: Values, bound: Values) -> Values: ...

    def maximum(self, values: Values, bound: Values) -> Values: ...

    def clip(self, values: Values, low: Any, high: Any) -> Values: ...

    def where(self, condition: Values, then: Values, otherwise: Values) -> Values: ...

    # Rows and columns

    def column(self, matrix: Values, place: int) -> Values:
        """Returns one column `(n,)`."""

    def columns(self, matrix: Values, start: int, end: int) -> Values:
        """Returns neighbouring columns, `start` up to but without `end`."""

    def take_columns(self, matrix: Values, places: Sequence[int]) -> Values:
        """Returns some columns, in that order."""

    def upright(self, values: Values) -> Values:
        """Turns `(n,)` into `(n, 1)`."""

    def concat(self, parts: Sequence[Values]) -> Values:
        """Puts matrices beside each other."""

    def pick(self, matrix: Values, places: Values) -> Values:
        """Returns from every row the number in its column: `(n, K)` and `(n,)` give `(n,)`."""

    def sum(self, matrix: Values) -> Values:
        """Sums every row."""

    def count(self, matrix: Values) -> Values:
        """Returns in how many columns every row of a matrix of truths is true."""

    def running_sum(self, matrix: Values, *, from_end: bool = False) -> Values:
        """Sums every row up to each column, or from each column on."""

    def running_max(self, numbers: Learned) -> Values:
        """Returns the largest of learned numbers up to each place."""

    def softmax(self, values: Values) -> Values:
        """Returns e^v / Σ e^v along the last dimension."""

    def softmax_sums(self, matrix: Values) -> Values:
        """Returns the running sums of a softmax, the last of which is 1."""

    # Tables

    def look_up(self, table: Any, places: Values) -> Values:
        """Returns entries, or rows, of a table."""

    def segment(self, values: Values, knots: Any) -> Values:
        """Returns the segment between knots in which every value lies; the outer ones go on beyond the knots."""

    def count_below(self, values: Values, edges: NDArray[Any], *, or_equal: bool = False) -> Values:
        """Returns how many of the rising edges lie below every value, or do not lie above it."""

    def bin_of(self, values: Values, n_bins: int) -> tuple[Values, Values]:
        """Returns the whole number below every value, held in 0 … n − 1: as a number and as a place."""

    def interpolate(self, values: Values, knots: NDArray[Any], heights: NDArray[Any]) -> Values:
        """Returns the line through rising heights at rising knots, constant outside; it never falls."""

    # Matrices of fields

    def vectors(self, context: Any) -> Values:
        """Returns a context as joined vectors `(n, F·d)`; in training it may come as field ids."""

    def matrices(self, rows: Values, n_rows: int, n_columns: int) -> Values:
        """Cuts every row into a matrix `(n, rows, columns)`."""

    def turned(self, matrices: Values) -> Values:
        """Turns rows of matrices into columns."""

    def matrix_of(self, matrices: Values, place: int) -> Values:
        """Returns one row of every matrix: `(n, columns)`."""

    def product(self, left: Values, right: Values) -> Values:
        """Multiplies matrices `(n, i, k)` and `(n, k, j)`."""

    def weighted_sum(self, weights: Values, parts: Sequence[Values]) -> Values:
        """Returns Σ weights[:, i] · parts[i], one part after the other."""

    # Field ids, after training

    def known_ids(self, ids: Values, sizes: Any) -> Values:
        """Turns ids beyond a field's size into 0, the unseen value."""

    def joined(self, vectors: Values) -> Values:
        """Turns vectors of fields `(n, F, d)` into a context `(n, F·d)`."""

    def add_shifts(self, base: Values, ids: Values, shifts: Any, offsets: Any) -> Values:
        """Adds the shift of every row's value of every field, field after field."""

    def replaced(self, common: Values, ids: Values, values: Sequence[int], own: OwnRows) -> Values:
        """Replaces the rows whose id is one of some values.

        Arguments:
            common: What all other rows keep.
            ids: One id per row.
            values: The ids with an answer of their own.
            own: Their answers.
        """
