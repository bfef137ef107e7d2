"""An affine layer whose result for a row depends on that row alone, to the last bit.

Matrix products of a BLAS round differently for different positions in a batch. Here every output is one sum over the
inputs in their order, each product and each addition rounded on its own, whatever the neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from monocal.compiled.jit import LANES, compiled, numba_is_installed, scalar

N_AT_ONCE = 64
"""Inputs whose signs are looked at together: one bit each."""


def _products(n_vectors: int, *, behind_relu: bool) -> Any:
    """Returns a step that adds the products of up to 64 inputs to `8 * n_vectors` outputs.

    Which inputs count becomes the bits of one number, whose ones are taken from the lowest on; the outputs stay in
    registers meanwhile. Every output is the sum over the inputs in their order. Behind a ReLU, `W relu(x)`, the
    positive ones count, and a multiplication and an addition may be fused; else, `W x`, those that are not 0, and both
    are rounded.

    Arguments of the step: the array that holds the inputs, where they begin, the array that holds the outputs (it may
    be the same), where they begin, how many inputs there are (1 to 64), the weights, where those of the first input
    begin, and from how many numbers on those of the next one do. Inputs are read eight at a time.
    """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.core.errors import TypingError
    from numba.extending import intrinsic

    @intrinsic
    def add(
        _: Any, source: Any, _in: Any, target: Any, _out: Any, _n: Any, weights: Any, _first: Any, _stride: Any
    ) -> Any:
        for array in (source, target, weights):
            if array.layout != "C" or array.dtype != types.float32:
                raise TypingError(f"expected float32 in C order, got {array}")
        number = types.int64
        signature = types.void(source, number, target, number, number, weights, number, number)
        vector, word = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)
        freedom = ("contract",) if behind_relu else ()

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source, inputs, target, outputs, n, weights, first, stride = arguments
            numbers, results, table = (
                context.make_array(signature.args[place])(context, builder, array).data
                for place, array in ((0, source), (2, target), (5, weights))
            )

            def vector_at(base: Any, place: Any) -> Any:
                return builder.bitcast(builder.gep(base, [place]), vector.as_pointer())

            def loaded(base: Any, place: Any) -> Any:
                return builder.load(vector_at(base, place), align=4)

            bits = cgutils.alloca_once_value(builder, ir.Constant(word, 0))
            n_groups = builder.lshr(builder.add(n, ir.Constant(word, LANES - 1)), ir.Constant(word, 3))
            with cgutils.for_range(builder, n_groups, intp=word) as loop:
                start = builder.mul(loop.index, ir.Constant(word, LANES))
                eight_inputs = loaded(numbers, builder.add(inputs, start))
                nothing = ir.Constant(vector, [0.0] * LANES)
                if behind_relu:
                    is_on = builder.fcmp_ordered(">", eight_inputs, nothing)
                else:
                    is_on = builder.fcmp_unordered("!=", eight_inputs, nothing)
                eight = builder.zext(builder.bitcast(is_on, ir.IntType(LANES)), word)
                builder.store(builder.or_(builder.load(bits), builder.shl(eight, start)), bits)
            there = builder.lshr(ir.Constant(word, -1), builder.sub(ir.Constant(word, N_AT_ONCE), n))
            builder.store(builder.and_(builder.load(bits), there), bits)
            places = [builder.add(outputs, ir.Constant(word, LANES * v)) for v in range(n_vectors)]
            sums = [cgutils.alloca_once_value(builder, loaded(results, place)) for place in places]
            ask, step, end = (builder.append_basic_block(name) for name in ("ask", "step", "end"))
            builder.branch(ask)
            builder.position_at_end(ask)
            left = builder.load(bits)
            builder.cbranch(builder.icmp_unsigned("!=", left, ir.Constant(word, 0)), step, end)
            builder.position_at_end(step)
            lowest = builder.cttz(left, ir.Constant(ir.IntType(1), 1))
            builder.store(builder.and_(left, builder.sub(left, ir.Constant(word, 1))), bits)
            x = builder.load(builder.gep(numbers, [builder.add(inputs, lowest)]))
            single = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            repeated = builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)
            row = builder.add(first, builder.mul(lowest, stride))
            for v, total in enumerate(sums):
                weight = loaded(table, builder.add(row, ir.Constant(word, LANES * v)))
                product = builder.fmul(repeated, weight, flags=freedom)
                builder.store(builder.fadd(builder.load(total), product, flags=freedom), total)
            builder.branch(ask)
            builder.position_at_end(end)
            for place, total in zip(places, sums, strict=True):
                builder.store(builder.load(total), vector_at(results, place), align=4)
            return context.get_dummy_value()

        return signature, generate

    return add


def _step(n_vectors: int, *, behind_relu: bool = True) -> Any:
    return _products(n_vectors, behind_relu=behind_relu) if numba_is_installed() else None


add_to_64, add_to_16, add_to_8 = _step(8), _step(2), _step(1)
add_rounded_to_72, add_rounded_to_64 = _step(9, behind_relu=False), _step(8, behind_relu=False)
add_rounded_to_32, add_rounded_to_8 = _step(4, behind_relu=False), _step(1, behind_relu=False)


LINE_NUMBERS = 16
"""Numbers of 32 bits that come together: a cache line of 64 bytes."""


def _fetch() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def fetch(_: Any, table: Any, _row: Any, _column: Any) -> Any:
        """Starts to load the cache line of `table[row, column]` and does not wait for it; changes no number."""
        signature = types.void(table, types.int64, types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, row, column = arguments
            found = context.make_array(signature.args[0])(context, builder, array)
            stride = builder.extract_value(found.strides, 0)
            place = builder.add(builder.mul(row, stride), builder.mul(column, found.itemsize))
            number, byte = ir.IntType(32), ir.IntType(8).as_pointer()
            address = builder.gep(builder.bitcast(found.data, byte), [place])
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
            builder.call(function, [address, *(ir.Constant(number, setting) for setting in (0, 3, 1))])
            return context.get_dummy_value()

        return signature, generate

    return fetch


fetch = _fetch() if numba_is_installed() else lambda _table, _row, _column: None


Floats32 = NDArray[np.float32]

_BLOCK = 32
"""Rows that share one reading of the weights."""


@scalar
def _add_tile(rows: Any, first: int, n_rows: int, matrix: Any, out: Any, to: int, j: int, n_columns: int) -> None:
    """Adds the products of all inputs to `n_columns` outputs from `j` on, of rows from `to` on."""
    n_in, n_out = matrix.shape
    for k in range(0, n_in, N_AT_ONCE):
        k_end = min(k + N_AT_ONCE, n_in)
        n = (k_end - k) // LANES * LANES
        place = k * n_out + j
        for row in range(n_rows):
            if n > 0:
                inputs, outputs = (first + row) * n_in + k, (to + row) * n_out + j
                if n_columns == 72:
                    add_rounded_to_72(rows, inputs, out, outputs, n, matrix, place, n_out)
                elif n_columns == 64:
                    add_rounded_to_64(rows, inputs, out, outputs, n, matrix, place, n_out)
                elif n_columns == 32:
                    add_rounded_to_32(rows, inputs, out, outputs, n, matrix, place, n_out)
                else:
                    add_rounded_to_8(rows, inputs, out, outputs, n, matrix, place, n_out)
            for i in range(k + n, k_end):  # inputs that do not fill a vector
                value = rows[first + row, i]
                if value != 0.0:
                    for c in range(j, j + n_columns):
                        out[to + row, c] += value * matrix[i, c]


@scalar
def _columns_at_once(n_left: int) -> int:
    """As many outputs as registers hold; one vector more where it would be left over, as it waits for each addition."""
    n_vectors = n_left // LANES
    if n_vectors >= 9 and n_vectors % 4 == 1:
        return 72
    if n_vectors >= 8:
        return 64
    if n_vectors >= 4:
        return 32
    return LANES


@compiled()
def add_products(rows: Any, matrix: Any, out: Any) -> None:
    """Adds `rows @ matrix` to `out`; inputs that are 0 are skipped, as most are after a ReLU.

    64 inputs × 64 outputs of the weights serve a block of rows while they are in the fastest cache, and a row's outputs
    stay in registers.

    Arguments:
        rows: `(n, n_in)`, float32 and C-contiguous like the others.
        matrix: `(n_in, n_out)`.
        out: `(n, n_out)`, the biases to begin with.
    """
    n_rows = rows.shape[0]
    n_in, n_out = matrix.shape
    n_whole = n_out // LANES * LANES
    # outputs that do not fill a vector are taken through one beside zeros
    n_rest = n_out - n_whole
    narrow, room = np.zeros((n_in, LANES), np.float32), np.zeros((_BLOCK, LANES), np.float32)
    for k in range(n_in):
        for j in range(n_rest):
            narrow[k, j] = matrix[k, n_whole + j]
    for first in range(0, n_rows, _BLOCK):
        n_here = min(_BLOCK, n_rows - first)
        j = 0
        while j < n_whole:
            n_columns = _columns_at_once(n_whole - j)
            _add_tile(rows, first, n_here, matrix, out, first, j, n_columns)
            j += n_columns
        if n_rest > 0:
            for row in range(n_here):
                for j in range(n_rest):
                    room[row, j] = out[first + row, n_whole + j]
            _add_tile(rows, first, n_here, narrow, room, 0, 0, LANES)
            for row in range(n_here):
                for j in range(n_rest):
                    out[first + row, n_whole + j] = room[row, j]
