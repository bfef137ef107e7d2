"""Distortions that depend on the values of fields: biases, slopes, forgotten effects and interactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from monocal.core.fields import Ids
from monocal.core.scores import Floats
from monocal.lab.simulator.distortions import Distortion, FieldSpace, Shift
from monocal.lab.simulator.draws import Key, random_stream

Tables = tuple[tuple[int, Floats], ...]


def value_table(space: FieldSpace, field: int, *label: str | int) -> Floats:
    """Returns one standard normal number per id of a field, `(size + 1,)`; 0 for id 0."""
    described = space.fields[field]
    table = random_stream(*space.key, *label, described.name).standard_normal(described.size + 1)
    table[0] = 0.0
    return table


def sum_over_fields(features: Ids, tables: Tables) -> Floats:
    """Returns the sum of every field's table entry, row by row."""
    total = np.zeros(features.shape[0])
    for field, table in tables:
        total += table[features[:, field]]
    return total


@final
@dataclass(frozen=True)
class FieldBias(Shift):
    r"""Adds a bias of its own for each value of some fields: :math:`z_{score} = z_{true} + \sum_f \beta_f[x_f]`.

    The biases are normal numbers with the given standard deviation.

    Arguments:
        fields: The names of the fields.
        scale: Standard deviation of the biases.
    """

    fields: tuple[str, ...]
    scale: float = 0.3

    def _draw(self, space: FieldSpace) -> Tables:
        places = [space.index(name) for name in self.fields]
        return tuple((place, self.scale * value_table(space, place)) for place in places)

    def _shift(self, features: Ids, _elapsed: Floats, drawn: Tables) -> Floats:
        return sum_over_fields(features, drawn)


@final
@dataclass(frozen=True)
class MissedEffects(Shift):
    r"""Leaves out a share of what some fields truly do: :math:`z_{score} = z_{true} - \sum_f q\,e_f[x_f]`.

    Arguments:
        fields: The names of the fields.
        share: q, how much of their effect the ranker does not know, 0 to 1.
    """

    fields: tuple[str, ...]
    share: float = 0.5

    def _draw(self, space: FieldSpace) -> Tables:
        places = [space.index(name) for name in self.fields]
        return tuple((place, -self.share * space.effects[place]) for place in places)

    def _shift(self, features: Ids, _elapsed: Floats, drawn: Tables) -> Floats:
        return sum_over_fields(features, drawn)


@final
@dataclass(frozen=True)
class FieldSlope(Distortion):
    r"""Stretches the logit by a factor that depends on one field: :math:`z_{score} = s[x_f]\,(z_{true} - c) + c`.

    The factors are log-normal, hence positive, so the order within one value is kept.

    Arguments:
        field: The name of the field.
        scale: Standard deviation of the logarithm of the factor.
        pivot: c, the logit that stays where it is.
    """

    field: str
    scale: float = 0.3
    pivot: float = 0.0

    def _draw(self, space: FieldSpace) -> tuple[int, Floats]:
        place = space.index(self.field)
        return place, np.exp(self.scale * value_table(space, place))

    def _to_scores(self, logits: Floats, features: Ids, _elapsed: Floats, drawn: tuple[int, Floats]) -> Floats:
        place, slopes = drawn
        return slopes[features[:, place]] * (logits - self.pivot) + self.pivot

    def _to_truth(self, logits: Floats, features: Ids, _elapsed: Floats, drawn: tuple[int, Floats]) -> Floats:
        place, slopes = drawn
        return (logits - self.pivot) / slopes[features[:, place]] + self.pivot


@final
@dataclass(frozen=True)
class InteractionBias(Shift):
    r"""Adds a bias for each pair of value groups: :math:`z_{score} = z_{true} + M[g(x_a), g(x_b)]`.

    Arguments:
        first: The name of one field.
        second: The name of the other.
        scale: Standard deviation of the biases.
        n_groups: How many groups each field's values fall into.
    """

    first: str
    second: str
    scale: float = 0.3
    n_groups: int = 20

    def _draw(self, space: FieldSpace) -> PairTable:
        return PairTable.between(space, self.first, self.second, self.n_groups, self.scale, space.key)

    def _shift(self, features: Ids, _elapsed: Floats, drawn: PairTable) -> Floats:
        return drawn.look_up(features)


@final
@dataclass(frozen=True)
class PairTable:
    """One number per pair of value groups of two fields."""

    places: tuple[int, int]
    rows: Ids
    columns: Ids
    table: Floats

    @classmethod
    def between(cls, space: FieldSpace, first: str, second: str, n_groups: int, scale: float, key: Key) -> PairTable:
        """Draws groups and numbers; id 0 of either field belongs to a group whose numbers are 0."""
        places = space.index(first), space.index(second)
        stream = random_stream(*key, "pair", first, second)
        rows, columns = (_groups(stream, space.fields[place].size, n_groups) for place in places)
        table = np.zeros((int(rows.max()) + 1, int(columns.max()) + 1))
        table[1:, 1:] = scale * stream.standard_normal((table.shape[0] - 1, table.shape[1] - 1))
        return cls(places, rows, columns, table)

    def look_up(self, features: Ids) -> Floats:
        first, second = self.places
        found: Floats = self.table[self.rows[features[:, first]], self.columns[features[:, second]]]
        return found


def _groups(stream: np.random.Generator, size: int, n_groups: int) -> Ids:
    groups = np.zeros(size + 1, dtype=np.int32)
    # A field with no more values than groups keeps one group per value.
    groups[1:] = np.arange(1, size + 1) if size <= n_groups else stream.integers(1, n_groups + 1, size)
    return groups
