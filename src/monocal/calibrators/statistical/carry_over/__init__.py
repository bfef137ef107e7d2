"""Carries forward only what proved to persist: shares of learned effects, judged on rows that came later."""

from monocal.calibrators.statistical.carry_over.believed import (
    Carry,
    CarryOver,
    carry_among,
    carry_by_position,
    check_carry,
    learn_carry_over,
)
from monocal.calibrators.statistical.carry_over.carried_fit import CarriedFit, fit_carried, line_beside, with_left_out
from monocal.calibrators.statistical.carry_over.level import block_level
from monocal.calibrators.statistical.carry_over.score_curve import ScoreCurve, learn_score_curve, score_curve_beside
from monocal.calibrators.statistical.carry_over.shares import LaterRows, Shares, solve_shares
from monocal.calibrators.statistical.carry_over.shown import (
    NETWORK_LEFT_OUT,
    carried_lines,
    carried_remarks,
    carried_rows,
    curve_remarks,
    is_calendar,
)
from monocal.calibrators.statistical.carry_over.time_blocks import TimeBlocks

__all__ = [
    "NETWORK_LEFT_OUT",
    "ScoreCurve",
    "Carry",
    "CarriedFit",
    "CarryOver",
    "LaterRows",
    "Shares",
    "TimeBlocks",
    "score_curve_beside",
    "curve_remarks",
    "block_level",
    "carried_lines",
    "carried_remarks",
    "carried_rows",
    "carry_among",
    "carry_by_position",
    "check_carry",
    "fit_carried",
    "is_calendar",
    "learn_score_curve",
    "learn_carry_over",
    "with_left_out",
    "line_beside",
    "solve_shares",
]
