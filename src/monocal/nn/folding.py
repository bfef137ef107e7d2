"""From trained torch modules to the compiled predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from monocal.core.errors import InvalidInput
from monocal.nn.context import ContextEncoder
from monocal.nn.umc import UmcMap
from monocal.nn.wide import WideShift

if TYPE_CHECKING:
    from monocal.kernels.predictor import FoldedPredictor


def fold_umc(
    umc: UmcMap,
    encoder: ContextEncoder | None = None,
    wide: WideShift | None = None,
    *,
    intercept: float = 0.0,
    shared_fields: Sequence[int] = (),
    max_table_bytes: int = 1 << 28,
) -> FoldedPredictor:
    """Returns a predictor on numpy ids that gives `umc(logits, encoder(ids)) + wide(ids) + intercept`.

    A map trained with a quadrature rule is predicted with the exact integral that the rule approximates.

    Arguments:
        umc: The map.
        encoder: What made its context; None if the map ignores features.
        wide: The wide part, if any.
        intercept: Added to every result.
        shared_fields: Fields that are usually equal in consecutive rows (the user of a request).
        max_table_bytes: Budget of the folded table.

    Example:
        >>> import numpy as np
        >>> encoder = ContextEncoder([3, 4], n_dimensions=2)
        >>> predictor = fold_umc(UmcMap(encoder.width), encoder, intercept=0.5)
        >>> predictor.score(np.array([-1.0, 2.0]), np.array([[1, 2], [0, 3]])).round(6).tolist()
        [-0.5, 2.5]
    """
    from monocal.kernels.umc_predictor import umc_predictor

    if encoder is not None and encoder.n_dense:
        raise InvalidInput.of(
            "encoder", f"{encoder.n_dense} dense features", "fields of ids only", "predict through the torch modules"
        )
    if umc.context_width and (encoder is None or encoder.width != umc.context_width):
        raise InvalidInput.of(
            "encoder",
            None if encoder is None else f"a context of {encoder.width} numbers",
            f"the encoder of the map's context, {umc.context_width} numbers wide",
            "pass the encoder it was trained with",
        )
    sizes = next((part.field_sizes.tolist() for part in (encoder, wide) if part is not None), [])
    return umc_predictor(
        {name: tensor.detach().cpu().numpy() for name, tensor in umc.state_dict().items()},
        field_sizes=sizes,
        integrand=umc.integrand,
        vectors=None if encoder is None or not umc.context_width else encoder.table.detach().cpu().numpy(),
        wide_shifts=None if wide is None else wide.shifts.detach().cpu().numpy(),
        intercept=intercept,
        shared_fields=shared_fields,
        max_table_bytes=max_table_bytes,
    )
