"""A fitted calibrator goes on with new rows: what was learned is kept as far as it proved to hold."""

from monocal.calibrators.statistical.refreshing.day import Refreshed, refresh_effects
from monocal.calibrators.statistical.refreshing.kept_state import centred, kept_or_refused, known_at_fit, resumed

__all__ = ["Refreshed", "centred", "kept_or_refused", "known_at_fit", "refresh_effects", "resumed"]
