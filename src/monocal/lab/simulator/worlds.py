"""Worlds: which fields there are, what truly makes people click, and how the ranker misses it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from monocal.core.errors import InvalidInput, check_known
from monocal.lab.simulator.conditional import ConditionalMonotone
from monocal.lab.simulator.distortions import Affine, Compose, Distortion, Drift, NegativeSampling
from monocal.lab.simulator.draws import Field
from monocal.lab.simulator.drifting import Drifting, Lasting
from monocal.lab.simulator.field_distortions import FieldBias, FieldSlope, InteractionBias, MissedEffects


@dataclass(frozen=True)
class Interaction:
    """A true effect of pairs: one normal number per pair of value groups of two fields.

    Attributes:
        first: The name of one field.
        second: The name of the other.
        scale: Standard deviation of the numbers.
        n_groups: How many groups each field's values fall into.
    """

    first: str
    second: str
    scale: float
    n_groups: int = 20


@dataclass(frozen=True)
class World:
    """Everything that is fixed about a simulated log except its rows.

    Two seeds matter: `World.seed` draws the world itself (who likes what, which biases the ranker has); the seed of
    `simulate_log` draws the rows. Two logs of one world with different row seeds are fresh samples of the same truth.

    Arguments:
        summary: One line for people.
        fields: The categorical fields, in the order of the feature columns.
        base_rate: Mean true probability of a click; the intercept is solved for it.
        distortion: How the ranker's score misses the truth.
        interactions: True effects of pairs of fields.
        draws: Which of the two logits is the sum of effects: the `truth`, from which the score follows by the
            distortion, or the `score`, from which the truth follows by undoing it.
        n_users: How many users there are.
        user_exponent: Power law of the users' activity.
        user_effect: Standard deviation of the users' own effect on the true logit.
        trend: How much the true logit rises from the first row to the last, for everybody.
        days: How many days a log covers, whatever its number of rows; traffic has a daily rhythm.
        tasks: The tasks simulated unless the caller chooses.
        seed: Draws the world.
    """

    summary: str
    fields: tuple[Field, ...]
    base_rate: float
    distortion: Distortion
    interactions: tuple[Interaction, ...] = ()
    draws: Literal["truth", "score"] = "truth"
    n_users: int = 20_000
    user_exponent: float = 0.7
    user_effect: float = 0.0
    trend: float = 0.0
    days: int = 10
    tasks: tuple[str, ...] = ("click",)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.base_rate < 1.0:
            raise InvalidInput.of("World.base_rate", self.base_rate, "a rate between 0 and 1", "use 0.07 for 7 %")
        if self.days < 1 or self.n_users < 1 or not self.fields:
            raise InvalidInput.of(
                "World",
                f"{self.days} days, {self.n_users} users, {len(self.fields)} fields",
                "at least one of each",
                "start from a world in WORLDS and use dataclasses.replace",
            )

    def with_seed(self, seed: int) -> World:
        """The same kind of world, drawn anew."""
        return replace(self, seed=seed)


SEARCH = "search"
"""The world of `simulate_search`, which is no `World`: its rows depend on each other."""

SEARCH_SUMMARY = "video search: queries, pages of results, three tasks, and users whose past decides what they do next"


def find_world(world: str | World) -> World:
    """Returns a world by name.

    Example:
        >>> find_world("defalt")
        Traceback (most recent call last):
        ...
        monocal.core.errors.UnknownName: world: got 'defalt'; expected one of ... Hint: did you mean 'default'?
    """
    if isinstance(world, World):
        return world
    check_known("world", world, WORLDS)
    return WORLDS[world]


_SITE_FIELDS = (
    Field("site_id", 2000, effect=0.75),
    Field("ad_id", 500, effect=0.55, drift=0.3),
    Field("country", 40, effect=0.3, source="attribute"),
    Field("hour", 24, effect=0.15, source="hour"),
    Field("position", 10, effect=0.45, shape="falling"),
    Field("device", 5, effect=0.25, source="attribute"),
)
_NAMES = tuple(field.name for field in _SITE_FIELDS)

_DEFAULT = World(
    "six fields, a score that is too sure of itself, biased by field, stale, and blind to an interaction",
    fields=_SITE_FIELDS,
    base_rate=0.066,
    interactions=(Interaction("site_id", "country", 0.35),),
    distortion=Compose(
        MissedEffects(("site_id", "ad_id"), share=0.3),
        FieldBias(_NAMES, scale=0.2),
        InteractionBias("site_id", "country", scale=0.3),
        FieldSlope("device", scale=0.15, pivot=-2.5),
        Drift(-0.2),
        Affine(slope=1.15, intercept=1.5),
    ),
    user_effect=0.4,
    trend=0.1,
    seed=21,
)

_LARGE_FIELDS = (
    Field("slot", 7, effect=0.1),
    Field("position", 7, effect=0.3, shape="falling"),
    Field("site_id", 4_700, effect=0.5),
    Field("site_domain", 7_700, effect=0.3),
    Field("site_category", 26, effect=0.2),
    Field("app_id", 8_500, effect=0.4),
    Field("app_domain", 560, effect=0.2),
    Field("app_category", 36, effect=0.1),
    Field("user_id", 1_000_000, exponent=0.7, effect=0.5, source="user"),
    Field("address", 300_000, exponent=0.7, effect=0.2, source="attribute"),
    Field("device_model", 8_000, effect=0.2, source="attribute"),
    Field("device_type", 5, effect=0.1, source="attribute"),
    Field("connection", 4, effect=0.1),
    Field("ad_id", 100_000, effect=0.5, drift=0.3),
    Field("ad_width", 8, effect=0.1),
    Field("ad_height", 9, effect=0.1),
    Field("campaign", 435, effect=0.3),
    Field("category", 4, effect=0.1),
    Field("flags", 68, effect=0.1),
    Field("audience", 172, effect=0.1),
    Field("hour", 24, effect=0.15, source="hour"),
)

_VIDEO_FIELDS = (
    Field("user_id", 50_000, exponent=0.7, effect=0.5, source="user"),
    Field("video_id", 20_000, effect=0.6),
    Field("author_id", 3_000, effect=0.3),
    Field("tag", 60, effect=0.3),
    Field("position", 10, effect=0.4, shape="falling"),
    Field("hour", 24, effect=0.1, source="hour"),
)

_DRIFTING_FIELDS = (
    Field("product_id", 1500, effect=0.6, arriving=0.3),
    Field("store_id", 120, exponent=0.5, effect=0.3),
    Field("category", 60, effect=0.3),
    Field("placement", 8, effect=0.4),
    Field("weekday", 7, effect=0.1, source="weekday"),
    Field("hour", 24, effect=0.1, source="hour"),
)

WORLDS: dict[str, World] = {
    "default": _DEFAULT,
    "calibrated": replace(_DEFAULT, summary="the score is the truth", distortion=Compose()),
    "affine": replace(
        _DEFAULT, summary="one slope and one intercept are wrong", distortion=Affine(slope=1.5, intercept=2.0)
    ),
    "field_bias": replace(
        _DEFAULT, summary="every field value has a bias of its own", distortion=FieldBias(_NAMES, scale=0.3)
    ),
    "field_slope": replace(
        _DEFAULT,
        summary="the slope depends on the country",
        distortion=FieldSlope("country", scale=0.4, pivot=-2.5),
    ),
    "conditional": replace(
        _DEFAULT,
        fields=tuple(replace(field, effect=0.7 * field.effect, drift=0.0) for field in _SITE_FIELDS),
        interactions=(),
        summary="a step whose height, place and width depend on the features",
        base_rate=0.1,
        distortion=ConditionalMonotone(
            height=1.6,
            place=-2.0,
            shift=-0.9,
            slope_spread=0.15,
            shift_spread=0.3,
            height_spread=0.5,
            place_spread=0.6,
        ),
        draws="score",
        trend=0.0,
    ),
    "downsampled": replace(
        _DEFAULT, summary="the ranker saw one negative in ten", distortion=NegativeSampling(rate=0.1)
    ),
    "large": World(
        "twenty-one fields, up to a million values each",
        fields=_LARGE_FIELDS,
        base_rate=0.17,
        interactions=(Interaction("site_id", "device_type", 0.2), Interaction("app_id", "ad_id", 0.3)),
        distortion=Compose(
            MissedEffects(("ad_id", "user_id"), share=0.3),
            FieldBias(("site_id", "app_id", "campaign", "device_model"), scale=0.2),
            FieldSlope("connection", scale=0.15, pivot=-1.5),
            Drift(-0.2),
            Affine(slope=1.1, intercept=0.3),
        ),
        n_users=1_000_000,
        trend=0.1,
    ),
    "multitask": World(
        "short videos: click, effective view and long view",
        fields=_VIDEO_FIELDS,
        base_rate=0.3,
        interactions=(Interaction("user_id", "tag", 0.4, n_groups=60),),
        distortion=Compose(
            MissedEffects(("video_id",), share=0.3),
            FieldBias(("author_id", "tag", "position"), scale=0.25),
            FieldSlope("tag", scale=0.15, pivot=-1.0),
            Affine(slope=1.2, intercept=0.4),
        ),
        n_users=50_000,
        tasks=("click", "effective_view", "long_view"),
    ),
    "drifting": World(
        "four weeks in which shocks come and go: products last, stores do not, the level wanders",
        fields=_DRIFTING_FIELDS,
        base_rate=0.08,
        distortion=Compose(
            Drifting(
                (
                    Lasting("product_id", persistent=0.35, transient=0.3),
                    Lasting("store_id", persistent=0.05, transient=0.8),
                    Lasting("category", persistent=0.15, transient=0.4, walk=0.1),
                    Lasting("placement", persistent=0.3),
                    Lasting("weekday", persistent=0.1),
                    Lasting("hour", transient=0.2),
                ),
                n_periods=14,
                level_walk=0.05,
                level_shock=0.1,
            ),
            Affine(slope=1.2, intercept=0.8),
        ),
        draws="score",
        days=28,
        seed=5,
    ),
}
