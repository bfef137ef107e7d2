"""Asks the memory for numbers ahead of their use."""

from __future__ import annotations

from typing import Any

from monocal.compiled.jit import numba_is_installed

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
