"""Fields that know the outcome: named by hand, they are still worth a warning."""

from __future__ import annotations

import warnings

import numpy as np

from monocal.core.batches import release_pages
from monocal.core.errors import MonocalWarning
from monocal.logs.encoded_log import EncodedLog
from monocal.tables.field_proposal import explained_share

_A_COPY = 0.9
_SAMPLE_ROWS = 50_000


def warn_about_copies(log: EncodedLog) -> None:
    """Warns about every field that alone explains more than nine tenths of a label's entropy in the first rows.

    Such a field was measured after the fact (a watch time, a follow-up action): a model that uses it is perfect on the
    log and useless in service.
    """
    sample = np.array(log.features[:_SAMPLE_ROWS])
    release_pages(log.features)
    for task, column in log.labels.items():
        labels = np.asarray(column[:_SAMPLE_ROWS])
        known = np.flatnonzero(labels >= 0)
        for index, name in enumerate(log.field_names):
            codes = sample[known, index]
            explained = explained_share(codes, labels[known].astype(np.float64), log.field_sizes[index])
            if explained > _A_COPY:
                warnings.warn(
                    f"field {name!r} tells {log.schema.labels[task]!r}: it explains {100 * explained:.0f} % of it. "
                    "Way out: remove it from the fields if it is known only after the outcome",
                    MonocalWarning,
                    stacklevel=3,
                )
