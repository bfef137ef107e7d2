"""The online level of one worker: corrects its answers, writes labels down, and follows what all workers wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from monocal.core.errors import MonocalError
from monocal.core.samples import Ids
from monocal.core.spaces import Floats, logit, shift_probabilities
from monocal.operations.online_level import FeedbackLog, LevelRules
from monocal.serving.engine.engine import Engine
from monocal.serving.engine.request import Answer, Request
from monocal.serving.logs import log_failure


@final
class LiveLevel:
    """Holds the level that the feedback log amounts to; every worker folds the same log, so all have the same one.

    The level belongs to one model: when another one begins to serve, corrections begin at nothing again.

    Arguments:
        folder: Where the feedback log is.
        rules: How far and how fast the level may go.
        file_bytes: Length after which a new file is begun.
    """

    def __init__(self, folder: Path, rules: LevelRules, file_bytes: int) -> None:
        self.log = FeedbackLog(folder, rules, file_bytes)

    def start(self, engine: Engine) -> None:
        """Follows a model; refuses rules with a field that it does not have."""
        sizes = dict(zip(engine.field_names, engine.field_sizes, strict=True))
        self.log.begin(engine.version, sizes)
        self.log.read()

    def corrected(self, answer: Answer, request: Request, engine: Engine) -> Answer:
        """Returns the answer with the level added to every logit, and says what was added."""
        corrections = {}
        probabilities = {}
        for task, p in answer.probabilities.items():
            is_product = any(task == product.whole for product in engine.products)
            # a product follows its parts; it has no level of its own
            shift = np.zeros(answer.n_rows) if is_product else self._corrections(task, answer, engine)
            corrections[task] = shift
            probabilities[task] = shift_probabilities(p, shift) if shift.any() else p
        probabilities = engine.agreed(probabilities)
        fused = answer.fused if answer.fused is None else engine.fused(request, probabilities, answer.n_rows)
        return Answer(probabilities, fused, answer.version, answer.logits, answer.ids, corrections, answer.known)

    async def learn(self, engine: Engine, version: str, rows: Mapping[str, dict[str, Floats]], ids: Ids) -> bool:
        """Writes labels down; says no if they belong to another model than the one followed.

        Arguments:
            engine: The model that serves.
            version: The model whose answers these were.
            rows: Per task `probabilities`, `corrections`, `labels` and `known` (rows that have a label).
            ids: Ids of the rows' field values.
        """
        if version != engine.version:
            return False
        said = {}
        for task, columns in rows.items():
            known = columns["known"].astype(bool)
            base = logit(columns["probabilities"][known]) - columns["corrections"][known]
            places = {name: engine.field_names.index(name) for name in self.log.rules.fields}
            said[task] = {
                "base": base.tolist(),
                "labels": columns["labels"][known].tolist(),
                "ids": {name: ids[known, place].tolist() for name, place in places.items()},
            }
        is_kept = await asyncio.to_thread(self.log.append, version, said)
        self.log.read()
        return is_kept

    async def reset(self) -> None:
        """Removes the correction in every worker."""
        await asyncio.to_thread(self.log.reset)
        self.log.read()

    async def follow(self, engine: Engine) -> None:
        """Folds what other workers wrote, and begins anew for another model."""
        try:
            if self.log.version != engine.version:
                sizes = dict(zip(engine.field_names, engine.field_sizes, strict=True))
                await asyncio.to_thread(self.log.begin, engine.version, sizes)
            self.log.read()
            self.log.follow_with_new_file()
        except (MonocalError, OSError) as error:
            log_failure("the online level cannot follow its log", error)

    def metrics(self) -> list[Metric]:
        """Returns what a scrape tells about the level."""
        level = GaugeMetricFamily("monocal_online_level", "Correction added to every logit.", labels=["task"])
        largest = GaugeMetricFamily(
            "monocal_online_shift_largest", "Largest correction of a field's value.", labels=["task", "field"]
        )
        steps = GaugeMetricFamily("monocal_online_steps", "Batches of labels learned.", labels=["task"])
        for task, facts in self.log.level.summary().items():
            level.add_metric([task], facts["level"])
            steps.add_metric([task], float(facts["n_steps"]))
            for field, value in facts["largest_by_field"].items():
                largest.add_metric([task, field], value)
        return [level, largest, steps]

    def facts(self) -> dict[str, Any]:
        """Returns the level in force for the operator."""
        return {"version": self.log.version, "tasks": self.log.level.summary()}

    def _corrections(self, task: str, answer: Answer, engine: Engine) -> Floats:
        if self.log.version != engine.version:
            return np.zeros(answer.n_rows)
        ids = {name: answer.ids[:, engine.field_names.index(name)] for name in self.log.level.rules.fields}
        return self.log.level.corrections(task, ids, answer.n_rows)
