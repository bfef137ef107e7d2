"""A simulated video search: queries, pages of results, and users whose past decides what they do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from monocal.core.fields import Ids
from monocal.core.scores import Floats, logit, sigmoid
from monocal.lab.simulator.draws import draw_power_law, random_stream
from monocal.lab.simulator.log import SimulatedLog, check_n_rows
from monocal.lab.simulator.truth import FIRST_SECOND

Numbers = NDArray[np.int64]
Pasts = NDArray[np.float32]

FIELDS = ("user_id", "query", "item_id", "topic", "style", "position", "hour")
TASKS = ("click", "effective_view", "long_view")

_BASE, _QUALITY, _FITS, _STYLE, _USER = -1.9, 0.5, 0.9, 0.25, 0.3
_INTEREST, _WATCHED = 2.2, 1.3
_POSITION = -0.12
_FORGET = 0.9
_OFF_TOPIC = 0.25
_FAVOURITES, _OTHER_QUERIES = 2, 0.3
_PAGES = 12
_BIAS, _SLOPE, _LEVEL = 0.3, 1.2, 0.4


@final
@dataclass(frozen=True)
class SearchWorld:
    r"""Who asks what, what there is to see, and what makes people click.

    A user asks a query, which is about one topic, mostly one of the user's two, and sees one page of items, each with a
    topic and a style. The true logit of a click is

    .. math:: z = b + q_i + 0.9\,[\text{topic}_i = \text{topic}_q] + s_{\text{style}} + a_u - 0.12\,\text{place}
        + 2.2\,h, \qquad h = \frac{n^+ - n^-}{2 + n^+ + n^-}

    with :math:`n^+, n^-` the user's past items *of the query's topic and the item's style* that were, and were not,
    viewed effectively; each later page of the user makes the past count 0.9 times as much. Given a click, the chances
    of an effective and of a long view rise with h too. No sum of effects of single values, nor of pairs, gives h: it is
    in the user's past alone. The score is the truth with a wrong slope, a wrong level and a bias by topic.

    Arguments:
        n_users: How many users; a log of n rows has so many, or as many as have twelve pages on average.
        n_queries: How many queries.
        n_items: How many items.
        n_topics: How many topics.
        n_styles: How many styles.
        n_shown: Items of a page.
        days: How many days a log covers.
        seed: Draws the world.
    """

    n_users: int = 20_000
    n_queries: int = 400
    n_items: int = 4_000
    n_topics: int = 8
    n_styles: int = 4
    n_shown: int = 6
    days: int = 10
    seed: int = 0

    def draw(self) -> SearchTruth:
        """Draws every table of the world."""
        random = random_stream("search", self.seed)
        return SearchTruth(
            self,
            query_topics=random.integers(0, self.n_topics, self.n_queries + 1),
            item_topics=random.integers(0, self.n_topics, self.n_items + 1),
            item_styles=random.integers(0, self.n_styles, self.n_items + 1),
            qualities=_QUALITY * random.standard_normal(self.n_items + 1),
            style_effects=_STYLE * random.standard_normal(self.n_styles),
            lengths=random.standard_normal(self.n_items + 1),
            user_effects=_USER * random.standard_normal(self.n_users + 1),
            biases=_BIAS * random.standard_normal(self.n_topics),
            favourites=random.integers(0, self.n_topics, (self.n_users + 1, _FAVOURITES)),
        )


@final
@dataclass(frozen=True)
class SearchTruth:
    """The drawn world; ids of users, queries and items start at 1."""

    world: SearchWorld
    query_topics: Numbers
    item_topics: Numbers
    item_styles: Numbers
    qualities: Floats
    style_effects: Floats
    lengths: Floats
    user_effects: Floats
    biases: Floats
    favourites: Numbers

    def pasts(self, n_users: int) -> Pasts:
        """Returns the empty past of users 0 … n_users: weights of good and bad events by topic and style."""
        return np.zeros((n_users + 1, self.world.n_topics * self.world.n_styles, 2), np.float32)

    def queries(self, random: np.random.Generator, users: Numbers) -> Numbers:
        """Draws one query for each user, mostly about one of the user's two topics."""
        wanted = self.favourites[users, random.integers(0, _FAVOURITES, len(users))]
        queries = draw_power_law(random.random(len(users)), self.world.n_queries, 0.7).astype(np.int64)
        stays = random.random(len(users)) < _OTHER_QUERIES
        for _ in range(40):
            off = ~stays & (self.query_topics[queries] != wanted)
            queries[off] = draw_power_law(random.random(int(off.sum())), self.world.n_queries, 0.7)
        return queries

    def candidates(self, random: np.random.Generator, queries: Numbers, n_each: int) -> Numbers:
        """Draws different items for each query, mostly of its topic."""
        items = draw_power_law(random.random((len(queries), n_each)), self.world.n_items, 0.6).astype(np.int64)
        wanted = self.query_topics[queries][:, None]
        for _ in range(8):
            off = (self.item_topics[items] != wanted) & (random.random(items.shape) > _OFF_TOPIC / 4)
            items = np.where(off, draw_power_law(random.random(items.shape), self.world.n_items, 0.6), items)
        return items

    def probabilities(
        self, users: Numbers, queries: Numbers, items: Numbers, places: Numbers, pasts: Pasts
    ) -> tuple[Floats, dict[str, Floats]]:
        """Returns the true logit of a click, and the probabilities of later tasks given a click.

        Arguments:
            users: User of each page `(pages,)`.
            queries: Query of each page.
            items: Its items `(pages, k)`.
            places: Where on the page each stands, from 0.
            pasts: What `pasts` returned, with what happened since.
        """
        styles = self.item_styles[items]
        key = self.query_topics[queries][:, None] * self.world.n_styles + styles
        good, bad = np.moveaxis(pasts[users[:, None], key].astype(np.float64), -1, 0)
        interest = (good - bad) / (2.0 + good + bad)
        fits = self.item_topics[items] == self.query_topics[queries][:, None]
        logits: Floats = _BASE + self.qualities[items] + _FITS * fits + self.style_effects[styles]
        logits = logits + self.user_effects[users][:, None] + _POSITION * places + _INTEREST * interest
        effective = sigmoid(0.2 + 0.5 * self.lengths[items] + _WATCHED * interest)
        long = effective * sigmoid(-0.3 - 0.7 * self.lengths[items] + _WATCHED * interest)
        return logits, {"effective_view": effective, "long_view": long}

    def scores(self, truth: Floats, queries: Numbers) -> Floats:
        """Returns a score that is too sure of itself, too high, and biased by topic."""
        return sigmoid(_SLOPE * logit(truth) + _LEVEL + self.biases[self.query_topics[queries]][:, None])

    def remember(self, pasts: Pasts, users: Numbers, items: Numbers, effective: NDArray[np.int8]) -> None:
        """Adds one page of each user to the past; an item counts under its own topic and style."""
        pasts[users] *= np.float32(_FORGET)
        key = self.item_topics[items] * self.world.n_styles + self.item_styles[items]
        of_page = np.broadcast_to(users[:, None], items.shape)
        np.add.at(pasts, (of_page, key, 1 - effective.astype(np.int64)), np.float32(1.0))


def simulate_search(n: int, seed: int = 0, world: SearchWorld | None = None) -> SimulatedLog:
    """Simulates a search log in which histories matter, with its truth.

    All items of a page share their time. The same arguments give the same rows.

    Arguments:
        n: How many rows.
        seed: Draws the rows; the world has a seed of its own.
        world: Which world; None means the default one.

    Example:
        >>> log = simulate_search(6_000)
        >>> log.n_rows, log.tasks, log.field_names[:3]
        (6000, ('click', 'effective_view', 'long_view'), ('user_id', 'query', 'item_id'))
    """
    return simulate_pages(n, seed, world or SearchWorld())[0]


def simulate_pages(n: int, seed: int, world: SearchWorld) -> tuple[SimulatedLog, SearchTruth, Pasts]:
    """Returns the log, the drawn world and every user's past after the log."""
    check_n_rows(n)
    truth = world.draw()
    random = random_stream("search rows", world.seed, seed)
    n_pages = -(-n // world.n_shown)
    n_users = min(world.n_users, max(n_pages // _PAGES, 1))
    users = np.sort(draw_power_law(random.random(n_pages), n_users, 0.5)).astype(np.int64)
    starts = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
    numbers = np.arange(n_pages) - np.repeat(starts, np.diff(starts, append=n_pages))
    seconds = random.integers(0, world.days * 86_400, n_pages)
    seconds = seconds[np.lexsort((seconds, users))]
    queries = truth.queries(random, users)
    items = truth.candidates(random, queries, world.n_shown)
    click_luck, watch_luck = random.random(items.shape), random.random(items.shape)
    places = np.broadcast_to(np.arange(world.n_shown), items.shape)
    pasts = truth.pasts(world.n_users)
    columns: dict[str, Floats] = {name: np.empty(items.shape) for name in ("logit", *TASKS[1:])}
    labels = {task: np.zeros(items.shape, np.int8) for task in TASKS}
    for number in range(int(numbers.max()) + 1):
        pages = np.flatnonzero(numbers == number)
        logits, given = truth.probabilities(users[pages], queries[pages], items[pages], places[pages], pasts)
        columns["logit"][pages] = logits
        labels["click"][pages] = click_luck[pages] < sigmoid(logits)
        for task, share in given.items():
            columns[task][pages] = share
            labels[task][pages] = labels["click"][pages] & (watch_luck[pages] < share)
        truth.remember(pasts, users[pages], items[pages], labels["effective_view"][pages])
    order = np.argsort(seconds, kind="stable")
    return _as_log(n, truth, order, users, queries, items, places, seconds, columns, labels), truth, pasts


def page_features(
    truth: SearchTruth, users: Numbers, queries: Numbers, items: Numbers, places: Numbers, hours: Numbers
) -> Ids:
    """Returns field ids `(pages × k, 7)`, page by page."""
    shape = items.shape
    columns = (
        np.broadcast_to(users[:, None], shape),
        np.broadcast_to(queries[:, None], shape),
        items,
        truth.item_topics[items] + 1,
        truth.item_styles[items] + 1,
        places + 1,
        np.broadcast_to(hours[:, None] + 1, shape),
    )
    return np.stack([column.ravel() for column in columns], axis=1).astype(np.int32)


def _as_log(
    n: int,
    truth: SearchTruth,
    order: Numbers,
    users: Numbers,
    queries: Numbers,
    items: Numbers,
    places: Numbers,
    seconds: Numbers,
    columns: dict[str, Floats],
    labels: dict[str, NDArray[np.int8]],
) -> SimulatedLog:
    world = truth.world
    clicks = sigmoid(columns["logit"])
    truths = {"click": clicks} | {task: clicks * columns[task] for task in TASKS[1:]}
    scores = {task: truth.scores(p, queries) for task, p in truths.items()}
    features = page_features(truth, users, queries, items, places, seconds // 3600 % 24)
    by_row = features.reshape(len(order), world.n_shown, -1)[order].reshape(-1, len(FIELDS))[:n]

    def rows(table: NDArray[Any]) -> NDArray[Any]:
        return table[order].ravel()[:n]

    sizes = (world.n_users, world.n_queries, world.n_items, world.n_topics, world.n_styles, world.n_shown, 24)
    return SimulatedLog(
        features=by_row,
        field_names=FIELDS,
        field_sizes=tuple(size + 1 for size in sizes),
        users=by_row[:, 0],
        times=FIRST_SECOND + np.repeat(seconds[order], world.n_shown)[:n],
        true_logits=rows(columns["logit"]),
        logits=logit(rows(scores["click"])),
        labels=rows(labels["click"]),
        task_labels={task: rows(column) for task, column in labels.items()},
        task_scores={task: rows(column) for task, column in scores.items()},
        task_truths={task: rows(column) for task, column in truths.items()},
        given_click={task: rows(columns[task]) for task in TASKS[1:]},
    )
