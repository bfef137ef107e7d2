"""What a calibrator promises; the contract tests hold it to every word."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Tags:
    """Promises of one calibrator.

    Attributes:
        monotone: Whether a higher score never gets a lower probability *for a fixed feature row*: `strict` (a
            higher one wherever float64 can tell them apart), `weak` (ties allowed) or `none`.
            With features two impressions may still swap, so AUC can move.
        features: Whether field ids are `unused`, `optional` or `required`.
        keeps_mean: The mean prediction on the fitting rows equals their observed rate: PCOC there is 1.
        deterministic: The same rows and seed give the same numbers.
        weights_exactly: Integer weights give the same fit as repeated rows. Where false (training by mini-batches),
            weights enter every loss and statistic that way, but the batches differ.
        reconstruction: No released code exists; this follows public summaries.
    """

    monotone: Literal["strict", "weak", "none"]
    features: Literal["unused", "optional", "required"] = "unused"
    keeps_mean: bool = False
    deterministic: bool = True
    weights_exactly: bool = True
    reconstruction: bool = False

    @property
    def uses_features(self) -> bool:
        return self.features != "unused"

    def as_dict(self) -> dict[str, str | bool]:
        return asdict(self)
