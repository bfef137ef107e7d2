"""The integral of UMC beside the public package UMNN, with the same weights."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
UMNN = pytest.importorskip("UMNN")

from UMNN.NeuralIntegral import compute_cc_weights  # noqa: E402

from monocal.calibrators import calibrator  # noqa: E402
from monocal.lab.exact_concat.torch_map import ConcatIntegrand, quadrature  # noqa: E402

N_FEATURES = 3
HIDDEN = (50, 50)


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(5)
    return UMNN.MonotonicNN(1 + N_FEATURES, list(HIDDEN), nb_steps=50)


@pytest.fixture(scope="module")
def rows():
    draw = torch.Generator().manual_seed(6)
    return 4.0 * torch.randn(400, 1, generator=draw), torch.randn(400, N_FEATURES, generator=draw)


def ours(theirs, rows, integral, n_steps=50):
    """Our integral of their integrand: features enter by first-layer offsets."""
    scores, features = rows
    first, _, second, _, third, _ = theirs.integrand.net
    integrand = ConcatIntegrand(HIDDEN, torch.Generator(), integral=integral, n_steps=n_steps)
    with torch.no_grad():
        integrand.slopes.copy_(first.weight[:, 0])
        integrand.second.load_state_dict(second.state_dict())
        integrand.third.load_state_dict(third.state_dict())
        return integrand(scores[:, 0], features @ first.weight[:, 1:].T + first.bias)


def their_integral(theirs, rows, n_steps):
    theirs.nb_steps = n_steps
    with torch.no_grad():
        rescaling = theirs.net(rows[1])
        return ((theirs(*rows) - rescaling[:, [0]]) / torch.exp(rescaling[:, [1]]))[:, 0].double()


@pytest.mark.parametrize("n_steps", [2, 3, 4, 5, 20, 50])
def test_rule_umnn_has_the_weights_of_the_package(n_steps):
    weights, steps = compute_cc_weights(n_steps)
    nodes, mine = quadrature("umnn", n_steps)
    assert np.allclose(mine, weights[:, 0].numpy(), atol=1e-6)
    assert np.allclose(nodes, steps[:, 0].numpy(), atol=1e-6)


def test_rule_umnn_gives_the_integral_of_the_package(theirs, rows):
    assert torch.allclose(ours(theirs, rows, "umnn"), their_integral(theirs, rows, 50), rtol=1e-5, atol=2e-5)


def test_preset_authors_trains_by_their_rule(monkeypatch):
    built = []
    start = ConcatIntegrand.__init__

    def listening(self, *arguments, integral, **options):
        built.append(integral)
        start(self, *arguments, integral=integral, **options)

    monkeypatch.setattr(ConcatIntegrand, "__init__", listening)
    random = np.random.default_rng(0)
    z, features = random.normal(-1, 1, 600), random.integers(1, 4, (600, 1))
    labels = random.random(600) < 1 / (1 + np.exp(-z))
    for options in ({"preset": "authors"}, {"preset": "authors", "integral": "exact"}, {"preset": "paper"}):
        calibrator("umc_concat", n_epochs=1, **options).fit(z, labels, features=features, scores_are="logit")
    assert built == ["umnn", "exact", "exact"]
