"""A bounded running correction of the level, learned from labels as they arrive, and replayable from its log."""

from monocal.operations.online_level.feedback_log import FeedbackLog
from monocal.operations.online_level.level import LevelRules, OnlineLevel
from monocal.operations.online_level.replay import replay

__all__ = ["FeedbackLog", "LevelRules", "OnlineLevel", "replay"]
