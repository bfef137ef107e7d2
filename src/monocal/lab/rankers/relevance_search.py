"""Which past events of a user speak about a request: first by the query, then by the item that is ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import randomized_svd

from monocal.core.spaces import Floats

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
