"""Watching a model in use: is it still calibrated, day after day, without crying wolf?"""

from monocal.operations.watching.findings import Alarm, Watch
from monocal.operations.watching.run import watch

__all__ = ["Alarm", "Watch", "watch"]
