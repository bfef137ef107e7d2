"""The command line, in processes of which the second is killed once a checkpoint is there: it does so itself, because
nobody else could choose the moment.

torchrun --nproc-per-node 2 killed_member.py EPOCHS CHECKPOINT fit LOG ...

EPOCHS is where the first process writes, per checkpoint, which attempt it is and how many epochs are done.
"""

import os
import signal
import sys
from pathlib import Path

from monocal.cli.main import main
from monocal.training.checkpoints import Checkpoint
from monocal.training.process_group import ProcessGroupTeam

ATTEMPT = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def noting(save, epochs):
    def noted(checkpoint, parts, facts):
        save(checkpoint, parts, facts)
        if checkpoint.team.rank == 0:
            with epochs.open("a") as file:
                file.write(f"{ATTEMPT} {facts['history']['n_epochs']}\n")

    return noted


def ending(reduced, folder):
    def ended(team, numbers, how):
        if team.rank == 1 and ATTEMPT == 0 and folder.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return reduced(team, numbers, how)

    return ended


if __name__ == "__main__":
    Checkpoint.save = noting(Checkpoint.save, Path(sys.argv[1]))
    ProcessGroupTeam._reduced = ending(ProcessGroupTeam._reduced, Path(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
