"""QIN, the ranker of the UMC paper's online experiment: what users did before, searched by query and by item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import randomized_svd

from monocal.core.errors import InvalidInput, check_known
from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.lab.prepare.encoded_log import EncodedLog, Histories
from monocal.lab.rankers.base import chosen_tasks
from monocal.lab.rankers.neural_ranker import NeuralRanker
from monocal.lab.rankers.scored_log import Tables

if TYPE_CHECKING:
    from torch import Tensor

    from monocal.lab.rankers.qin_network import QINNetwork


Vectors = NDArray[np.float32]


@final
@dataclass(frozen=True, eq=False)
class ContentVectors:
    """Queries and items in one space, of length 1, or 0 where nothing is known; cosines compare them.

    Attributes:
        queries: One vector per query id.
        items: One vector per item id.
    """

    queries: Vectors
    items: Vectors

    @classmethod
    def fit(
        cls,
        queries: NDArray[np.integer],
        items: NDArray[np.integer],
        sizes: tuple[int, int],
        n_dimensions: int,
    ) -> ContentVectors:
        r"""Factorises who was clicked for what: queries and items that were clicked together are near each other.

        The count of a pair is divided by the square roots of both totals; the leading singular vectors of that matrix,
        scaled by the roots of their values, are the vectors.

        Arguments:
            queries: Query id of each clicked row.
            items: Item id of each clicked row.
            sizes: Ids of queries and of items.
            n_dimensions: Length of a vector.
        """
        known = (queries > 0) & (items > 0)
        counts = csr_matrix((np.ones(int(known.sum())), (queries[known], items[known])), shape=sizes)
        counts.sum_duplicates()
        row_total, column_total = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
        left, right = (1.0 / np.sqrt(np.where(total > 0.0, total, 1.0)) for total in (row_total, column_total))
        scaled = counts.multiply(left[:, None]).multiply(right[None, :]).tocsr()
        n_found = min(n_dimensions, min(sizes) - 1)
        # Lanczos iterations (`svds`) draw new directions from a generator of their own where values repeat
        u, values, vt = randomized_svd(scaled, n_found, n_iter=7, random_state=0)
        roots = np.sqrt(np.maximum(values, 0.0))
        return cls(_of_length_1(u * roots), _of_length_1(vt.T * roots))


def search(
    content: ContentVectors,
    queries: NDArray[np.int64],
    targets: NDArray[np.int64],
    past_items: NDArray[np.int64],
    n_by_query: int,
    n_by_item: int,
) -> NDArray[np.int64]:
    """Returns which past events to keep `(b, n_by_item)`, as columns of `past_items`, most similar first.

    Of equal similarity the newer event is kept. Columns without an event come last, whatever is left.

    Arguments:
        content: The space in which things are similar.
        queries: Query id of each row.
        targets: Item id of each row.
        past_items: Item ids of its past events, newest first, −1 where there is none.
        n_by_query: Events that pass the comparison with the query.
        n_by_item: Events that then pass the comparison with the item.
    """
    absent = past_items < 0
    vectors = content.items[np.where(absent, 0, past_items)]
    to_query = np.einsum("bkd,bd->bk", vectors, content.queries[queries])
    to_query[absent] = -np.inf
    rows = np.arange(len(past_items))[:, None]
    if n_by_query < past_items.shape[1]:
        kept = np.sort(np.argsort(-to_query, axis=1, kind="stable")[:, :n_by_query], axis=1)
    else:
        kept = np.broadcast_to(np.arange(past_items.shape[1]), past_items.shape)
    to_item = np.einsum("bkd,bd->bk", vectors[rows, kept], content.items[targets])
    to_item[absent[rows, kept]] = -np.inf
    best = np.argsort(-to_item, axis=1, kind="stable")[:, :n_by_item]
    return np.asarray(kept[rows, best], dtype=np.int64)


def _of_length_1(vectors: Floats) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 1e-12, lengths, 1.0)).astype(np.float32)


_MOST_TASKS = 6


@final
@dataclass(eq=False, repr=False)
class QIN(NeuralRanker):
    r"""A query-dominant interest network: searches the user's past, attends to what it finds, one head per task.

    Of the last `n_recent` events before a row, the `n_by_query` most similar to the query are kept, and of these the
    `n_by_item` most similar to the item; similarity is the cosine of vectors learned beforehand from clicks of the
    training rows (see `ContentVectors`), without a gradient. The network attends to them (see `QINNetwork`).

    Needs a log with histories: `monocal lab prepare --history user_id`, or `with_histories`. There is no
    released code, and the sizes are not public: this is our reconstruction. The published network compares pretrained
    embeddings of text and video; a log has none.

    References:
        Query-dominant user interest network for large-scale search ranking. arXiv 2310.06444, 2023.

    Takes the arguments of `NeuralRanker` beside its own.

    Arguments:
        query: The field that is asked for, such as `query`; None, where nothing is asked, compares with the item alone.
        item: The field of the item's id; None means `item_id` or `video_id`.
        attributes: Fields of the item's attributes; None means those of `topic`, `style`, `author_id`, `tag` there are.
        n_recent: Events that are searched.
        n_by_query: Events that are similar to the query.
        n_by_item: Events that the network sees.
        tasks: Which tasks; None means all of the log. What a user did with a past item is read off the same tasks.
        hidden: Shared widths.
        batch_rows: Rows per step.
    """

    name: ClassVar[str] = "qin"
    network_: QINNetwork = field(init=False)

    query: str | None = "query"
    item: str | None = None
    attributes: Sequence[str] | None = None
    n_recent: int = 100
    n_by_query: int = 50
    n_by_item: int = 20
    tasks: Sequence[str] | None = None
    hidden: tuple[int, ...] = (256, 128)
    batch_rows: int = 4096

    def _tasks(self, log: EncodedLog) -> tuple[str, ...]:
        tasks = chosen_tasks(self.tasks, log.tasks)
        if len(tasks) > _MOST_TASKS:
            raise InvalidInput.of("tasks", f"{len(tasks)} tasks", f"at most {_MOST_TASKS}", "name the ones you need")
        return tasks

    def _learn_inputs(self, train: EncodedLog) -> None:
        if not 1 <= self.n_by_item <= self.n_by_query <= self.n_recent:
            raise InvalidInput.of(
                "n_recent, n_by_query, n_by_item",
                f"{self.n_recent}, {self.n_by_query}, {self.n_by_item}",
                "numbers that fall, the last at least 1",
                "use 100, 50, 20",
            )
        past = _histories(train)
        query, item, _ = self._places()
        clicked = train.labels[self.tasks_[0]] == 1
        items = train.features[clicked, item]
        if query is None:
            # items that the same past event led to are alike
            last = past.last(np.flatnonzero(clicked), 1)[:, 0]
            asked = np.where(last >= 0, past.features[np.maximum(last, 0), item], 0)
            sizes = (self.field_sizes_[item], self.field_sizes_[item])
        else:
            asked = train.features[clicked, query]
            sizes = (self.field_sizes_[query], self.field_sizes_[item])
        self.content_ = ContentVectors.fit(asked, items, sizes, self.n_dimensions)

    def _inputs(self, log: EncodedLog, rows: Any) -> Ids:
        past, features = _histories(log), np.asarray(log.features[rows])
        return self.inputs(features, past.last(rows, self.n_recent), past)

    def inputs(self, features: Ids, events: NDArray[np.int64], past: Histories) -> Ids:
        """Returns what the network reads: fields, then items, attributes and engagement of the events that were found.

        Arguments:
            features: Field ids of the rows to score.
            events: The last events before each, as rows of the whole log, newest first, −1 where there is none.
            past: The whole log.
        """
        query, item, attributes = self._places()
        past_items = np.where(events >= 0, past.features[np.maximum(events, 0), item].astype(np.int64), -1)
        targets = features[:, item].astype(np.int64)
        asked = targets if query is None else features[:, query].astype(np.int64)
        content = self.content_ if query is not None else ContentVectors(self.content_.items, self.content_.items)
        # ids that training did not know count as unseen
        targets, asked = (
            np.where(ids < len(known), ids, 0) for ids, known in ((targets, content.items), (asked, content.queries))
        )
        past_items = np.where(past_items < len(content.items), past_items, 0)
        kept = search(content, asked, targets, past_items, self.n_by_query, self.n_by_item)
        chosen = np.take_along_axis(events, kept, axis=1)
        is_event = chosen >= 0
        chosen = np.maximum(chosen, 0)
        codes = np.ones(chosen.shape, np.int32)
        for place, task in enumerate(self.tasks_):
            codes += (np.asarray(past.labels[task][chosen]) == 1).astype(np.int32) << place
        columns = [features, *(past.features[chosen, field] for field in (item, *attributes))]
        return np.concatenate([*columns, np.where(is_event, codes, 0)], axis=1).astype(np.int32)

    def _places(self) -> tuple[int | None, int, tuple[int, ...]]:
        names = self.field_names_
        item = self.item or next((name for name in ("item_id", "video_id") if name in names), "item_id")
        attributes = self.attributes
        if attributes is None:
            attributes = [name for name in ("topic", "style", "author_id", "tag") if name in names]
        if not attributes:
            raise InvalidInput.of("attributes", None, "at least one field of the item", "name it: attributes=['tag']")
        wanted = {"item": [item], "attributes": list(attributes), "query": [self.query] if self.query else []}
        for argument, fields in wanted.items():
            for name in fields:
                check_known(argument, name, names)
        query = None if self.query is None else names.index(self.query)
        return query, names.index(item), tuple(names.index(name) for name in attributes)

    def _network(self, rows: Tensor | None = None) -> QINNetwork:
        from monocal.lab.rankers.qin_network import QINNetwork

        _, item, attributes = self._places()
        network = QINNetwork(
            self.field_sizes_,
            item,
            attributes,
            self.n_by_item,
            2 ** len(self.tasks_) + 1,
            self.n_dimensions,
            self.hidden,
            self.n_outputs,
            rows,
        )
        return network.start(self.seed) if rows is None else network

    def _input_arrays(self) -> dict[str, NDArray[Any]]:
        return {"content_queries": self.content_.queries, "content_items": self.content_.items}

    def _restore_inputs(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.content_ = ContentVectors(arrays["content_queries"], arrays["content_items"])

    def _embeddings(self) -> Tables | None:
        return tuple(np.split(self.network_.embeddings().numpy(), np.cumsum(self.field_sizes_)[:-1]))


def _histories(log: EncodedLog) -> Histories:
    if log.histories is None:
        raise InvalidInput.of(
            "log", "no histories", "what each row's user did before", 'prepare it again with history="user_id"'
        )
    return log.histories
