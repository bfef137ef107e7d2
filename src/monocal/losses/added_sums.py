"""A function of sums over a batch whose rows lie in shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from monocal.core.team import Shards


def of_added_sums(
    value: Callable[[Tensor, float], Tensor], sums: Sequence[Tensor], masses: Sequence[float], shards: Shards
) -> list[Tensor]:
    r"""Returns a scalar per own shard; their mean over all shards, by mass, has value and gradient of the whole.

    .. math:: L = V(S), \quad S = \sum_k s_k, \qquad
              L_k = L + \frac{W}{W_k}\, \langle V'(S),\ s_k - \mathrm{const}(s_k) \rangle

    Every member differentiates V at the sums of all, which are few numbers, and its own rows along that slope.

    Arguments:
        value: V, of the sums and the weight of all shards.
        sums: Of each own shard, `(k, n)`; rows are added each on a scale of its own.
        masses: The weight W of each own shard.
        shards: With whom they are added up.

    Example:
        The square of a sum of 1 and 2, one in each shard: 9, which grows by 6 with either of them.

        >>> import numpy as np
        >>> from monocal.core.team import Alone
        >>> shards = Shards(Alone(), 2, (0, 1), np.array([0, 1, 2]))
        >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        >>> found = of_added_sums(lambda s, _: s.square().sum(), [x[:1, None], x[1:, None]], [1.0, 1.0], shards)
        >>> mean = (found[0] + found[1]) / 2
        >>> mean.backward()
        >>> mean.item(), x.grad.tolist()
        (9.0, [6.0, 6.0])
    """
    *rows, mass = shards.add(
        [[*part.detach().to(torch.float64).numpy(), own] for part, own in zip(sums, masses, strict=True)]
    )
    total = torch.stack([torch.from_numpy(row) for row in rows]).requires_grad_()
    whole = value(total, float(mass))
    (slope,) = torch.autograd.grad(whole, total)
    return [
        whole.detach() + float(mass) / own * (slope * (part - part.detach())).sum() if own > 0.0 else whole.detach()
        for part, own in zip(sums, masses, strict=True)
    ]
