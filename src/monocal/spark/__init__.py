"""The same functions on tables of Apache Spark: `pip install monocal[spark]`.

Nothing else in the package knows pyspark, and it is imported only inside the functions.
"""

from monocal.spark.apply import apply, check_rows
from monocal.spark.evaluate import evaluate
from monocal.spark.fit import fit, vocabulary

__all__ = ["apply", "check_rows", "evaluate", "fit", "vocabulary"]
