"""The inner step of a layer, written for vector registers: the compiler's own vectors leave half of the time unused."""

from __future__ import annotations

from typing import Any

from monocal.compiled.jit import numba_is_installed

N_AT_ONCE = 64
"""Inputs whose signs are looked at together: one bit each."""

_LANES = 8


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
        vector, word = ir.VectorType(ir.FloatType(), _LANES), ir.IntType(64)
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
            n_groups = builder.lshr(builder.add(n, ir.Constant(word, _LANES - 1)), ir.Constant(word, 3))
            with cgutils.for_range(builder, n_groups, intp=word) as loop:
                start = builder.mul(loop.index, ir.Constant(word, _LANES))
                eight_inputs = loaded(numbers, builder.add(inputs, start))
                nothing = ir.Constant(vector, [0.0] * _LANES)
                if behind_relu:
                    is_on = builder.fcmp_ordered(">", eight_inputs, nothing)
                else:
                    is_on = builder.fcmp_unordered("!=", eight_inputs, nothing)
                eight = builder.zext(builder.bitcast(is_on, ir.IntType(_LANES)), word)
                builder.store(builder.or_(builder.load(bits), builder.shl(eight, start)), bits)
            there = builder.lshr(ir.Constant(word, -1), builder.sub(ir.Constant(word, N_AT_ONCE), n))
            builder.store(builder.and_(builder.load(bits), there), bits)
            places = [builder.add(outputs, ir.Constant(word, _LANES * v)) for v in range(n_vectors)]
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
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
            repeated = builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)
            row = builder.add(first, builder.mul(lowest, stride))
            for v, total in enumerate(sums):
                weight = loaded(table, builder.add(row, ir.Constant(word, _LANES * v)))
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
