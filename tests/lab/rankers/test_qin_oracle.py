"""QIN's fused attention on two events, worked by hand: two softmaxes and the gate between them."""

import math

import numpy as np
import pytest
import torch

from monocal.lab.rankers.qin_network import QINNetwork

ITEMS = [(0.0, 0.0), (0.6, 0.8), (0.8, 0.6)]
ATTRIBUTES = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
ENGAGEMENT = [(0.0, 0.0), (0.1, 0.0), (0.0, 0.5)]
LN3 = math.log(3.0)


@pytest.fixture
def network():
    """One item field, one attribute field, two logits that are the two numbers of the interest u."""
    built = QINNetwork((3, 3), 0, (1,), n_events=3, n_codes=3, n_dimensions=2, hidden=(4,), n_outputs=2).start(0)
    with torch.no_grad():
        for weight in built.dense_parameters():
            weight.zero_()
        built.table.rows.zero_()
        built.table.rows[:, :2] = torch.tensor([*ITEMS, *ATTRIBUTES])
        built.engagement.copy_(torch.tensor(ENGAGEMENT))
        # scores of attention: 3 cos by id, ln 3 cos by attribute; gate: σ(ln 3 · 2 ε₂)
        built.by_id[0].weight[0, 0], built.by_id[2].weight[0, 0] = 2.0, 1.5
        built.by_attribute[0].weight[0, 0], built.by_attribute[2].weight[0, 0] = 1.0, LN3
        built.gate[0].weight[0, 1], built.gate[2].weight[0, 0] = 4.0, LN3 / 2
        # u = relu(u) − relu(−u) behind the two fields' four numbers
        built.shared[0].weight[:, 4:6] = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        built.heads.copy_(torch.tensor([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]]))
    return built


def test_two_events_and_an_empty_place(network):
    """The target is item 1 with attribute 1; past: item 1, attribute 2, code 1, and item 2, attribute 1, code 2.

    By id: cosines 1 and .96, scores 3 and 2.88, shares σ(.12) = .5299640518 and .4700359482.
    By attribute: cosines 0 and 1, scores 0 and ln 3, shares 1/4 and 3/4.
    Gate: ε₂ = 0 and .5, arguments 0 and ln 3, so 1/2 and 3/4.
    u = 1/2 · .5299640518 (.7, .8) + 1/2 · 1/4 (.1, 1) + 3/4 · .4700359482 (.8, 1.1) + 1/4 · 3/4 (1, .5)
    """
    row = [1, 1, 1, 2, 0, 2, 1, 0, 1, 2, 0]
    found = network.score(torch.tensor([row])).detach().numpy()
    np.testing.assert_allclose(found, [[0.6675089870, 0.8185152780]], atol=1e-6)
    # what stands in a place without an event changes nothing
    other = [1, 1, 1, 2, 2, 2, 1, 2, 1, 2, 0]
    np.testing.assert_allclose(network.score(torch.tensor([other])).detach().numpy(), found, atol=1e-7)


def test_one_event_has_all_of_both_attentions(network):
    """u = 3/4 (.8, 1.1) + 1/4 (1, .5)."""
    row = [1, 1, 2, 0, 0, 1, 0, 0, 2, 0, 0]
    found = network.score(torch.tensor([row])).detach().numpy()
    np.testing.assert_allclose(found, [[0.85, 0.95]], atol=1e-6)


def test_without_events_there_is_no_interest(network):
    row = [1, 1, 1, 2, 1, 1, 2, 1, 0, 0, 0]
    assert network.score(torch.tensor([row])).detach().numpy().tolist() == [[0.0, 0.0]]
