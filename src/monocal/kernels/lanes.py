"""The inner step of a layer, written for vector registers: the compiler's own vectors leave half of the time unused."""

from __future__ import annotations

from typing import Any

from monocal.kernels.compiled import numba_is_installed

N_AT_ONCE = 64
"""Inputs whose signs are looked at together: one bit each."""

_LANES = 8


def _positive_products(n_vectors: int) -> Any:
    """Returns a step that adds `W relu(x)` for up to 64 inputs to `8 * n_vectors` outputs.

    The signs of the inputs become the bits of one number, whose ones are taken from the lowest on; the outputs stay in
    registers meanwhile. Every output is the sum over the inputs in their order, each step a multiplication and an
    addition that may be fused.

    Arguments of the step: the array that holds inputs and outputs, where the inputs begin, where the outputs begin,
    how many inputs there are (1 to 64), the weights, where those of the first input begin, and from how many numbers
    on those of the next one do. Inputs are read eight at a time.
    """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def add(_: Any, work: Any, _inputs: Any, _outputs: Any, _n: Any, weights: Any, _first: Any, _stride: Any) -> Any:
        number = types.int64
        signature = types.void(work, number, number, number, weights, number, number)
        vector, word = ir.VectorType(ir.FloatType(), _LANES), ir.IntType(64)
        fused = ("contract",)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            work, inputs, outputs, n, weights, first, stride = arguments
            numbers = context.make_array(signature.args[0])(context, builder, work).data
            table = context.make_array(signature.args[4])(context, builder, weights).data

            def vector_at(base: Any, place: Any) -> Any:
                return builder.bitcast(builder.gep(base, [place]), vector.as_pointer())

            def loaded(base: Any, place: Any) -> Any:
                return builder.load(vector_at(base, place), align=4)

            bits = cgutils.alloca_once_value(builder, ir.Constant(word, 0))
            n_groups = builder.lshr(builder.add(n, ir.Constant(word, _LANES - 1)), ir.Constant(word, 3))
            with cgutils.for_range(builder, n_groups, intp=word) as loop:
                start = builder.mul(loop.index, ir.Constant(word, _LANES))
                is_on = builder.fcmp_ordered(
                    ">", loaded(numbers, builder.add(inputs, start)), ir.Constant(vector, [0.0] * _LANES)
                )
                eight = builder.zext(builder.bitcast(is_on, ir.IntType(_LANES)), word)
                builder.store(builder.or_(builder.load(bits), builder.shl(eight, start)), bits)
            there = builder.lshr(ir.Constant(word, -1), builder.sub(ir.Constant(word, N_AT_ONCE), n))
            builder.store(builder.and_(builder.load(bits), there), bits)
            places = [builder.add(outputs, ir.Constant(word, _LANES * v)) for v in range(n_vectors)]
            sums = [cgutils.alloca_once_value(builder, loaded(numbers, place)) for place in places]
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
                product = builder.fmul(repeated, weight, flags=fused)
                builder.store(builder.fadd(builder.load(total), product, flags=fused), total)
            builder.branch(ask)
            builder.position_at_end(end)
            for place, total in zip(places, sums, strict=True):
                builder.store(builder.load(total), vector_at(numbers, place), align=4)
            return context.get_dummy_value()

        return signature, generate

    return add


def _step(n_vectors: int) -> Any:
    return _positive_products(n_vectors) if numba_is_installed() else None


add_to_64, add_to_16, add_to_8 = _step(8), _step(2), _step(1)
