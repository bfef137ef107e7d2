"""The files in deploy/: read, their commands really run, the image built where docker runs."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

import monocal
from monocal.monitoring.registry import promote

HOME = Path(__file__).parents[3]
DEPLOY = HOME / "deploy"
PATIENCE_SECONDS = 400.0


def instructions():
    """Returns the Dockerfile's instructions in order, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]


def json_of(name):
    return json.loads([rest for word, rest in instructions() if word == name][-1])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The image's own command on a registry, with free ports of this machine in place of the container's."""
    home = tmp_path_factory.mktemp("deploy")
    log = {"pctr": [0.1, 0.3, 0.2, 0.4] * 50, "click": [0, 1, 0, 0] * 50}
    monocal.fit(log, method="platt", score="pctr", label="click").save(home / "model")
    promote(home / "model", home / "registry")
    exchanged = {
        "/models": str(home / "registry"),
        "0.0.0.0": "127.0.0.1",
        "admin_host=0.0.0.0": "admin_host=127.0.0.1",
    }
    words = [{**exchanged, "8080": "0", "9090": "0"}.get(word, word) for word in json_of("CMD")]
    program = [sys.executable, "-m", *json_of("ENTRYPOINT"), *words]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    listening = json.loads(process.stderr.readline())
    yield listening
    process.terminate()
    process.communicate(timeout=PATIENCE_SECONDS)


def test_the_image_s_command_serves_a_registry_and_its_health_check_passes(served):
    word, check = next(rest for word, rest in instructions() if word == "HEALTHCHECK").split("CMD", 1)[0:2]
    program = json.loads(check)
    program = [sys.executable, *(part.replace(":8080/", f":{served['port']}/") for part in program[1:])]
    assert word.startswith("--interval")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run(program, capture_output=True, check=False).returncode and time.monotonic() < deadline:
        time.sleep(0.2)
    assert subprocess.run(program, capture_output=True, check=False).returncode == 0
    assert httpx.get(f"http://127.0.0.1:{served['admin_port']}/metrics", timeout=60).status_code == 200
    assert httpx.get(f"http://127.0.0.1:{served['port']}/metrics", timeout=60).status_code == 404


def test_the_image_runs_without_root_and_from_a_read_only_root():
    words = [word for word, _ in instructions()]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert re.fullmatch(r"[1-9]\d+", dict(instructions())["USER"])
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["monocal"]
    assert service["read_only"] is True
    assert any(place.startswith("/tmp") for place in service["tmpfs"])


def test_no_port_of_the_compose_file_is_open_to_other_machines():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_files_that_the_compose_file_mounts_exist_or_are_said_how_to_make():
    text = (DEPLOY / "compose.yaml").read_text()
    made = {"../registry": "--registry registry/"}
    for service in yaml.safe_load(text)["services"].values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists() or made[source] in text.partition("services:")[0]


def test_probes_ask_what_the_service_answers(served):
    paths = set(httpx.get(f"http://127.0.0.1:{served['port']}/openapi.json", timeout=60).json()["paths"])
    probes = re.findall(r"path: ([^,}\s]+)", (DEPLOY / "kubernetes.yaml").read_text())
    assert probes
    assert set(probes) <= paths
    assert all(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def test_the_image_builds_where_docker_runs():
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no docker daemon here: the Dockerfile was read and its commands run, the image not built")
    program = [docker, "build", "-q", "-f", str(DEPLOY / "Dockerfile"), str(HOME)]
    subprocess.run(program, check=True, timeout=1800)
