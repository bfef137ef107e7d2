"""Ids to context vectors and to wide shifts."""

import pytest
import torch

from monocal.neural.context import ContextEncoder, field_offsets
from monocal.neural.network import WideShift

SIZES = [3, 2, 4]
IDS = torch.tensor([[1, 1, 3], [0, 0, 0], [2, 0, 1]], dtype=torch.int32)


def test_trainable_vectors_join_in_field_order():
    encoder = ContextEncoder(SIZES, n_dimensions=2)
    context = encoder(IDS)
    assert context.shape == (3, 6)
    assert torch.equal(context[0], torch.cat([encoder.table[1], encoder.table[4], encoder.table[8]]))


def test_unseen_values_start_at_the_zero_vector_and_are_trained_when_they_occur():
    encoder = ContextEncoder(SIZES, n_dimensions=2)
    assert encoder(IDS)[1].abs().sum() == 0
    encoder(IDS[1:2]).sum().backward()
    assert encoder.table.grad[[0, 3, 5]].abs().min() == 1.0
    assert encoder.table.grad.abs().sum() == 6.0


@pytest.mark.parametrize("strange", [3, 99, -1])
def test_ids_that_a_field_does_not_have_are_unseen_and_never_a_neighbours(strange):
    encoder, wide = ContextEncoder(SIZES, n_dimensions=2), WideShift(SIZES)
    wide.set_([[0.0, 1, 2], [0, 3], [0, 4, 5, 6]])
    ids, unseen = torch.tensor([[strange, 1, 1]]), torch.tensor([[0, 1, 1]])
    assert torch.equal(encoder(ids), encoder(unseen))
    assert wide(ids).item() == wide(unseen).item() == 7.0


def test_a_frozen_table_has_no_gradient_and_travels_with_the_state():
    tables = [torch.full((size, 2), float(i)) for i, size in enumerate(SIZES)]
    encoder = ContextEncoder(SIZES, table=tables)
    assert encoder.is_frozen
    assert list(encoder.parameters()) == []
    assert encoder(IDS)[0].tolist() == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]
    other = ContextEncoder(SIZES, table=torch.zeros(9, 2))
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other(IDS), encoder(IDS))


def test_a_frozen_table_is_copied():
    table = torch.zeros(9, 2)
    encoder = ContextEncoder(SIZES, table=table)
    table += 1.0
    assert encoder(IDS).abs().sum() == 0


def test_sparse_gradients_touch_only_the_rows_in_the_batch():
    encoder, wide = ContextEncoder(SIZES, n_dimensions=2, sparse=True), WideShift(SIZES, sparse=True)
    (encoder(IDS).sum() + wide(IDS).sum()).backward()
    for gradient in (encoder.table.grad, wide.shifts.grad):
        assert gradient.is_sparse
        assert set(gradient.coalesce().indices()[0].tolist()) == {0, 1, 2, 3, 4, 5, 6, 8}


def test_same_seed_same_vectors():
    first, second, third = (ContextEncoder(SIZES, seed=seed).table for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_wide_shifts_start_at_zero_and_sum_over_fields():
    wide = WideShift(SIZES)
    assert wide(IDS).abs().sum() == 0
    wide.set_([[0.0, 1, 2], [0, 10], [0, 100, 200, 300]])
    assert wide(IDS).tolist() == [311.0, 0.0, 102.0]


def test_refusals_name_the_argument():
    with pytest.raises(ValueError, match=r"field_ids: got a tensor of shape \(3, 2\); expected shape \(rows, 3\)"):
        ContextEncoder(SIZES)(IDS[:, :2])
    with pytest.raises(ValueError, match=r"field_sizes: got \[\]"):
        field_offsets([])
    with pytest.raises(ValueError, match=r"table: got a tensor of shape \(8, 2\); expected 9 rows"):
        ContextEncoder(SIZES, table=torch.zeros(8, 2))
