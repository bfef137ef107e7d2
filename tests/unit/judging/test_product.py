"""Probabilities that must multiply."""

import numpy as np
import pytest

from monocal.core.errors import InvalidInput
from monocal.judging.product import Product, check_product, check_products

RNG = np.random.default_rng(0)
CLICK, BUY = RNG.uniform(0.1, 0.5, 20_000), RNG.uniform(0.1, 0.5, 20_000)
LABELS = (RNG.random(20_000) < CLICK * BUY).astype(np.int8)


def test_agreement():
    found = check_product({"pctr": CLICK, "pcvr": BUY}, CLICK * BUY, labels=LABELS)
    assert found.ratio == pytest.approx(1.0)
    assert found.disagreeing_share == 0.0
    assert found.nearer == "tie"
    assert "cannot be told apart" in str(found)


def test_the_side_that_is_wrong_is_found():
    found = check_product({"pctr": CLICK, "pcvr": BUY}, np.minimum(1.5 * CLICK * BUY, 1.0), labels=LABELS)
    assert found.ratio == pytest.approx(1 / 1.5)
    assert found.nearer == "product"
    assert found.whole_pcoc > 1.3 > 1.1 > found.product_pcoc
    swapped = check_product({"pctr": np.minimum(1.5 * CLICK, 1.0), "pcvr": BUY}, CLICK * BUY, labels=LABELS)
    assert swapped.nearer == "whole"


def test_unknown_labels_are_left_out():
    some = np.where(np.arange(20_000) % 2, LABELS, -1)
    found = check_product({"a": CLICK, "b": BUY}, CLICK * BUY, labels=some)
    odd = np.arange(20_000) % 2 == 1
    assert found.whole_pcoc == pytest.approx((CLICK * BUY)[odd].sum() / LABELS[odd].sum())
    nothing = check_product({"a": CLICK, "b": BUY}, CLICK * BUY, labels=np.full(20_000, -1))
    assert nothing.nearer == ""


def test_weight_means_repetition():
    weights = RNG.integers(0, 3, 20_000)
    one = check_product({"a": CLICK, "b": BUY}, 0.8 * CLICK * BUY, weights=weights)
    rows = np.repeat(np.arange(20_000), weights)
    other = check_product({"a": CLICK[rows], "b": BUY[rows]}, 0.8 * (CLICK * BUY)[rows])
    assert one.ratio == pytest.approx(other.ratio)
    assert one.mean_gap == pytest.approx(other.mean_gap)


def test_known_names_are_checked_without_asking():
    columns = {"pCTR": CLICK, "pCVR": BUY, "pCTCVR": CLICK * BUY, "other": BUY}
    found = check_products({"score": columns})
    assert [(check.parts, check.whole, check.stage) for check in found] == [(("pCTR", "pCVR"), "pCTCVR", "score")]
    assert check_products({"score": {"pctr": CLICK}}) == []
    asked = check_products({"score": columns}, products=[Product(("pctr", "other"), "pctcvr")])
    assert len(asked) == 2


def test_bad_input():
    with pytest.raises(InvalidInput, match="product: got x=pctr\\*nothing; wanted score columns of tasks"):
        check_products({"score": {"pctr": CLICK}}, products=[Product(("pctr", "nothing"), "x")])
    with pytest.raises(InvalidInput, match="parts: got 1 column; wanted at least two probabilities"):
        check_product({"a": CLICK}, CLICK)
    with pytest.raises(InvalidInput, match="b: got 1 rows"):
        check_product({"a": CLICK, "b": BUY[:1]}, CLICK)
