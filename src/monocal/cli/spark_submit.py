"""The command line as a file, which spark-submit wants.

spark-submit --master yarn $(python -m monocal.spark) apply model/ hdfs:///log --out hdfs:///scored --engine spark
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # the folder of a script is a place of modules, and this one holds parts of a package
    sys.path[:] = [place for place in sys.path if place != str(Path(__file__).parent)]
    from monocal.cli.main import run

    run()
