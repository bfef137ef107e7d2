"""Ids to context vectors and to wide shifts; in large batches the numbers of the joined vectors, by sums of rows."""

import numpy as np
import pytest
import torch

from monocal.lab.exact_concat.torch_map import ConcatMap
from monocal.neural import maps
from monocal.neural.context import MANY_ROWS, ContextEncoder, FieldContext, affine, generator_of
from monocal.neural.network import MonotoneMap, WideShift, linear

SIZES = [3, 200, 3000, 7]
IDS = torch.tensor([[1, 1, 3, 0], [0, 0, 0, 0], [2, 0, 1, 6]], dtype=torch.int32)


def encoder_of(trained=True):
    table = torch.randn(sum(SIZES), 3, generator=generator_of(0))
    return ContextEncoder(SIZES, np.arange(sum(SIZES)), table, trained=trained)


def field_ids(n_rows, seed=0):
    random = np.random.default_rng(seed)
    return torch.as_tensor(np.stack([random.integers(0, size, n_rows) for size in SIZES], axis=1).astype(np.int32))


def test_vectors_join_in_field_order_and_only_those_looked_up_learn():
    encoder = encoder_of()
    context = encoder(IDS)
    assert torch.equal(context[0], torch.cat([encoder.table[row] for row in (1, 4, 206, 3203)]))
    encoder(IDS[1:2]).sum().backward()
    assert torch.nonzero(encoder.vectors.grad.sum(dim=1))[:, 0].tolist() == [0, 3, 203, 3203]


@pytest.mark.parametrize("strange", [3, 99, -1])
def test_ids_that_a_field_does_not_have_are_unseen_and_never_a_neighbours(strange):
    encoder, wide = encoder_of(), WideShift([3, 2], np.array([7.0, 1, 2, 0, 3]))
    ids, unseen = torch.tensor([[strange, 1, 1, 1]]), torch.tensor([[0, 1, 1, 1]])
    assert torch.equal(encoder(ids), encoder(unseen))
    assert wide(ids[:, :2]).item() == 10.0


def gradients_of(modules, loss):
    parameters = [parameter for module in modules for parameter in module.parameters() if parameter.requires_grad]
    return [gradient.to_dense() for gradient in torch.autograd.grad(loss, parameters)]


def umc(width):
    parts = maps.umc_parts(width, np.array([-2.0, 0.0, 1.0]), (20, 12), identity_start=False)
    return MonotoneMap(parts, maps.umc, context_width=width)


def desc(width):
    return MonotoneMap(maps.desc_parts(4, 3, (20,), sees_score=True), maps.desc, context_width=width)


@pytest.mark.parametrize("trained", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("build", [umc, desc, lambda width: ConcatMap(width, identity_start=False, hidden=(9, 8))])
def test_rows_of_a_table_train_like_joined_vectors(trained, sparse, build):
    encoder, n_rows = encoder_of(trained), MANY_ROWS + 17
    encoder.sparse = sparse and trained
    network, logits = build(encoder.width), torch.linspace(-4, 4, n_rows)
    context = encoder(field_ids(n_rows))
    assert isinstance(context, FieldContext)
    results = [network(logits, given) for given in (context, context.joined())]
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)
    found, expected = (gradients_of([encoder, network], result.square().mean()) for result in results)
    for gradient, other in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=2e-4, atol=2e-4 * float(other.abs().max()))


def test_large_batches_treat_strange_ids_as_unseen_and_train_to_the_same_last_bit():
    ids = field_ids(MANY_ROWS)
    ids[:5, 1], ids[5:9, 0] = 200, -3
    unseen = ids.clone()
    unseen[:5, 1], unseen[5:9, 0] = 0, 0
    encoder = encoder_of()
    layer = linear(encoder.width, 6, generator_of(0))
    first, second = (affine(layer, encoder(rows)) for rows in (ids, unseen))
    assert torch.equal(first, second)
    gradients = [gradients_of([encoder, layer], result.square().mean()) for result in (first, second)]
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
