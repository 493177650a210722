"""The stack of docker-compose.yml without Docker: each service's own command and environment."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url
from typer.testing import CliRunner

from app.cli import app
from app.client import Client
from app.settings import Settings
from tests.support.processes.compose_stack import PASSWORD, ROOT, Host, services
from tests.support.processes.servers import Postgres
from tests.support.routes import every_route
from tests.support.waiting import eventually

OURS = ("migrate", "api", "worker")
LONG_RUNNING = ("postgres", "redis", "api", "worker", "proxy", "sign-in")
PROXY = ROOT / "deploy" / "nginx.conf"
# Spellings of a path that no client outside may read, and what the proxy says to them.
METRICS = ("/metrics", "/metrics/", "//metrics", "/METRICS", "/%6Detrics", "/x/../metrics", "/./metrics")
METRICS += tuple(
    f"/metrics{end}" for end in ("%0A", "%0D", "%00", "%09", "%20", "%2F", "%2E", "%3B", "%23", "?x")
)
HIDDEN = (b"HTTP/1.1 404", b"HTTP/1.1 400")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is not on this machine: apt-get install nginx")


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    return services()


@pytest.fixture
def database_url(postgres_server: Postgres) -> Iterator[str]:
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


def test_every_service_has_a_health_check_and_waits_for_what_it_needs(stack):
    """Migration waits for healthy servers, API and worker for the finished migration."""
    for name in LONG_RUNNING:
        assert stack[name]["healthcheck"]["test"], name
    assert stack["migrate"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert stack["migrate"]["restart"] == "no"
    for name in ("api", "worker"):
        assert stack[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
        assert stack[name]["depends_on"]["redis"]["condition"] == "service_healthy"
    assert stack["proxy"]["depends_on"]["api"]["condition"] == "service_healthy"


def test_the_trial_parses_and_says_what_it_cannot_try(tmp_path):
    """Without an engine the script tries nothing, names why, and ends with the code for that."""
    for name in ("sh", "dirname", "git", "curl"):
        (tmp_path / name).symlink_to(shutil.which(name) or "/bin/true")
    script = [str(tmp_path / "sh"), str(ROOT / "deploy" / "trial.sh")]
    subprocess.run([script[0], "-n", script[1]], check=True)
    ended = subprocess.run(script, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert "not tried: anything: neither docker nor podman answers" in ended.stderr


STUBS = {  # an engine whose service answers all but predictions
    "docker": 'case "$*" in *"keys create"*) echo bart_key ;; esac',
    "curl": """case "$*" in
        */predict) exit 7 ;;
        *--fail*) echo '{"id": "x", "state": "succeeded"}' ;;
        *) exit 7 ;;
    esac""",
}


def test_a_trial_whose_predictions_fail_has_failed(tmp_path):
    """Two answers that aren't there are alike, and are not held for the same prediction."""
    for name, script in STUBS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", str(ROOT / "deploy" / "trial.sh")],
        env={"PATH": path, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "failed: no prediction" in ended.stderr, ended.stderr
    assert (ended.returncode, "held" in ended.stderr) == (1, False)
    assert {each.name for each in tmp_path.iterdir()} == {*STUBS}


def test_the_trial_compares_what_the_older_answer_says():
    """An answer that says more is kept; another figure, or one that is missing, is named."""
    (program,) = re.findall(
        r"^KEPT='(.*?)^'$", (ROOT / "deploy" / "trial.sh").read_text(), re.DOTALL | re.MULTILINE
    )
    old = {"model_id": "a", "mean": [1.5], "use": {"text": "usable"}}
    for new, named in (
        ({**old, "model_id": "b", "use": {"text": "usable", "more": 1}, "new": 2}, ""),
        ({**old, "mean": [1.25]}, "mean: [1.5] and [1.25]"),
        ({"mean": [1.5]}, "use: {'text': 'usable'} and None"),
    ):
        lines = f"{json.dumps(old)}\n{json.dumps(new)}\n"
        ended = subprocess.run(
            [sys.executable, "-c", program], input=lines, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stderr.strip()) == (bool(named), named)


def test_postgres_is_not_healthy_while_its_database_is_created(stack):
    """The check asks by TCP: the image's temporary server, before the real one, listens on a socket alone."""
    (_, command) = stack["postgres"]["healthcheck"]["test"]
    assert "--host 127.0.0.1 " in command


def test_only_the_proxies_are_published_and_only_on_loopback(stack):
    """Only the proxy publishes a port, and if wanted the one for browsers before it, both on loopback."""
    published = {name: service["ports"] for name, service in stack.items() if service.get("ports")}
    assert set(published) == {"proxy", "sign-in"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_the_sign_in_hands_on_tokens_and_gives_programs_no_page(stack):
    """The profile's proxy hands on the header that the API reads, and is off by default."""
    service = stack["sign-in"]
    said = service["environment"]
    assert service["profiles"] == ["sign-in"]
    assert stack["api"]["environment"]["BARTSERVE_OIDC_HEADER"] == "X-Forwarded-Access-Token"
    assert said["OAUTH2_PROXY_PASS_ACCESS_TOKEN"] == "true"
    assert said["OAUTH2_PROXY_UPSTREAMS"] == "http://proxy:8080"
    for_programs = re.compile(said["OAUTH2_PROXY_API_ROUTES"])
    for _, path in every_route():
        is_page = path == "/" or path.startswith(("/ui", "/docs", "/metrics"))
        assert bool(for_programs.match(path)) is not is_page, path


def test_every_service_is_fenced_in(stack):
    """Services run without root, writable files, capabilities or new privileges, and within limits."""
    for name, service in stack.items():
        assert not service["user"].startswith("0"), name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["deploy"]["resources"]["limits"]["memory"], name
        assert service["stop_grace_period"], name
        assert service["tmpfs"], name
    assert stack["api"]["deploy"]["replicas"] >= 2
    assert stack["worker"]["deploy"]["replicas"] >= 1
    assert int(stack["worker"]["stop_grace_period"][:-1]) > 30  # a worker drains within 30 s


def test_the_largest_upload_has_room(stack):
    """The folder of temporary files and the memory have room for the largest file and its cells."""
    api, defaults = stack["api"], Settings.model_fields
    largest = defaults["max_body_bytes"].default
    (temporary,) = [_bytes(re.search(r"size=(\w+)", mount)[1]) for mount in api["tmpfs"] if "/tmp:" in mount]
    memory = _bytes(api["deploy"]["resources"]["limits"]["memory"])

    assert temporary >= 2.5 * largest
    assert memory >= temporary + defaults["cache_bytes"].default + largest


def _bytes(size: str) -> int:
    return int(size[:-1]) * {"m": 2**20, "g": 2**30}[size[-1]]


def test_secrets_are_files_and_nowhere_else(stack):
    """No password is in the file or an environment; each is read from a secret's file."""
    text = (ROOT / "docker-compose.yml").read_text()
    assert not re.search(r"PASSWORD\w*: (?!/run/secrets/)", text)
    assert "${" not in text
    declared = yaml.safe_load(text)["secrets"]
    for name, service in stack.items():
        used = set(re.findall(r"/run/secrets/(\w+)", str(service)))
        assert used <= set(service.get("secrets", [])), name
        assert used <= set(declared), name
    for ignoring in (".gitignore", ".dockerignore"):
        assert "secrets" in (ROOT / ignoring).read_text()


def test_images_are_pinned_to_a_version(stack):
    """Every image is pinned to its patch version."""
    images = [service["image"] for service in stack.values() if "build" not in service]
    images += re.findall(r"^ARG PYTHON=(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 5
    for image in images:
        assert re.search(r":v?\d+\.\d+(\.\d+)?-", image), image


def test_the_image_is_of_two_stages_and_pinned(stack):
    """Packages are pinned by hash, only run-time files are copied, and no process runs as root."""
    build, run = (ROOT / "Dockerfile").read_text().split("\nFROM ${PYTHON}")[1:]
    installs = re.findall(r"pip install (.*)", build)
    assert "AS build" in build
    assert len(installs) == 3
    assert "--require-hashes --no-deps -r locks/run.txt" in installs[0]
    assert "-c /tmp/pins" in installs[2], "extras have the versions of the lock"
    assert {"--no-deps", "--no-build-isolation"} <= set(installs[1].split())
    packages = re.findall(r"^[a-z].*", (ROOT / "locks" / "run.txt").read_text(), re.MULTILINE)
    assert packages
    assert all("==" in package for package in packages)
    assert re.findall(r"^COPY (.*)$", run, re.MULTILINE) == ["--from=build /opt/bartserve /opt/bartserve"]
    assert "pip" not in run
    user, uid = re.search(r"^USER (\w+)$", run, re.MULTILINE)[1], re.search(r"--uid (\d+)", run)[1]
    assert user != "root"
    assert all(stack[name]["user"] == f"{uid}:{uid}" for name in OURS)
    assert run.index("USER") < run.index("bartserve warm")
    page = (ROOT / "docs" / "deploy.md").read_text()
    assert f"imagetools inspect {stack['postgres']['image']}" in page


def test_locks_are_installed_as_they_stand():
    """No install of a lock leaves a version to a resolver: a new release on the registry changes nothing."""
    lines = [line for name in ("Makefile", "Dockerfile") for line in (ROOT / name).read_text().splitlines()]
    installs = [line for line in lines if "-r locks/" in line]
    assert len(installs) == 8
    assert all("--require-hashes --no-deps -r" in line for line in installs)


def test_the_proxy_has_deadlines_for_headers_and_bodies(stack):
    """The proxy's configuration sets timeouts; a slow client below shows that they work."""
    text = PROXY.read_text()
    for directive in ("client_header_timeout", "client_body_timeout", "send_timeout", "keepalive_timeout"):
        seconds = re.search(rf"^\s*{directive} (\d+)s;", text, re.MULTILINE)
        assert seconds is not None, directive
        assert int(seconds[1]) <= 30
    biggest = re.search(r"client_max_body_size (\d+)m;", text)
    assert biggest is not None
    assert int(biggest[1]) * 1024 * 1024 == Settings.model_fields["max_body_bytes"].default
    (mounted,) = stack["proxy"]["volumes"]
    assert mounted.startswith(f"./{PROXY.relative_to(ROOT)}:")


def test_the_image_starts_what_the_package_has(stack):
    """Every `bartserve` command in the stack and the Dockerfile exists."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    (default,) = re.findall(r"^CMD (.*)$", dockerfile, re.MULTILINE)
    commands = [stack[name]["command"] for name in OURS] + [yaml.safe_load(default)]
    commands += [
        instruction.split()
        for instruction in re.findall(r"^RUN .*(bartserve warm)$", dockerfile, re.MULTILINE)
    ]
    assert len(commands) == 5
    for command in commands:
        help_page = CliRunner().invoke(app, [*command[1:2], "--help"])
        assert command[0] == "bartserve"
        assert help_page.exit_code == 0, shlex.join(command)
    settings = {f"BARTSERVE_{name.upper()}" for name in Settings.model_fields}
    variables = set(re.findall(r"BARTSERVE_\w+", dockerfile + (ROOT / "docker-compose.yml").read_text()))
    assert {name.removesuffix("_FILE") for name in variables} <= settings


@pytest.mark.slow
def test_the_stack_trains_and_predicts(stack, database_url, tmp_path):
    """The services, started as in the file, create a key, fit an upload and predict through the proxy."""
    host = Host(database_url, tmp_path)
    assert make_url(stack["api"]["environment"]["BARTSERVE_DATABASE_URL"]).host == "postgres"
    with ExitStack() as running:
        started = [running.enter_context(host.running("redis"))]
        migrated = host.run("migrate", stack["migrate"]["command"])
        assert migrated.returncode == 0, migrated.stderr
        started += [running.enter_context(host.running(name)) for name in ("api", "worker")]
        eventually(lambda: host.healthy("api"), 180, "the API's health check passes")
        eventually(lambda: host.healthy("worker"), 180, "the worker's health check passes")
        port = host.ports["api"]
        if NGINX is not None:
            started.append(running.enter_context(host.running("proxy")))
            port = host.ports["proxy"]
        key = host.run("api", ["bartserve", "keys", "create", "--name", "test"])
        client = running.enter_context(Client(f"http://127.0.0.1:{port}", key.stdout.strip()))
        eventually(client.ready, 180, "the stack is ready")

        dataset = client.upload(b"x,y\n" + b"".join(b"%d,%d\n" % (i, 2 * i + i % 7) for i in range(100)))
        model = client.fit(dataset, "y", num_trees=20, num_draws=50, num_chains=2)
        assert [event.kind for event in client.follow(model)][-1] == "succeeded"
        answer = client.predict(model, [{"x": 3.0}])

        assert answer.lower[0] < answer.mean[0] < answer.upper[0]
    # Each exited in time by itself; uvicorn, when done, by the signal itself.
    assert {process.returncode for process in started} <= {0, -signal.SIGTERM}
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert PASSWORD not in logs
    assert key.stdout.strip() not in logs


@pytest.mark.slow
@needs_nginx
def test_the_proxy_cuts_off_slow_clients_and_hides_the_metrics(tmp_path):
    """Half a header or body is cut off; /metrics isn't reachable from outside, however it is spelt."""
    host = Host("postgresql://nowhere/none", tmp_path)
    address = ("127.0.0.1", host.ports["proxy"])
    with host.running("proxy"), socket.create_server(("127.0.0.1", host.ports["api"])):
        eventually(lambda: _connects(address), 60, (tmp_path / "proxy.log").read_text())

        half_header = _ended(address, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        half_body = _ended(
            address, b"POST /datasets HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\na,b\n1,"
        )
        metrics = {
            spelling: _ended(
                address, b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % spelling.encode()
            )
            for spelling in METRICS
        }
        too_large = _ended(
            address, b"POST /datasets HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n"
        )

    assert half_header in {b"", b"HTTP/1.1 408"}
    assert half_body in {b"", b"HTTP/1.1 408"}
    assert {spelling: status for spelling, status in metrics.items() if status not in HIDDEN} == {}
    assert too_large == b"HTTP/1.1 413"


@pytest.mark.slow
@needs_nginx
def test_the_proxy_passes_on_complete_forms_of_strangers(tmp_path):
    """The form for signing in has a kilobyte and reaches the API only when it is complete."""
    host = Host("postgresql://nowhere/none", tmp_path)
    address = ("127.0.0.1", host.ports["proxy"])
    sign_in = b"POST /ui/sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\nkey="
    with host.running("proxy"), socket.create_server(("127.0.0.1", host.ports["api"])) as api:
        eventually(lambda: _connects(address), 60, (tmp_path / "proxy.log").read_text())
        too_large = _ended(address, sign_in % 1025)
        half = _ended(address, sign_in % 100)
        api.settimeout(0.1)
        with pytest.raises(TimeoutError):
            api.accept()
        with socket.create_connection(address, 60) as client:
            client.sendall(sign_in % 8 + b"text")
            api.settimeout(60)
            passed, _ = api.accept()
            with passed:
                received = b""
                while b"key=text" not in received:
                    piece = passed.recv(4096)
                    assert piece, received
                    received += piece
    assert (too_large, half) == (b"HTTP/1.1 413", b"")


@pytest.mark.slow
@needs_nginx
def test_the_limit_of_connections_counts_clients_not_their_proxy(tmp_path):
    """Behind a TLS proxy or a gateway each client has 100 connections, not all clients together."""
    host = Host("postgresql://nowhere/none", tmp_path)
    address = ("127.0.0.1", host.ports["proxy"])
    with (
        host.running("proxy"),
        socket.create_server(("127.0.0.1", host.ports["api"]), backlog=1000),
        ExitStack() as open_ones,
    ):
        eventually(lambda: _connects(address), 60, (tmp_path / "proxy.log").read_text())

        def ask(forwarded: str) -> bytes:
            """Return what came of an answer at once; the API behind never answers."""
            connection = open_ones.enter_context(socket.create_connection(address, 60))
            head = f"GET / HTTP/1.1\r\nHost: x\r\n{forwarded}\r\n"
            connection.sendall(head.encode())
            connection.settimeout(0.02)
            try:
                return connection.recv(12)
            except TimeoutError:
                return b""

        nameless = {ask("") for _ in range(150)}
        one = [ask("X-Forwarded-For: 203.0.113.7\r\n") for _ in range(110)]
        another = ask("X-Forwarded-For: 203.0.113.7, 198.51.100.9\r\n")

    assert nameless == {b""}
    assert set(one[:100]) == {b""}
    assert set(one[105:]) == {b"HTTP/1.1 429"}
    assert another == b""


def _connects(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 5).close()
    except OSError:
        return False
    return True


def _ended(address: tuple[str, int], sent: bytes) -> bytes:
    """Return the beginning of the status line sent before the server closes the connection."""
    with socket.create_connection(address, 60) as connection:
        connection.sendall(sent)
        answer, began = b"", time.monotonic()
        try:
            while piece := connection.recv(4096):
                answer += piece
        except ConnectionResetError:
            pass  # as `reset_timedout_connection` does
        assert time.monotonic() - began < 60
    return answer[:12]


def test_secrets_come_from_files(tmp_path, monkeypatch):
    """Settings can be read from files; passwords of any characters are inserted into URLs."""
    (tmp_path / "password").write_text("p@ss/w:ord\n")
    monkeypatch.setenv("BARTSERVE_DATABASE_URL", "postgresql://me@host:5432/db")
    monkeypatch.setenv("BARTSERVE_DATABASE_PASSWORD_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("BARTSERVE_REDIS_URL", "redis://host:6379/0")
    monkeypatch.setenv("BARTSERVE_REDIS_PASSWORD_FILE", str(tmp_path / "password"))

    settings = Settings()

    url = make_url(settings.database_url)
    assert (url.username, url.password, url.host, url.port) == ("me", "p@ss/w:ord", "host", 5432)
    assert settings.redis_url == "redis://:p%40ss%2Fw%3Aord@host:6379/0"
    monkeypatch.setenv("BARTSERVE_REDIS_PASSWORD_FILE", str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="absent can't be read"):
        Settings()
