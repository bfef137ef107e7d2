"""The fast paths of training give the numbers of the plain ones."""

import numpy as np
import pytest
import torch

from monocal.compiled.first_layer import number_values
from monocal.lab.exact_concat.torch_map import ConcatMap
from monocal.neural import maps
from monocal.neural.context import ContextEncoder, generator_of
from monocal.neural.mlp import BLOCK_ROWS, Mlp, blocked_mlp, linear
from monocal.neural.network import MonotoneMap

SIZES = [4, 200, 3000, 7]
N_ROWS = 3 * BLOCK_ROWS + 17


def field_ids(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return torch.as_tensor(np.stack([rng.integers(0, size, n_rows) for size in SIZES], axis=1).astype(np.int32))


def gradients_of(module, loss):
    module.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters()}


def assert_same(first, second, tolerance=2e-5):
    assert first.keys() == second.keys()
    for name, gradient in first.items():
        scale = float(gradient.to_dense().abs().max())
        torch.testing.assert_close(second[name].to_dense(), gradient.to_dense(), rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("hidden", [(), (12,), (16, 24, 8)])
@pytest.mark.parametrize("with_skip", [True, False])
def test_blocks_equal_the_plain_network(hidden, with_skip):
    net = Mlp(10, hidden, 3, generator_of(0), bias_scale=0.1)
    skip = linear(10, 5, generator_of(1), bias_scale=0.1) if with_skip else None
    both = torch.nn.ModuleList([net, *([skip] if skip is not None else [])])
    x = torch.randn(N_ROWS, 10, generator=generator_of(2), requires_grad=True)
    pull = torch.randn(N_ROWS, 3, generator=generator_of(3))

    def plain(values):
        for layer in net.linears[:-1]:
            values = torch.relu(layer(values))
        return net.last(values)

    loss = (plain(x) * pull).sum() + (0.0 if skip is None else skip(x).square().sum())
    expected = gradients_of(both, loss)
    wanted_x, x.grad = x.grad.clone(), None
    skipped, result = blocked_mlp(x, net.linears, skip)
    torch.testing.assert_close(result, plain(x), rtol=1e-5, atol=1e-5)
    found = gradients_of(both, (result * pull).sum() + skipped.square().sum())
    assert_same(expected, found)
    torch.testing.assert_close(x.grad, wanted_x, rtol=1e-4, atol=1e-4)


def umc(width):
    parts = maps.umc_parts(width, [-2.0, 0.0, 1.0], (20, 12), identity_start=False)
    return MonotoneMap(parts, maps.umc, context_width=width)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("n_rows", [5, N_ROWS])
@pytest.mark.parametrize("build", [umc, lambda width: ConcatMap(width, identity_start=False, hidden=(9, 8))])
def test_fields_train_like_joined_vectors(frozen, sparse, n_rows, build):
    table = torch.randn(sum(SIZES), 3, generator=generator_of(0)) if frozen else None
    encoder = ContextEncoder(SIZES, 3, table=table, sparse=sparse)
    network = build(encoder.width)
    both = torch.nn.ModuleDict({"encoder": encoder, "network": network})
    ids, logits = field_ids(n_rows), torch.linspace(-4, 4, n_rows)
    results, gradients = [], []
    for context in (encoder(ids), encoder.fields(ids)):
        results.append(network(logits, context))
        gradients.append(gradients_of(both, results[-1].square().mean()))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)
    assert_same(*gradients, tolerance=2e-4)
    if not frozen:
        assert gradients[1]["encoder.table"].is_sparse == sparse


def test_desc_takes_fields():
    encoder = ContextEncoder(SIZES, 3)
    one = MonotoneMap(maps.desc_parts(4, 3, (20,), sees_score=True), maps.desc, context_width=encoder.width)
    ids, logits = field_ids(), torch.linspace(-4, 4, N_ROWS)
    torch.testing.assert_close(one(logits, encoder.fields(ids)), one(logits, encoder(ids)), rtol=1e-4, atol=1e-4)


def test_fields_treat_strange_ids_as_unseen():
    encoder = ContextEncoder(SIZES, 3)
    ids = field_ids()
    ids[:5, 1], ids[5:9, 0] = 200, -3
    unseen = ids.clone()
    unseen[:5, 1], unseen[5:9, 0] = 0, 0
    layer = linear(encoder.width, 6, generator_of(0))
    found = encoder.fields(ids).linear(layer.weight, layer.bias)
    torch.testing.assert_close(found, layer(encoder(unseen)), rtol=1e-5, atol=1e-6)


def test_training_is_repeatable_to_the_last_bit():
    def trained():
        encoder = ContextEncoder(SIZES, 3)
        network = umc(encoder.width)
        optimiser = torch.optim.Adam([*network.parameters(), *encoder.parameters()], lr=0.01)
        for step in range(3):
            ids = field_ids(seed=step)
            optimiser.zero_grad()
            network(torch.linspace(-4, 4, N_ROWS), encoder.fields(ids)).square().mean().backward()
            optimiser.step()
        return [*network.parameters(), *encoder.parameters()]

    for first, second in zip(trained(), trained(), strict=True):
        assert torch.equal(first, second)


def test_values_are_numbered_field_by_field():
    ids = field_ids().numpy()
    batch = number_values(ids, np.asarray(SIZES))
    offsets = np.cumsum([0, *SIZES[:-1]])
    assert np.array_equal(batch.rows[batch.slots], ids + offsets)
    assert len(np.unique(batch.rows)) == len(batch.rows) == batch.starts[-1]
    for f in range(4):
        assert set(batch.rows[batch.starts[f] : batch.starts[f + 1]]) == set(ids[:, f] + offsets[f])
