"""Every constructor argument of every exported calibrator is explained, and impossible values are refused."""

import math

import pytest

from monocal.calibrators import CALIBRATORS, calibrator
from monocal.calibrators.contract import RANGES, arguments_of
from monocal.cli.main import main
from monocal.core.errors import InvalidInput

PAIRS = [(method, argument) for method, kind in CALIBRATORS.items() for argument in arguments_of(kind)]
SCORES, LABELS, IDS_OF_FIELDS = [0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], [[1], [2], [1], [2]]


def test_every_argument_is_explained():
    assert len(PAIRS) > 100
    silent = [f"{method}: {argument.name}" for method, argument in PAIRS if not argument.meaning]
    assert silent == [], "describe them under 'Arguments:' in the docstrings of their classes"
    kinds = ("a number", "a whole number")
    numbers = {argument.name for _, argument in PAIRS if any(kind in argument.expected for kind in kinds)}
    assert numbers <= set(RANGES), "say in monocal.calibrators.contract.RANGES what these may be"


def impossible_values(argument):
    if not argument.expected:
        return []
    values = ["nonsense"]
    if argument.name in RANGES:
        allowed = RANGES[argument.name]
        values += [math.nan, math.inf]
        if math.isfinite(allowed.low):
            values.append(allowed.low - 1 if allowed.includes_low else allowed.low)
        if math.isfinite(allowed.high):
            values += [allowed.high + 1, 5]
        if "a whole number" in argument.expected:
            values.append(allowed.low + 0.5)
    return values


@pytest.mark.parametrize("method", CALIBRATORS)
def test_impossible_values_are_refused_by_name_and_by_class(method):
    for argument in arguments_of(CALIBRATORS[method]):
        for value in impossible_values(argument):
            expected = rf"^{argument.name}: got .*expected .*(leave {argument.name} out|did you mean)"
            with pytest.raises(InvalidInput, match=expected):
                calibrator(method, **{argument.name: value})
            made = CALIBRATORS[method](**{argument.name: value})
            with pytest.raises(InvalidInput, match=f"^{argument.name}: got"):
                made.fit(SCORES, LABELS, features=IDS_OF_FIELDS)


def test_what_the_defaults_say_is_possible():
    for method, kind in CALIBRATORS.items():
        calibrator(method, **kind().get_params(deep=False))
    calibrator("umc", tau=0, l2=3, carry={"0": 1.0}, seed=7)
    calibrator("umc", n_epochs=2.0)
    calibrator("confcalib", field_weights=[1, 0.5])


def test_the_terminal_tells_every_argument(capsys):
    assert main(["methods", "umc"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for argument in arguments_of(CALIBRATORS["umc"]):
        assert f" {argument.name} = {argument.default!r} " in told
        assert " ".join(argument.meaning.split()) in told
