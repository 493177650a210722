"""The stack of docker-compose.yml, without an engine: each service's own command with its own environment."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from sqlalchemy import make_url

from tests.e2e.service import clean_environment, eventually, free_port
from tests.servers import Postgres

ROOT = Path(__file__).parents[2]
OURS = ("migrate", "api", "worker")
SERVERS = ("postgres", "redis")


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    text = (ROOT / "docker-compose.yml").read_text()
    filled = re.sub(r"\$\{POSTGRES_PASSWORD:\?[^}]*\}", "a-password", text)
    services: dict[str, Any] = yaml.safe_load(filled)["services"]
    return services


@pytest.fixture
def database_url(postgres_server: Postgres) -> Iterator[str]:
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


class Host:
    """Stands for the engine: runs a service's command, its servers' names led to the local ones."""

    def __init__(self, stack: dict[str, Any], database_url: str, redis_url: str, folder: Path) -> None:
        self.stack, self.database_url, self.redis_url, self.folder = stack, database_url, redis_url, folder
        self.port = free_port()

    def environment(self, service: str) -> dict[str, str]:
        given = dict(self.stack[service]["environment"])
        assert make_url(given["BARTSERVE_DATABASE_URL"]).host == "postgres"
        assert make_url(given["BARTSERVE_REDIS_URL"]).host == "redis"
        given |= {"BARTSERVE_DATABASE_URL": self.database_url, "BARTSERVE_REDIS_URL": self.redis_url}
        scripts = str(Path(sys.executable).parent)
        return clean_environment() | {"PATH": f"{scripts}:{os.environ['PATH']}"} | given

    def line(self, command: list[str]) -> list[str]:
        """The command as the file has it, but for the port that is free here."""
        return [str(self.port) if word == "8000" else word for word in command]

    def run(self, service: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.line(command),
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def healthy(self, service: str) -> bool:
        kind, *command = self.stack[service]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(service, command).returncode == 0

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                self.line(self.stack[service]["command"]),
                env=self.environment(service),
                stdout=log,
                stderr=log,
            )
            try:
                yield process
            finally:
                process.terminate()
                try:
                    process.wait(40)
                finally:
                    process.kill()


def test_every_service_has_a_health_check_and_waits_for_what_it_needs(stack):
    """Servers are healthy before the one-shot migration, the migration done before API and worker."""
    for name in (*SERVERS, "api", "worker"):
        assert stack[name]["healthcheck"]["test"], name
    assert stack["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    for name in ("api", "worker"):
        assert stack[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        assert stack[name]["depends_on"]["redis"]["condition"] == "service_healthy"


def test_only_loopback_is_published(stack):
    """Nothing of the stack listens on the host's outer addresses."""
    for name, service in stack.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name


def test_the_image_starts_what_the_package_has(stack):
    """Every command of ours in the stack and in the Dockerfile is one that `bartserve` knows."""
    (default,) = re.findall(r"^CMD (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    commands = [stack[name]["command"] for name in OURS] + [yaml.safe_load(default)]
    for command in commands:
        shown = subprocess.run(
            [sys.executable, "-m", "app.cli", *command[1:2], "--help"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert command[0] == "bartserve"
        assert shown.returncode == 0, shlex.join(command)


def test_the_stack_trains_and_predicts(stack, database_url, valkey_url, tmp_path):
    """migrate, api and worker as the file starts them: a key, an upload, a model, an interval."""
    host = Host(stack, database_url, valkey_url, tmp_path)
    migrated = host.run("migrate", stack["migrate"]["command"])
    assert migrated.returncode == 0, migrated.stderr
    with ExitStack() as running:
        running.enter_context(host.running("api"))
        running.enter_context(host.running("worker"))
        eventually(lambda: host.healthy("api"), 30, "the API's health check passes")
        eventually(lambda: host.healthy("worker"), 30, "the worker's health check passes")
        client = running.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{host.port}", timeout=30))
        assert client.get("/datasets").status_code == 401
        made = host.run("api", ["bartserve", "keys", "create", "--name", "test"])
        client.headers["authorization"] = f"Bearer {made.stdout.strip()}"

        model = _train(client)
        answer = client.post(f"/models/{model['id']}/predict", json={"rows": [{"x": 3.0}], "level": 0.9})

        assert answer.status_code == 200, answer.text
        (interval,) = answer.json()["intervals"]
        assert interval["lower"][0] < answer.json()["mean"][0] < interval["upper"][0]


def _train(client: httpx.Client) -> dict[str, Any]:
    rows = "".join(f"{i / 10},{i / 5 + (i % 7)}\n" for i in range(100))
    dataset = client.post("/datasets?name=line", content="x,y\n" + rows, headers={"content-type": "text/csv"})
    assert dataset.status_code == 201, dataset.text
    request = {
        "dataset_id": dataset.json()["id"],
        "target": "y",
        "num_trees": 20,
        "num_draws": 50,
        "num_chains": 2,
    }
    created = client.post("/models", json=request)
    assert created.status_code == 202, created.text
    deadline = time.monotonic() + 300  # the kernels may have to be compiled first
    while time.monotonic() < deadline:
        model: dict[str, Any] = client.get(created.headers["location"]).json()
        if model["state"] not in {"queued", "running"}:
            break
        time.sleep(0.2)
    assert model["state"] == "succeeded", model
    return model
