"""Every distortion has its stated closed form, rises strictly, and can be undone."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.scores import sigmoid
from monocal.lab.simulator import (
    WORLDS,
    Affine,
    Compose,
    ConditionalMonotone,
    Drift,
    FieldBias,
    FieldSlope,
    InteractionBias,
    MissedEffects,
    NegativeSampling,
    draw_truth,
    simulate_log,
)

EVERY = [
    Affine(0.5, 0.5),
    NegativeSampling(0.1),
    Drift(0.7),
    FieldBias(("site_id", "device"), 0.4),
    FieldSlope("device", 0.4, pivot=-1.0),
    MissedEffects(("ad_id",), 0.5),
    InteractionBias("site_id", "country", 0.5),
    ConditionalMonotone(),
    ConditionalMonotone(("country",), n_steps=3, width=0.02),
    ConditionalMonotone(width=3.0, width_spread=0.1),
    Compose(FieldBias(("site_id",)), FieldSlope("device"), Affine(1.3, 1.0)),
    Compose(),
]


def name_of(distortion):
    return type(distortion).__name__


def bound(distortion):
    return draw_truth(WORLDS["default"], distortion).distortions["click"]


@pytest.mark.parametrize("distortion", EVERY, ids=name_of)
def test_scores_rise_strictly_with_the_truth_for_fixed_features(distortion):
    features = simulate_log(50).features
    sweep = np.linspace(-8, 6, 400)
    for row in features:
        repeated = np.repeat(row[None, :], sweep.size, axis=0)
        assert np.all(np.diff(bound(distortion).to_scores(sweep, repeated, 0.3)) > 0)
        assert np.all(np.diff(bound(distortion).to_truth(sweep, repeated, 0.3)) > 0)


@pytest.mark.parametrize("distortion", EVERY, ids=name_of)
def test_truth_comes_back_from_the_scores(distortion):
    log = simulate_log(3000, distortion=distortion)
    elapsed = (log.times - 1_767_225_600) / 864_000
    back = bound(distortion).to_truth(log.logits, log.features, elapsed)
    # Times are whole seconds, which is all the drift can be known to.
    assert np.allclose(back, log.true_logits, atol=1e-5 if isinstance(distortion, Drift) else 1e-9)


def test_negative_sampling_is_what_training_on_kept_rows_would_say():
    log = simulate_log(200_000, world="downsampled")
    keep = (log.labels == 1) | (np.random.default_rng(0).random(log.n_rows) < 0.1)
    scores, labels = log.scores[keep], log.labels[keep]
    noise = np.sqrt(np.sum(scores * (1 - scores))) / labels.size
    assert abs(scores.mean() - labels.mean()) < 4 * noise


def test_field_bias_is_one_number_per_value():
    log = simulate_log(20_000, distortion=FieldBias(("site_id",), 0.4))
    bias = log.logits - log.true_logits
    site = log.features[:, 0]
    for value in np.unique(site)[:100]:
        assert np.ptp(bias[site == value]) < 1e-9
    assert abs(np.std([bias[site == value][0] for value in np.unique(site)]) - 0.4) < 0.05


def test_conditional_map_is_slope_shift_and_steps():
    alike = dict.fromkeys((f"{name}_spread" for name in ("slope", "shift", "height", "place", "width")), 0)
    distortion = ConditionalMonotone(height=2.0, place=-1.0, width=0.1, slope=0.7, shift=0.3, **alike)
    log = simulate_log(2000, distortion=distortion)
    expected = 0.3 + 0.7 * log.logits + 2.0 * sigmoid((log.logits + 1.0) / 0.1)
    assert np.allclose(expected, log.true_logits, atol=1e-9)


def test_the_conditional_maps_shape_depends_on_the_features():
    world = draw_truth(WORLDS["conditional"]).distortions["click"]
    features = simulate_log(300, world="conditional").features
    heights = world.to_truth(np.full(300, 5.0), features) - world.to_truth(np.full(300, -9.0), features)
    assert np.std(heights) > 0.3


def test_bad_distortions_explain_themselves():
    with pytest.raises(InvalidInput, match=r"Affine\.slope: got -1\.0; expected a positive number"):
        Affine(slope=-1.0)
    with pytest.raises(InvalidInput, match="the share of negatives kept"):
        NegativeSampling(0.0)
    with pytest.raises(InvalidInput, match=r"ConditionalMonotone\.width: got 0\.0"):
        ConditionalMonotone(width=0.0)
    with pytest.raises(UnknownName, match="did you mean 'device'"):
        simulate_log(10, distortion=FieldSlope("devise"))
