"""The command line as a module, `python -m monocal`, and as a file, which spark-submit takes.

spark-submit --master yarn $(python -m monocal.spark) apply model/ hdfs:///log --out hdfs:///scored --engine spark
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # a script's own folder is searched for modules, and this one holds parts of a package
    sys.path[:] = [place for place in sys.path if place != str(Path(__file__).parent)]
    from monocal.cli.main import run

    run()
