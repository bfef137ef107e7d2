"""Settings are checked once; what is not given comes from the environment."""

from pathlib import Path

import pytest

import monocal
from monocal.core.errors import InvalidInput
from monocal.serving import Settings

TOKEN = "0123456789abcdefgh"


def test_the_token_is_not_shown():
    assert TOKEN not in repr(Settings(Path("model"), token=TOKEN))


@pytest.mark.parametrize("token", [f"{TOKEN}ß", f"{TOKEN}\n{TOKEN}", f"{TOKEN}\0", f"{TOKEN}\udcff"])
def test_a_token_that_no_header_can_carry_is_refused(token):
    with pytest.raises(InvalidInput, match="token: got .* expected at least 16 characters of printable ASCII"):
        Settings(Path("model"), token=token)


def test_defaults_are_the_safe_ones():
    settings = Settings(Path("model"))
    assert (settings.host, settings.admin_host) == ("127.0.0.1", "127.0.0.1")
    assert (settings.token, settings.missing_fields) == (None, "refuse")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token": "short"}, "token: got 5 characters; expected at least 16"),
        ({"port": 70_000}, "port: got 70000; expected int <= 65535"),
        ({"workers": 0}, "workers: got 0; expected int >= 1"),
        ({"workers": "two"}, "workers: got two; expected int"),
        ({"max_rows": -1}, "max_rows: got -1; expected int >= 1"),
        ({"body_seconds": 0.0}, "body_seconds: got 0.0; expected float > 0.0"),
        ({"name": "../etc"}, "name: got '../etc'; expected letters, digits, dots and dashes"),
        ({"name": "shadow"}, "name: got 'shadow'"),
        ({"missing_fields": "ignore"}, "missing_fields: got 'ignore'; expected one of refuse, unseen"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        Settings(Path("model"), **changes)


def test_the_package_offers_its_names_before_they_are_loaded():
    assert set(dir(monocal.serving)) >= {"Engine", "Settings", "serve", "create_app"}
    with pytest.raises(AttributeError, match="has no attribute 'Server'; it has"):
        _ = monocal.serving.Server


def test_what_is_not_given_comes_from_the_environment(monkeypatch):
    for name, value in (("WORKERS", "3"), ("WATCH", "true"), ("TOKEN", f"{TOKEN}\n"), ("MAX_ROWS", "7")):
        monkeypatch.setenv(f"MONOCAL_{name}", value)
    settings = Settings.from_environment("model", max_rows=9, watch=None)
    assert (settings.workers, settings.watch, settings.token, settings.max_rows) == (3, True, TOKEN, 9)
    with pytest.raises(InvalidInput, match="setting: got 'max_row'; .* did you mean 'max_rows'"):
        Settings.from_environment("model", max_row=9)
