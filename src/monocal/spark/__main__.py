"""`python -m monocal.spark` prints the path of the file that spark-submit wants."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.stdout.write(f"{Path(__file__).parents[1] / '__main__.py'}\n")
