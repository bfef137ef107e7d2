"""The command line, in processes of which the second is killed in the middle of a fit.

It does so itself, because nobody else could choose the moment.

torchrun --nproc-per-node 2 killed_member.py fit LOG ...
"""

import os
import signal
import sys

from monocal.cli.main import main
from monocal.core.process_group import ProcessGroup

REDUCTIONS = 40
"""What a fit of a few thousand rows has added up when it is in its middle."""


def ending(reduced):
    done = []

    def ended(member, numbers, how):
        done.append(1)
        is_first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if member.rank == 1 and is_first and len(done) == REDUCTIONS:
            os.kill(os.getpid(), signal.SIGKILL)
        return reduced(member, numbers, how)

    return ended


if __name__ == "__main__":
    ProcessGroup._reduced = ending(ProcessGroup._reduced)
    sys.exit(main(sys.argv[1:]))
