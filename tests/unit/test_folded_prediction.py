"""The compiled predictors against the torch modules they come from."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from monocal.compiled.umc_predictor import umc_predictor
from monocal.core.monotonicity import assert_monotone, probe_logits
from monocal.neural.torch_maps import ContextEncoder, UmcMap, WideShift

SIZES = [4, 50, 7, 300, 3, 90, 12]
KNOTS = np.linspace(-5, 3, 9)
N_ROWS = 150


def disturb_(module, factor=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(factor).add_(0.1 * torch.randn(parameter.shape, generator=generator))


FORMS = {
    "concat": {"hidden": (20, 12), "rescaling_hidden": (30, 25)},
    "concat, one rescaling layer": {"hidden": (9, 17), "rescaling_hidden": (16,)},
    "concat, no rescaling": {"rescaling": False},
    "knots": {"integrand": "knots", "knots": KNOTS, "trunk": (40, 24, 16)},
    "knots, no rescaling": {"integrand": "knots", "knots": KNOTS, "trunk": (40,), "rescaling": False},
    "few knots": {"integrand": "knots", "knots": [-1.0, 0.5], "trunk": (40, 24), "rescaling": False},
}
LAYOUTS = {
    "all folded": {},
    "large fields": {"max_table_bytes": 20_000},
    "nothing folded": {"max_table_bytes": 0},
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


def build(form, *, wide=True, features=True, factor=1.0, **layout):
    encoder = ContextEncoder(SIZES, n_dimensions=5, scale=0.5)
    umc = UmcMap(encoder.width if features else 0, identity_start=False, **FORMS[form])
    disturb_(umc, factor)
    shifts = WideShift(SIZES) if wide else None
    if shifts is not None:
        disturb_(shifts)
    parts = (umc, encoder if features else None, shifts)
    return parts, umc_predictor(
        {name: tensor.detach().numpy() for name, tensor in umc.state_dict().items()},
        field_sizes=SIZES if features or wide else [],
        integrand=umc.integrand,
        vectors=encoder.table.detach().numpy() if features else None,
        wide_shifts=shifts.shifts.detach().numpy() if wide else None,
        intercept=0.25,
        **layout,
    )


def rows(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    field_ids = np.stack([rng.integers(0, size, n_rows) for size in SIZES], axis=1).astype(np.int32)
    return rng.normal(size=n_rows) * 2.0 - 1.0, field_ids


@torch.no_grad()
def by_torch(parts, logits, field_ids):
    umc, encoder, wide = parts
    ids = torch.as_tensor(field_ids)
    result = umc(torch.as_tensor(logits), None if encoder is None else encoder(ids)) + 0.25
    return (result if wide is None else result + wide(ids)).numpy()


@EVERY_FORM
@pytest.mark.parametrize("layout", LAYOUTS)
def test_equals_the_torch_modules(form, layout):
    parts, predictor = build(form, **LAYOUTS[layout])
    logits, field_ids = rows()
    np.testing.assert_allclose(
        predictor.score(logits, field_ids), by_torch(parts, logits, field_ids), rtol=1e-5, atol=1e-5
    )


@EVERY_FORM
@pytest.mark.parametrize("wide", [True, False])
def test_equals_the_torch_modules_without_features(form, wide):
    parts, predictor = build(form, features=False, wide=wide)
    logits, field_ids = rows()
    used = field_ids if wide else field_ids[:, :0]
    np.testing.assert_allclose(predictor.score(logits, used), by_torch(parts, logits, field_ids), rtol=1e-5, atol=1e-5)


@EVERY_FORM
@pytest.mark.parametrize("layout", ["all folded", "large fields"])
def test_a_rows_result_does_not_depend_on_its_batch(form, layout):
    """Equal to the last bit for one row, odd batches, repeated requests and a shuffled log."""
    _, predictor = build(form, **LAYOUTS[layout])
    logits, field_ids = rows()
    field_ids[40:70, [0, 1, 3, 5, 6]] = field_ids[40, [0, 1, 3, 5, 6]]
    whole = predictor.score(logits, field_ids)
    for size in (1, 7, 32, 33):
        parts = [predictor.score(logits[i : i + size], field_ids[i : i + size]) for i in range(0, N_ROWS, size)]
        assert np.array_equal(np.concatenate(parts), whole)
    order = np.random.default_rng(1).permutation(N_ROWS)
    assert np.array_equal(predictor.score(logits[order], field_ids[order]), whole[order])


@EVERY_FORM
def test_sharp_predictors_never_decrease(form):
    _, predictor = build(form, factor=6.0)
    _, field_ids = rows(12)
    assert assert_monotone(predictor.score, field_ids).worst_fall == 0.0


def test_knots_never_decrease_between_neighbouring_float64_numbers():
    _, predictor = build("knots", factor=10.0)
    starts = np.concatenate([KNOTS, np.random.default_rng(0).uniform(-7, 5, 300)])
    chain = [np.nextafter(starts, -np.inf), starts]
    for _ in range(20):
        chain.append(np.nextafter(chain[-1], np.inf))
    _, field_ids = rows(30)
    check = assert_monotone(predictor.score, field_ids, logits=np.unique(np.concatenate(chain)))
    assert check.worst_fall == 0.0


def test_ids_that_a_field_does_not_have_count_as_unseen():
    _, predictor = build("concat", max_table_bytes=20_000)
    logits, field_ids = rows(3)
    unseen = field_ids.copy()
    unseen[:, [1, 3]] = 0
    for strange in (10_000, -1, 300):
        field_ids[:, [1, 3]] = strange
        assert np.array_equal(predictor.score(logits, field_ids), predictor.score(logits, unseen))


def test_the_table_keeps_its_budget_and_prefers_small_fields():
    _, everything = build("concat")
    _, some = build("concat", max_table_bytes=20_000)
    assert everything.net.vectors.shape[0] == 0
    assert 0 < some.net.table.nbytes <= 20_000
    assert some.net.vectors.shape[0] >= 300
    assert some.net.n_bytes < everything.net.n_bytes


def test_extreme_logits_stay_finite():
    for form in FORMS:
        _, predictor = build(form)
        _, field_ids = rows(4)
        assert np.isfinite(predictor.score(np.array([-40.0, 40.0, 1e-30, 0.0]), field_ids)).all()


def test_threads_may_share_a_predictor():
    _, predictor = build("concat")
    logits, field_ids = rows()
    alone = predictor.score(logits, field_ids)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: predictor.score(logits, field_ids), range(20)):
            assert np.array_equal(result, alone)


def test_no_rows_give_no_results():
    _, predictor = build("concat")
    assert predictor.score(np.empty(0), np.empty((0, len(SIZES)), np.int32)).shape == (0,)


def test_refuses_ids_of_another_schema():
    _, predictor = build("concat")
    with pytest.raises(ValueError, match=r"ids have shape \(2, 6\), expected \(2, 7\)"):
        predictor.score(np.zeros(2), np.zeros((2, 6), np.int32))


def test_the_sweep_of_a_production_check_is_cheap():
    """A proof over 12 feature rows takes as many predictions as probes, nothing more."""
    _, predictor = build("knots")
    seen = []

    def counted(logits, field_ids):
        seen.append(len(logits))
        return predictor.score(logits, field_ids)

    assert_monotone(counted, rows(12)[1])
    assert sum(seen) == 12 * len(probe_logits())


def test_predicting_needs_no_torch():
    code = (
        "import sys, numpy as np\n"
        "from monocal.compiled.umc_predictor import umc_predictor\n"
        "state = {'beta': np.zeros(()), 'curve.knots': np.array([-1.0, 1.0]), 'constants': np.zeros(4)}\n"
        "p = umc_predictor(state, field_sizes=[3], integrand='knots', wide_shifts=np.array([0.0, 1.0, 2.0]))\n"
        "print(p.score(np.array([0.5, 3.0]), np.array([[1], [2]])).tolist(), 'torch' in sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[1.5, 5.0] False"
