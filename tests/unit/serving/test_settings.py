"""Settings are checked once, and a worker gets the same ones."""

from pathlib import Path

import pytest

import monocal.serving
from monocal.core.errors import InvalidInput
from monocal.serving import Settings


def test_settings_survive_the_way_to_a_worker():
    settings = Settings(
        Path("a/model"), token="t" * 20, workers=3, shadow_folder=Path("b"), missing_fields="unseen", watch=True
    )
    assert Settings.from_json(settings.to_json()) == settings


def test_the_token_is_not_shown():
    assert "secret" not in repr(Settings(Path("model"), token="secret" * 4))


def test_defaults_are_the_safe_ones():
    settings = Settings(Path("model"))
    assert settings.host == "127.0.0.1"
    assert settings.token is None
    assert settings.missing_fields == "refuse"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token": "short"}, "token: got 5 characters; expected at least 16"),
        ({"port": 70_000}, "port: got 70000; expected 0 to 65535"),
        ({"workers": 0}, "workers: got 0; expected a positive number"),
        ({"max_rows": -1}, "max_rows: got -1; expected a positive number"),
        ({"name": "../etc"}, "name: got '../etc'; expected letters, digits, dots and dashes"),
        ({"name": "shadow"}, "name: got 'shadow'"),
        ({"missing_fields": "ignore"}, "missing_fields: got 'ignore'; expected one of refuse, unseen"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        Settings(Path("model"), **changes)


def test_the_package_offers_its_names_without_loading_the_web_server():
    import subprocess
    import sys

    root = str(Path(monocal.__file__).parents[1])
    program = (
        f"import sys; sys.path.insert(0, {root!r}); import monocal.serving;"
        "print([name for name in ('starlette', 'uvicorn', 'sklearn', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
    assert set(dir(monocal.serving)) >= {"Engine", "Settings", "serve", "create_app"}
    with pytest.raises(AttributeError, match="has no attribute 'Server'; it has"):
        _ = monocal.serving.Server
