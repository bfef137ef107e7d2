r"""Whether probabilities that must multiply do: :math:`p(\text{click}) \cdot p(\text{buy} \mid \text{click})` against
:math:`p(\text{click and buy})`.

A bid for conversions is computed from either side; if the two disagree, one of them is wrong in money.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from monocal.core.errors import InvalidInput
from monocal.core.samples import check_length, check_weights
from monocal.judging.compare import compare
from monocal.judging.evaluate import evaluate
from monocal.metrics.forecast import check_probabilities
from monocal.models.products import Product

__all__ = ["FAR_APART", "KNOWN_PRODUCTS", "Product", "ProductCheck", "check_product", "check_products"]

FAR_APART = 0.1
"""Rows whose product differs from the whole by more than this share of it count as disagreeing."""


KNOWN_PRODUCTS = (Product(("pctr", "pcvr"), "pctcvr"),)
"""Score columns whose names say that they must multiply."""


@final
@dataclass(frozen=True)
class ProductCheck:
    """How far a product is from its whole.

    Attributes:
        parts: What was multiplied.
        whole: What it should equal.
        stage: "score" for the ranker's own numbers, "calibrated" for those after calibration.
        ratio: Sum of products over sum of wholes; 1 is agreement on average.
        mean_gap: Mean absolute difference per row.
        disagreeing_share: Share of rows where the two differ by more than a tenth.
        product_pcoc: Predicted over observed positives of the product; NaN without labels.
        whole_pcoc: The same for the whole.
        nearer: Which of the two has the smaller log-loss: "product", "whole", "tie", or "" without labels.
    """

    parts: tuple[str, ...]
    whole: str
    stage: str
    ratio: float
    mean_gap: float
    disagreeing_share: float
    product_pcoc: float = float("nan")
    whole_pcoc: float = float("nan")
    nearer: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        text = (
            f"{' × '.join(self.parts)} against {self.whole} ({self.stage}): the product is {self.ratio:.3f} times the "
            f"whole, and {self.disagreeing_share:.0%} of the rows differ by more than {FAR_APART:.0%}"
        )
        if self.nearer:
            judgement = "cannot be told apart by" if self.nearer == "tie" else f"{self.nearer} is nearer by"
            text += f"; PCOC {self.product_pcoc:.3f} against {self.whole_pcoc:.3f}, {judgement} log-loss"
        return text


def check_product(
    parts: Mapping[str, ArrayLike],
    whole: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    whole_name: str = "whole",
    stage: str = "score",
) -> ProductCheck:
    """Compares a product of probabilities with the probability it should be.

    Arguments:
        parts: Probabilities by name, each given the ones before it: click, then conversion given a click.
        whole: Probability of all of it.
        labels: 1 where all of it happened; −1 where nobody knows.
        weights: How often each row counts.
        whole_name: What the whole is called.
        stage: Which numbers these are.

    Example:
        A ranker whose joint score predicts a fifth too much:

        >>> click, buy = np.full(1000, 0.1), np.full(1000, 0.05)
        >>> found = check_product({"pctr": click, "pcvr": buy}, 1.2 * click * buy, whole_name="pctcvr")
        >>> round(found.ratio, 3), found.disagreeing_share
        (0.833, 1.0)
    """
    if len(parts) < 2:
        raise InvalidInput.of("parts", f"{len(parts)} column", "at least two probabilities", "name what is multiplied")
    joint = check_probabilities(whole, "whole")
    n = joint.shape[0]
    product = np.ones(n)
    for name, column in parts.items():
        product *= check_length(check_probabilities(column, name), n, name)
    w = np.ones(n) if weights is None else check_weights(weights, n)
    total = float(np.dot(w, joint))
    gap = np.abs(product - joint)
    found = ProductCheck(
        parts=tuple(parts),
        whole=whole_name,
        stage=stage,
        ratio=float(np.dot(w, product)) / total if total > 0.0 else float("nan"),
        mean_gap=float(np.average(gap, weights=w)),
        disagreeing_share=float(np.average(gap > FAR_APART * joint, weights=w)),
    )
    return found if labels is None else _with_labels(found, product, joint, np.asarray(labels), w)


def check_products(
    probabilities: Mapping[str, Mapping[str, ArrayLike]],
    *,
    products: Sequence[Product] = (),
    labels: Mapping[str, ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> list[ProductCheck]:
    """Checks every product whose columns are there, at every stage.

    Arguments:
        probabilities: Stage ("score", "calibrated") to columns by name.
        products: What must multiply, beside the names that everybody uses (pctr, pcvr, pctcvr).
        labels: Labels by the name of the whole.
        weights: How often each row counts.
    """
    found = []
    for stage, columns in probabilities.items():
        by_lower = {name.lower(): name for name in columns}
        for wanted in dict.fromkeys([*products, *KNOWN_PRODUCTS]):
            names = [by_lower.get(name.lower()) for name in (*wanted.parts, wanted.whole)]
            present = [name for name in names if name is not None]
            if len(present) < len(names):
                _refuse_unknown(wanted, products, by_lower)
                continue
            *parts, whole = present
            found.append(
                check_product(
                    {name: columns[name] for name in parts},
                    columns[whole],
                    labels=(labels or {}).get(whole),
                    weights=weights,
                    whole_name=whole,
                    stage=stage,
                )
            )
    return found


def _refuse_unknown(wanted: Product, asked_for: Sequence[Product], known: Iterable[str]) -> None:
    if wanted in asked_for:
        raise InvalidInput.of(
            "product",
            f"{wanted.whole}={'*'.join(wanted.parts)}",
            f"score columns of tasks ({', '.join(known)})",
            "give each of them as a task",
        )


def _with_labels(found: ProductCheck, product: Any, whole: Any, labels: Any, weights: Any) -> ProductCheck:
    known = np.flatnonzero(labels >= 0)
    if not known.size:
        return found
    of_whole, of_product = (
        evaluate(labels[known], p[known], weights=weights[known], metrics=["pcoc", "log_loss"])
        for p in (whole, product)
    )
    verdict = compare(of_whole, of_product).verdict("log_loss")
    nearer = {"better": "product", "worse": "whole", "tie": "tie"}[verdict]
    return ProductCheck(
        **{
            **asdict(found),
            "product_pcoc": of_product.value("pcoc"),
            "whole_pcoc": of_whole.value("pcoc"),
            "nearer": nearer,
        }
    )
