"""Adam on the touched rows of a long table."""

import numpy as np
import torch

from monocal.lab.rankers.lazy_table import LazyAdam, LazyTable


def _step(table: LazyTable, adam: LazyAdam, places: list[list[int]]) -> None:
    inside = table.touch(torch.tensor(places))
    (torch.nn.functional.embedding(inside, table.values).sin() ** 2).sum().backward()
    adam.step()


def test_where_a_batch_touches_every_row_it_is_the_adam_of_torch():
    start = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32))
    table, weight = LazyTable(start.clone()), start.clone().requires_grad_()
    lazy, dense = LazyAdam([table], lr=0.1), torch.optim.Adam([weight], lr=0.1)
    for _ in range(4):
        _step(table, lazy, [[0, 1, 2], [3, 4, 0]])
        dense.zero_grad()
        (torch.nn.functional.embedding(torch.tensor([[0, 1, 2], [3, 4, 0]]), weight).sin() ** 2).sum().backward()
        dense.step()
    torch.testing.assert_close(table.rows.detach(), weight.detach(), rtol=1e-6, atol=1e-6)
    assert not torch.allclose(table.rows.detach(), start, atol=0.1)


def test_rows_that_a_batch_does_not_name_keep_their_bits():
    table = LazyTable(torch.arange(8.0).view(4, 2))
    _step(table, LazyAdam([table]), [[3, 1], [1, 1]])
    assert table.rows.detach()[[0, 2]].equal(torch.tensor([[0.0, 1.0], [4.0, 5.0]]))
    assert not table.rows.detach()[1].equal(torch.tensor([2.0, 3.0]))


def test_what_was_remembered_goes_on_with_the_same_bits():
    start = torch.arange(8.0).view(4, 2)
    whole, first = LazyTable(start.clone()), LazyTable(start.clone())
    adam, before = LazyAdam([whole]), LazyAdam([first])
    for places in ([[3, 1]], [[1, 0]]):
        _step(whole, adam, places)
        _step(first, before, places)
    second = LazyTable(first.rows.detach().clone())
    after = LazyAdam([second])
    after.load_state_dict(before.state_dict())
    for places in ([[1, 2]], [[3, 1]]):
        _step(whole, adam, places)
        _step(second, after, places)
    assert second.rows.detach().equal(whole.rows.detach())
