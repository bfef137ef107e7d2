"""Values and gradients of the smooth calibration loss, computed by hand on two batches of four rows."""

import numpy as np
import pytest
import torch

from monocal.core.fields import NULL_ID, STEPS, n_numeric_ids
from monocal.neural.losses import PRESETS, FieldCalibrationLoss, SmoothCalibrationLoss, cross_entropy, squared_error

BATCHES = [
    (np.array([0.12, 0.18, 0.35, 0.72]), np.array([0.0, 1.0, 0.0, 1.0])),
    (np.array([0.15, 0.38, 0.71, 0.79]), np.array([1.0, 0.0, 1.0, 0.0])),
]
FILLED = [1, 3, 7]


def values_and_gradients(loss):
    """Runs both batches; gradients are with respect to the probabilities."""
    values, gradients = [], []
    for p, y in BATCHES:
        probabilities = torch.tensor(p, dtype=torch.float64, requires_grad=True)
        value = loss(torch.logit(probabilities), torch.tensor(y))
        value.backward()
        values.append(value.item())
        gradients.append(probabilities.grad.numpy())
    return values, gradients


@pytest.mark.parametrize(
    ("preset", "tau", "values", "first", "second"),
    [
        ("paper", 0.0, (0.111475, 0.247975), (-0.175, -0.175, 0.175, -0.14), (-0.425, 0.19, 0.125, 0.125)),
        (
            "paper",
            0.5,
            (0.02786875, 0.086428125),
            (-0.04375, -0.04375, 0.04375, -0.035),
            (-0.128125, 0.069375, 0.01375, 0.01375),
        ),
        (
            "paper",
            0.95,
            (0.0002786875, 0.0011915465625),
            (-0.0004375, -0.0004375, 0.0004375, -0.00035),
            (-0.001478125, 0.000890625, -0.00002, -0.00002),
        ),
        ("authors", 0.0, (0.4459, 0.9919), (-0.7, -0.7, 0.7, -0.56), (-1.7, 0.76, 0.5, 0.5)),
        ("authors", 0.5, (0.0557375, 0.3241921875), None, None),
        (
            "authors",
            0.95,
            (0.0000557375, 0.0006307216265625),
            (-0.0000875, -0.0000875, 0.0000875, -0.00007),
            (-0.0008573125, 0.0003473438, -0.0000059, -0.0000059),
        ),
    ],
)
def test_values_and_gradients(preset, tau, values, first, second):
    found, gradients = values_and_gradients(SmoothCalibrationLoss(10, tau, preset))
    np.testing.assert_allclose(found, values, atol=1e-6, rtol=1e-6)
    if first is not None:
        np.testing.assert_allclose(gradients[0], first, atol=1e-9, rtol=1e-6)
        np.testing.assert_allclose(gradients[1], second, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize(
    ("tau", "labels", "scores", "counts"),
    [
        (0.5, (0.625, 0, 0.5), (0.1125, 0.2775, 0.555), (1, 0.75, 1.25)),
        (0.95, (0.07375, 0, 0.0725), (0.014625, 0.035625, 0.0717), (0.145, 0.0975, 0.1475)),
    ],
)
def test_averages_after_two_batches(tau, labels, scores, counts):
    loss = SmoothCalibrationLoss(10, tau, "authors")
    values_and_gradients(loss)
    np.testing.assert_allclose(loss.gaps.label_means[FILLED], labels, atol=1e-9)
    np.testing.assert_allclose(loss.gaps.score_means[FILLED], scores, atol=1e-9)
    np.testing.assert_allclose(loss.gaps.counts[FILLED], counts, atol=1e-9)


def test_cross_entropy_and_squared_error():
    logits, labels = torch.tensor([0.6, -0.4, 0.2, 1.1], dtype=torch.float64), torch.tensor([1.0, 0.0, 0.0, 1.0])
    assert cross_entropy(logits, labels).item() == pytest.approx(0.5089943493, abs=1e-9)
    assert squared_error(logits, labels).item() == pytest.approx(0.1628246217, abs=1e-9)


def test_only_the_paper_forgets_at_the_start_of_an_epoch():
    for preset, forgets in {"paper": True, "authors": False, "monocal": False}.items():
        loss = SmoothCalibrationLoss(10, 0.5, preset)
        values_and_gradients(loss)
        loss.start_epoch()
        assert (loss.gaps.label_means.abs().sum().item() == 0.0) is forgets


def test_presets_close_their_bins_on_different_sides():
    logits, labels = torch.logit(torch.tensor([0.2, 0.25], dtype=torch.float64)), torch.tensor([0.0, 1.0])
    left, right = SmoothCalibrationLoss(10, 0.0, "paper"), SmoothCalibrationLoss(10, 0.0, "authors")
    p = torch.sigmoid(logits)
    assert p[0].item() == 0.2
    assert left(logits, labels).item() == pytest.approx((0.5 - 0.225) ** 2)
    assert right(logits, labels).item() == pytest.approx(0.2**2 + 0.75**2)


def test_bias_corrected_averages_of_a_constant_batch_are_that_batch():
    """However often the same batch is seen, the corrected loss is the loss at tau = 0."""
    p, y = (torch.tensor(column) for column in BATCHES[0])
    alone = SmoothCalibrationLoss(3, 0.0)(torch.logit(p), y).item()
    assert alone > 0.01
    loss = SmoothCalibrationLoss(3, 0.95)
    for _ in range(3):
        assert loss(torch.logit(p), y).item() == pytest.approx(alone, abs=1e-9)


def test_empty_bins_cost_nothing_and_keep_their_averages():
    loss = SmoothCalibrationLoss(10, 0.5, "authors")
    values_and_gradients(loss)
    before = loss.gaps.score_means.clone()
    loss(torch.logit(torch.tensor([0.95], dtype=torch.float64)), torch.tensor([1.0]))
    assert torch.equal(loss.gaps.score_means[FILLED], before[FILLED])


@pytest.mark.parametrize("preset", list(PRESETS))
def test_weight_k_is_the_row_k_times(preset):
    random = np.random.default_rng(0)
    logits, labels = random.normal(-1, 1, 60).round(1), (random.random(60) < 0.3).astype(float)
    times = random.integers(0, 4, 60)
    repeated = np.repeat(np.arange(60), times)
    weighted_loss, repeated_loss = (SmoothCalibrationLoss(5, 0.5, preset) for _ in range(2))
    for _ in range(2):
        by_weight = weighted_loss(torch.tensor(logits), torch.tensor(labels), torch.tensor(times.astype(float)))
        by_rows = repeated_loss(torch.tensor(logits[repeated]), torch.tensor(labels[repeated]))
        assert by_weight.item() == pytest.approx(by_rows.item(), rel=1e-9)


def test_evaluation_mode_remembers_nothing():
    loss = SmoothCalibrationLoss(10, 0.5, "paper").eval()
    values_and_gradients(loss)
    assert loss.gaps.counts.sum().item() == 0.0


def test_field_calibration_loss_sees_errors_that_cancel_in_a_bin():
    ids = torch.tensor([[1, 1], [1, 1], [2, 1], [2, 1]])
    labels = torch.tensor([1.0, 1.0, 0.0, 0.0])
    loss = FieldCalibrationLoss([3, 2], tau=0.0)
    # the first field is off by 0.5 everywhere, the second is right on average
    assert loss(torch.zeros(4), labels, None, ids).item() == pytest.approx(0.125)
    assert SmoothCalibrationLoss(10, 0.0)(torch.zeros(4), labels).item() == pytest.approx(0.0, abs=1e-12)


def test_numbers_between_two_knots_are_one_group():
    """Beside a category of two values: numbers of two stretches, each with as many clicks as predicted, and nulls."""
    ids = torch.tensor([[1, 5], [1, 900], [2, STEPS + 7], [2, STEPS + 90], [1, NULL_ID], [2, NULL_ID]])
    labels = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    sizes = [3, n_numeric_ids(3)]
    by_number = FieldCalibrationLoss(sizes, tau=0.0)(torch.zeros(6), labels, None, ids).item()
    by_stretch = FieldCalibrationLoss(sizes, 0.0, [False, True])(torch.zeros(6), labels, None, ids).item()
    categories = FieldCalibrationLoss(sizes[:1], tau=0.0)(torch.zeros(6), labels, None, ids[:, :1]).item()
    assert by_stretch == pytest.approx(categories / 2)
    assert by_number > by_stretch + 0.05


def test_field_calibration_averages_of_a_constant_batch_are_that_batch():
    ids = torch.tensor([[1], [1], [2], [2]])
    logits, labels = torch.tensor([0.0, 1.0, -2.0, 0.5]), torch.tensor([1.0, 1.0, 0.0, 1.0])
    alone = FieldCalibrationLoss([3], tau=0.0)(logits, labels, None, ids).item()
    averaged = FieldCalibrationLoss([3], tau=0.95)
    for _ in range(3):
        assert averaged(logits, labels, None, ids).item() == pytest.approx(alone, rel=1e-9)


def test_field_calibration_loss_needs_ids():
    with pytest.raises(ValueError, match="pass them, or use SmoothCalibrationLoss"):
        FieldCalibrationLoss([3])(torch.zeros(2), torch.ones(2))
