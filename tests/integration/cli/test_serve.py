"""monocal serve."""

import json
import signal
import subprocess
import urllib.request

import pyarrow.parquet as pq
import pytest

import monocal


def test_answers_and_stops_when_told(start_monocal, model_folder, log_file):
    for module in ("starlette", "uvicorn", "msgspec"):
        pytest.importorskip(module, reason="the serve extra is not installed")
    process = start_monocal(
        *("serve", model_folder, "--port", "0"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        facts = json.loads(line)
        if facts.get("event") == "listening":
            break
    row = pq.read_table(log_file).slice(0, 1)
    model = monocal.load(model_folder)
    body = {"scores": {"click": row["pctr"].to_pylist()}, "fields": row.select(list(model.field_names)).to_pydict()}
    request = urllib.request.Request(
        f"http://127.0.0.1:{facts['port']}/v1/calibrate",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        answer = json.load(response)
    assert answer["probabilities"]["click"] == model.predict(row).tolist()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == 0


def test_a_token_from_a_file_must_be_long(monocal_command, model_folder, tmp_path):
    (tmp_path / "token").write_text("short\n")
    ended = monocal_command("serve", model_folder, "--token-file", tmp_path / "token")
    assert ended.code == 2
    assert "token: got 5 characters; expected at least 16" in ended.err
