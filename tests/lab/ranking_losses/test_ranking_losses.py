"""Ranking losses against published and hand-computed numbers, numerical gradients, and the law of weights."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from monocal.core.errors import InvalidInput, UnknownName
from monocal.lab.ranking_losses import (
    BetaPrior,
    CalibratedSoftmax,
    JointRankingCalibration,
    ListwiseDistillation,
    LogLoss,
    PreferencePairs,
    RegressionCompatibleRanking,
    SelfBoostedPairs,
)
from monocal.lab.ranking_losses import pairs as pairs_module
from monocal.lab.ranking_losses.base import LossRows


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


LABELS, LOGITS = numbers(1, 0, 0, 1), numbers(0.6, -0.4, 0.2, 1.1)
ONE_LIST = torch.zeros(4, dtype=torch.int64)
TEACHER = torch.logit(numbers(0.8, 0.2, 0.35, 0.9))
DUMPED = numbers(0.3, 0.1, -0.5, 0.8)
EXPECTED_RATES = (numbers(0.3, 0.3, 0.1, 0.1) + numbers(0.2, 0.4, 0.2, 0.4)) / 2


def close(found, expected):
    assert float(found) == pytest.approx(expected, abs=1e-9)


def test_log_loss():
    close(LogLoss()(LOGITS, LABELS), 0.5089943493)


def test_rcr():
    close(RegressionCompatibleRanking(1.0)(LOGITS, LABELS, groups=ONE_LIST), 1.2155762902)
    close(RegressionCompatibleRanking(0.5)(LOGITS, LABELS, groups=ONE_LIST), 0.8622853197)
    close(RegressionCompatibleRanking(1.0)(LOGITS, torch.zeros(4), groups=ONE_LIST), 0.0)


def test_calibrated_softmax():
    close(CalibratedSoftmax(0.1)(numbers(0.6, 0.8), numbers(1, 0), groups=torch.zeros(2)), 1.1808171874)
    close(CalibratedSoftmax(0.5)(LOGITS, LABELS, groups=ONE_LIST), 3.4088906288)


def test_jrc_of_the_specification():
    logits = torch.stack([numbers(0.1, 0.3, -0.2, 0.0), numbers(0.7, -0.1, 0.0, 1.1)], dim=1)
    groups = torch.tensor([1, 1, 2, 2])
    close(JointRankingCalibration(alpha=1.0)(logits, LABELS, groups=groups), 0.5089943493)
    close(JointRankingCalibration(alpha=0.0)(logits, LABELS, groups=groups), 0.5136784325)
    close(JointRankingCalibration()(logits, LABELS, groups=groups), 0.5113363909)
    by_row = JointRankingCalibration().per_row(logits, LossRows(LABELS, None, torch.ones(4), groups, torch.zeros(4)))
    np.testing.assert_allclose(by_row, [0.3711006659, 0.5981388694, 0.7981388694, 0.2873353251], atol=1e-9)


@pytest.mark.parametrize(
    ("competitors", "alpha", "expected"),
    [
        ("other_label", 0.5, 0.7198507876),
        ("all", 0.5, 0.8935583244),
        ("all", 1.0, 0.5473200539),
        ("other_label", 0.0, 0.8923815212),
        ("all", 0.0, 1.2397965949),
    ],
)
def test_jrc_of_the_public_test(competitors, alpha, expected):
    first = numbers(0.9, 0.5, 0.3, 0.2, 0.8, 0.55, 0.33, 0.55)
    logits = torch.stack([first, 1.0 - first], dim=1)
    groups = torch.tensor([5, 5, 5, 5, 2, 2, 2, 2])
    loss = JointRankingCalibration(alpha, competitors)
    close(loss(logits, numbers(0, 0, 1, 1, 0, 0, 1, 1), groups=groups), expected)


def test_jrc_gives_a_list_of_one_row_no_ranking_term_and_decodes_to_the_difference():
    logits = torch.tensor([[0.3, 1.0], [2.0, -1.0]], dtype=torch.float64)
    for competitors in ("all", "other_label"):
        loss = JointRankingCalibration(0.0, competitors)
        close(loss(logits, numbers(1, 0), groups=torch.tensor([1, 2])), 0.0)
        np.testing.assert_allclose(loss.decode(logits), [0.7, -3.0])


def test_calibrated_softmax_decodes_to_the_probability_of_its_optimum():
    """One list of two rows that is clicked with probabilities 0.3 and 0.05: scores at the optimum give them back."""
    loss, scores = CalibratedSoftmax(0.1), torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([scores], max_iter=200, line_search_fn="strong_wolfe", tolerance_grad=1e-12)

    def closure():
        optimiser.zero_grad()
        value = loss(scores, numbers(0.3, 0.05), groups=torch.zeros(2))
        value.backward()
        return value

    optimiser.step(closure)
    np.testing.assert_allclose(loss.decode(scores).sigmoid().detach(), [0.3, 0.05], atol=1e-6)
    assert loss.decode(numbers(50.0)).sigmoid() == pytest.approx(1.0, abs=1e-12)


def test_clid():
    teacher = torch.sigmoid(TEACHER)
    pure = ListwiseDistillation(0.0)
    close(pure(LOGITS, LABELS, groups=ONE_LIST, references=TEACHER), 1.2978507891)
    close(pure(TEACHER, LABELS, groups=ONE_LIST, references=torch.logit(teacher)), 1.2387811634)
    close(ListwiseDistillation()(LOGITS, LABELS, groups=ONE_LIST, references=TEACHER), 0.9034225692)


def test_self_boosted_pairs():
    loss = SelfBoostedPairs(1.0, divide_by_pairs=False)
    close(loss(LOGITS, LABELS, groups=ONE_LIST, references=DUMPED) - 0.5089943493, 0.7517319661)
    halved = SelfBoostedPairs(1.0)  # every row has two pairs
    close(halved(LOGITS, LABELS, groups=ONE_LIST, references=DUMPED) - 0.5089943493, 0.7517319661 / 2)
    first = torch.tensor([0, 0, 0, 1])  # item 0 with both negative rows, the last row alone
    close(4 * (loss(LOGITS, LABELS, groups=first, references=DUMPED) - 0.5089943493) - _of_negatives(), 0.7614123093)
    second = torch.tensor([0, 0, 1, 0])  # item 1 with both positive rows, the third row alone
    of_positives = float(torch.nn.functional.softplus(0.1 - LOGITS[[0, 3]]).sum())
    close(4 * (loss(LOGITS, LABELS, groups=second, references=DUMPED) - 0.5089943493) - of_positives, 0.6664685162)


def _of_negatives():
    """What the two negative rows add when item 0 is their only positive: softplus(s − 0.3)."""
    return float(torch.nn.functional.softplus(LOGITS[1:3] - 0.3).sum())


def test_beta_prior():
    n, clicks = [20, 30, 25, 40], [1, 12, 2, 4]
    once = BetaPrior.fit(n, clicks, max_iterations=1)
    np.testing.assert_allclose([once.a, once.b], [2.2727894377, 6.6055264974], atol=1e-6)
    prior = BetaPrior.fit(n, clicks)
    np.testing.assert_allclose([prior.a, prior.b], [1.7151187444, 8.8446015928], atol=1e-6)
    means = prior.posterior_means(n, clicks)
    np.testing.assert_allclose(means, [0.0888463217, 0.3381462848, 0.1044754770, 0.1130369928], atol=1e-6)
    assert prior.posterior_means([0], [0])[0] == pytest.approx(0.1624208492, abs=1e-6)
    capped = BetaPrior.fit([100] * 50, [10] * 50)
    assert capped.a + capped.b <= 1e4 + 1e-6


def test_preference_pairs():
    close(PreferencePairs(0.0)(LOGITS, LABELS, references=EXPECTED_RATES), 0.6253460360)
    close(PreferencePairs(0.0, space="logit")(LOGITS, LABELS, references=EXPECTED_RATES), 0.4812664086)
    # the published mean also counts the six of sixteen ordered pairs that are ties, with ln 2 each
    rank = (10 * float(PreferencePairs(0.0)(LOGITS, LABELS, references=EXPECTED_RATES)) + 6 * np.log(2)) / 16
    assert rank == pytest.approx(0.6507714652, abs=1e-9)
    half = PreferencePairs(1.0)(LOGITS, LABELS, references=EXPECTED_RATES) / 2
    close(half + rank / 2, 0.5798829073)
    total = PreferencePairs(0.5)(LOGITS, LABELS, references=EXPECTED_RATES)
    close(total, 0.5 * 0.5089943493 + 0.5 * 0.6253460360)


LOSSES = [
    LogLoss(),
    JointRankingCalibration(0.3),
    JointRankingCalibration(0.3, "other_label"),
    RegressionCompatibleRanking(0.4),
    CalibratedSoftmax(0.2),
    ListwiseDistillation(0.4),
    SelfBoostedPairs(0.7),
    PreferencePairs(0.4),
    PreferencePairs(0.4, "logit"),
]


def name_of(loss):
    return type(loss).__name__


def draw(loss, n=14, seed=0):
    rng = np.random.default_rng(seed)
    shape = (n, loss.n_logits) if loss.n_logits > 1 else (n,)
    return {
        "logits": torch.from_numpy(rng.normal(size=shape)),
        "labels": torch.from_numpy(rng.integers(0, 2, n).astype(np.float64)),
        "weights": torch.from_numpy(rng.integers(1, 4, n).astype(np.float64)),
        "groups": torch.from_numpy(rng.integers(0, 4, n)),
        "references": torch.from_numpy(rng.uniform(0.05, 0.95, n)),
    }


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_gradient_is_the_numerical_one(loss):
    batch = draw(loss)
    logits = batch.pop("logits").requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss(z, **batch), (logits,), atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_weight_k_is_the_row_k_times_and_order_does_not_matter(loss):
    batch = draw(loss)
    repeated = torch.repeat_interleave(torch.arange(14), batch["weights"].long())
    repeated = repeated[torch.randperm(len(repeated), generator=torch.Generator().manual_seed(1))]
    rows = {name: column[repeated] for name, column in batch.items() if name != "weights"}
    found = [loss(**batch), loss(**rows)]
    close(found[0], float(found[1]))
    unweighted = {name: column for name, column in batch.items() if name != "weights"}
    assert abs(float(loss(**unweighted)) - float(found[0])) > 1e-6


@pytest.mark.parametrize("loss", LOSSES, ids=name_of)
def test_extreme_logits_and_single_labels_stay_finite(loss):
    for label in (0.0, 1.0):
        batch = draw(loss)
        batch["labels"] = torch.full_like(batch["labels"], label)
        logits = (1e3 * batch.pop("logits")).requires_grad_()
        value = loss(logits, **batch)
        value.backward()
        assert torch.isfinite(value)
        assert torch.isfinite(logits.grad).all()


class Sizes(TorchDispatchMode):
    """Notes the most numbers that any result of an operation has."""

    largest = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for found in result if isinstance(result, tuple | list) else (result,):
            if isinstance(found, torch.Tensor):
                self.largest = max(self.largest, found.numel())
        return result


@pytest.mark.parametrize("loss", [SelfBoostedPairs(), PreferencePairs(), PreferencePairs(space="logit")], ids=name_of)
def test_memory_of_pair_losses_grows_with_the_batch_and_not_with_its_square(loss, monkeypatch):
    """All rows are one list; 600 rows have 360,000 pairs, of which a block of 500 is in memory at a time."""
    monkeypatch.setattr(pairs_module, "BLOCK_PAIRS", 500)
    for n in (300, 600):
        batch = draw(loss, n=n)
        batch["groups"] = torch.zeros_like(batch["groups"])
        logits = batch.pop("logits").requires_grad_()
        kept: list[int] = []

        def keep(saved, kept=kept):
            kept.append(saved.numel())
            return saved

        with Sizes() as sizes, torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
            loss(logits, **batch).backward()
        assert sizes.largest <= max(n, 500)
        assert sum(kept) <= 40 * n
        assert logits.grad.abs().max() > 0.0


def test_what_a_loss_needs_is_named():
    with pytest.raises(InvalidInput, match="groups: got None; expected one number per row for RegressionCompatible"):
        RegressionCompatibleRanking()(LOGITS, LABELS)
    with pytest.raises(InvalidInput, match="references: got None"):
        PreferencePairs()(LOGITS, LABELS)
    with pytest.raises(InvalidInput, match="alpha: got 2"):
        RegressionCompatibleRanking(2)
    with pytest.raises(UnknownName, match="competitors: got 'othr_label'"):
        JointRankingCalibration(competitors="othr_label")
    with pytest.raises(InvalidInput, match="anchor: got 0"):
        CalibratedSoftmax(0)
