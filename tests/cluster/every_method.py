"""What every process of a launcher runs: a fit of each method that is fitted in shards, one after the other.

torchrun --nproc-per-node 2 every_method.py LOG FOLDER NAME...
"""

import json
import sys
import zlib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from monocal.calibrators import calibrator
from monocal.core.process_group import join_from_environment, leave
from monocal.models.fit import fit_log
from monocal.tables.encoded import open_encoded

N_SHARDS = 4
SMALL = {"size": "small", "n_dimensions": 4}
FITS = {
    "wide_logistic": ("wide_logistic", {"carry": "auto"}),
    "wide_logistic, late labels": ("wide_logistic", {"carry": "auto"}),
    "umc": ("umc", SMALL),
    "umc, smooth calibration loss": ("umc", SMALL | {"carry": "none", "sc_weight": 1.0}),
    "sbcr": ("sbcr", {"hidden": (16,)}),
    "fac": ("fac", {"carry": "none"}),
    "desc": ("desc", {"hidden": (16,), "n_dimensions": 4}),
    "mcnet": ("mcnet", {"hidden": (16,)}),
}


class Noted:
    """A member that keeps a checksum of what every reduction gave it."""

    def __init__(self, team):
        self.rank, self.size, self._team = team.rank, team.size, team
        self.checksums = []

    def all_sum(self, numbers):
        return self._noted(self._team.all_sum(numbers))

    def all_max(self, numbers):
        return self._noted(self._team.all_max(numbers))

    def _noted(self, found):
        self.checksums.append(zlib.crc32(found.tobytes()))
        return found


def found(log, name, team):
    """What a member has learned and heard in the end, as JSON values."""
    method, settings = FITS[name]
    epochs = {} if method == "wide_logistic" else {"n_epochs": 1}
    noted = Noted(team)
    # of the youngest rows a fifth of the positives has its label
    maturity = np.linspace(1.0, 0.2, log.n_rows) if name.endswith("late labels") else None
    asked = calibrator(method, **(settings | epochs))
    model = fit_log(replace(log, maturity=maturity), asked, n_shards=N_SHARDS, team=noted)
    state = model.tasks[0].calibrator.state()
    arrays = {name: sha256(array.tobytes()).hexdigest() for name, array in state.arrays.items()}
    return json.loads(json.dumps({"arrays": arrays, "values": state.values, "reductions": noted.checksums}))


if __name__ == "__main__":
    log, folder = open_encoded(sys.argv[1]).part("calibration"), Path(sys.argv[2])
    team = join_from_environment()
    for name in sys.argv[3:]:
        (folder / f"{name} {team.rank}.json").write_text(json.dumps(found(log, name, team)))
    leave()
