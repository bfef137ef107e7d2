r"""Probabilities of which one is the product of others, and a model that keeps them so.

The likelihood of nested outcomes factors: :math:`P(c, b) = P(c)\,P(b \mid c)`. A calibrator of the first and one of the
second, fitted where the first happened, are therefore the joint fit, and their product is the probability of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from monocal.core.errors import InvalidInput, UnknownName
from monocal.core.spaces import Floats
from monocal.tables.rows import Rows


class Product(NamedTuple):
    """Names of probabilities: the whole should be the product of the parts, each given the ones before it."""

    parts: tuple[str, ...]
    whole: str


def products_of_tasks(products: Sequence[Product], score_columns: Mapping[str, str]) -> tuple[Product, ...]:
    """Returns products by task instead of score column; refuses what a model cannot keep.

    Arguments:
        products: By score column.
        score_columns: Task to its score column.

    Example:
        >>> products_of_tasks([Product(("pctr", "pcvr"), "pctcvr")], {"click": "pctr", "buy": "pcvr", "both": "pctcvr"})
        (Product(parts=('click', 'buy'), whole='both'),)
    """
    tasks = {column.lower(): task for task, column in score_columns.items()}
    found = []
    for product in products:
        for name in (*product.parts, product.whole):
            if name.lower() not in tasks:
                raise _no_score(product, name, list(score_columns.values()))
        found.append(Product(tuple(tasks[name.lower()] for name in product.parts), tasks[product.whole.lower()]))
    wholes = [product.whole for product in found]
    for product in found:
        names = (*product.parts, product.whole)
        if wholes.count(product.whole) > 1 or len(set(names)) < len(names) or set(product.parts) & set(wholes):
            raise InvalidInput.of(
                "product",
                f"{product.whole}={'*'.join(product.parts)}",
                "every whole once, and parts that are no products themselves",
                "write one product of all parts",
            )
    return tuple(found)


def _no_score(product: Product, name: str, columns: list[str]) -> InvalidInput:
    others = [column for column in columns if column not in (*product.parts, product.whole)]
    if others:
        return UnknownName.among("products", name, others, "name its task under tasks=, too")
    what, wish = f"{name!r}, which is the score of no task", f"scores of tasks, which are {', '.join(columns)}"
    return InvalidInput.of("products", what, wish, "name every part and the whole under tasks=")


def given_earlier_parts(rows: Rows, products: Sequence[Product]) -> Rows:
    """Returns the rows with each part observed only where all parts before it happened.

    A conversion after a click says something about P(conversion | click) only where there was a click.

    Arguments:
        rows: Rows with labels of all parts.
        products: By task.
    """
    labels: dict[str, Any] = dict(rows.labels)
    for product in products:
        happened = np.ones(rows.n_rows, dtype=bool)
        for part in product.parts:
            if part in labels:
                labels[part] = np.where(happened, rows.labels[part], -1).astype(rows.labels[part].dtype)
                happened &= rows.labels[part] == 1
    return replace(rows, labels=labels) if products else rows


def with_products(probabilities: Mapping[str, Floats], products: Sequence[Product]) -> dict[str, Floats]:
    """Returns the probabilities with every whole that is asked for as the product of its parts.

    A product of numbers up to 1 is never above any of them, also after rounding: P(both) ≤ P(first).

    Arguments:
        probabilities: By task; that of a whole is not looked at.
        products: By task.

    Example:
        >>> click, buy = np.array([0.1, 0.2]), np.array([0.5, 1.0])
        >>> asked = {"both": np.zeros(2), "click": click, "buy": buy}
        >>> with_products(asked, [Product(("click", "buy"), "both")])["both"].tolist()
        [0.05, 0.2]
    """
    answers = dict(probabilities)
    for product in products:
        if product.whole not in answers:
            continue
        missing = [part for part in product.parts if part not in probabilities]
        if missing:
            raise InvalidInput.of(
                "scores",
                f"{product.whole!r} without {', '.join(map(repr, missing))}",
                f"the scores of {', '.join(product.parts)}, whose product it is",
                "send or read those as well",
            )
        answers[product.whole] = np.prod([probabilities[part] for part in product.parts], axis=0)
    return answers


def check_no_products(products: Sequence[Product]) -> None:
    """Refuses products to keep where rows come from a prepared log, whose labels stay as they are."""
    if products:
        raise InvalidInput.of(
            "product", "a prepared log", "a table with scores, if its products are to agree", "fit the table itself"
        )
