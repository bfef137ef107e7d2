"""Adam without torch's class around it is torch's Adam."""

import torch

from monocal.training.dense_adam import DenseAdam


def trained(make):
    """Thirty steps on a small network; one weight has no gradient in the first ten."""
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(shape, generator=generator, requires_grad=True) for shape in ((5, 7), (7,), (7, 1), (3,))]
    adam = make(weights)
    for step in range(30):
        for weight in weights:
            weight.grad = None
        rows = torch.randn(16, 5, generator=generator)
        loss = (torch.relu(rows @ weights[0] + weights[1]) @ weights[2]).square().mean()
        (loss if step < 10 else loss + (weights[3] + 1.0).square().sum()).backward()
        adam.param_groups[0]["lr"] = 0.01 / (step + 1)
        adam.step()
        if step == 20:
            state, adam = adam.state_dict(), make(weights)
            adam.load_state_dict(state | {"param_groups": adam.state_dict()["param_groups"]})
    return weights


def test_the_steps_are_those_of_torchs_fused_adam_to_the_bit():
    expected = trained(lambda weights: torch.optim.Adam(weights, fused=True))
    assert all(torch.equal(weight, other) for weight, other in zip(trained(DenseAdam), expected, strict=True))
