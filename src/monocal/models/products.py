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
    for one in products:
        for name in (*one.parts, one.whole):
            if name.lower() not in tasks:
                raise UnknownName.among("score column of product", name, score_columns.values())
        found.append(Product(tuple(tasks[name.lower()] for name in one.parts), tasks[one.whole.lower()]))
    wholes = [one.whole for one in found]
    for one in found:
        names = (*one.parts, one.whole)
        if wholes.count(one.whole) > 1 or len(set(names)) < len(names) or set(one.parts) & set(wholes):
            raise InvalidInput.of(
                "product",
                f"{one.whole}={'*'.join(one.parts)}",
                "every whole once, and parts that are no products themselves",
                "write one product of all parts",
            )
    return tuple(found)


def given_earlier_parts(rows: Rows, products: Sequence[Product]) -> Rows:
    """Returns the rows with each part observed only where all parts before it happened.

    A conversion after a click says something about P(conversion | click) only where there was a click.

    Arguments:
        rows: Rows with labels of all parts.
        products: By task.
    """
    labels: dict[str, Any] = dict(rows.labels)
    for one in products:
        happened = np.ones(rows.n_rows, dtype=bool)
        for part in one.parts:
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
    for one in products:
        if one.whole not in answers:
            continue
        missing = [part for part in one.parts if part not in probabilities]
        if missing:
            raise InvalidInput.of(
                "scores",
                f"{one.whole!r} without {', '.join(map(repr, missing))}",
                f"the scores of {', '.join(one.parts)}, whose product it is",
                "send or read those as well",
            )
        answers[one.whole] = np.prod([probabilities[part] for part in one.parts], axis=0)
    return answers


def check_no_products(products: Sequence[Product]) -> None:
    """Refuses products to keep where rows come from a prepared log, whose labels stay as they are."""
    if products:
        raise InvalidInput.of(
            "product", "a prepared log", "a table with scores, if its products are to agree", "fit the table itself"
        )
