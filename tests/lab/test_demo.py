"""The first run: its table shows umc ahead of what a practitioner would use, for a reason that it prints."""

from monocal.lab import demo
from monocal.lab.demo import RIVAL, SAVED_METHOD, run_demo

N_ROWS = 50_000
"""A third of the real run; 10,000 rows fit and as many judge, of which later ones accept the network."""


def _run(monkeypatch, monocal_command, folder):
    """Calls the verb with fewer methods, since the others cost most of its time; returns what it found, too."""
    found = []

    def with_fewer_methods(*arguments, **wishes):
        found.append(run_demo(*arguments, methods=("none", RIVAL, SAVED_METHOD), **wishes))
        return found[0]

    monkeypatch.setattr(demo, "run_demo", with_fewer_methods)
    ended = monocal_command("demo", "--out", str(folder), "--rows", str(N_ROWS))
    assert ended.code == 0, ended.err
    return ended.out, found[0]


def test_the_table_shows_umc_ahead_and_the_reason_is_printed(monkeypatch, monocal_command, tmp_path):
    text, found = _run(monkeypatch, monocal_command, tmp_path)
    compared = found.comparison
    assert compared.best.method == SAVED_METHOD
    assert compared.result(SAVED_METHOD).carry_over["network_share"] > 0.2, "umc is ahead by its convex start alone"
    assert compared.verdict_against_best(compared.result(RIVAL)) == "worse"
    assert found.errors[SAVED_METHOD] < 0.9 * found.errors[RIVAL] < 0.9 * found.errors["none"]
    assert [line.split()[0] for line in text.splitlines()[3:6]] == [SAVED_METHOD, RIVAL, "none"]
    told = " ".join(text.split())
    assert f"Log-loss of {SAVED_METHOD} is {found.lead.verdict} than that of {RIVAL}" in told
    assert found.lead.verdict.startswith("better by")
    # the distortion of this world depends on the device
    assert "errors depend on device and score together" in told
    assert found.lead.error < 0.75 * found.lead.other_error
    assert max(map(len, text.split("\nmodel ")[0].splitlines())) <= 80


def test_where_the_page_does_not_change_no_reason_is_made_up(monkeypatch, monocal_command, tmp_path):
    """A weak ranker leaves something to umc here, too, but nothing that one field and the score together explain."""
    monkeypatch.setattr(demo, "AFTER", demo.BEFORE)
    text, found = _run(monkeypatch, monocal_command, tmp_path)
    assert not found.lead.is_visible
    assert str(found.lead) in text
    assert "errors depend on" not in text
