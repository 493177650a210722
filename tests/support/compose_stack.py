"""Stands for the engine of docker-compose.yml: runs its services' own commands with their own environment."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.embedded_service import clean_environment, free_port
from tests.support.servers import valkey_binary

ROOT = Path(__file__).parents[2]
PASSWORD = "p@ss/word: of the test"
SLOWER = 30  # seconds that a busy machine may add to any end
Service = dict[str, Any]


def services() -> dict[str, Service]:
    """The services of the file, by name."""
    read: dict[str, Service] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return read


class Host:
    """One machine: secrets in a folder, ports that are free, servers' names led to where they are.

    Parameters
    ----------
    database_url
        Where the test's own Postgres is; its host stands for `postgres`.
    folder
        For everything that is written.
    """

    def __init__(self, database_url: str, folder: Path) -> None:
        self.stack, self.folder = services(), folder
        self.ports = {name: free_port() for name in ("api", "redis", "proxy")}
        self.database_url = database_url
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        for name in ("postgres_password", "redis_password"):
            (self.secrets / name).write_text(PASSWORD + "\n")

    def environment(self, service: str) -> dict[str, str]:
        """What the file gives the service, with paths and names of this machine."""
        given = {
            name: self._here(value) for name, value in self.stack[service].get("environment", {}).items()
        }
        if "BARTSERVE_DATABASE_URL" in given:
            given["BARTSERVE_DATABASE_URL"] = self.database_url
        scripts = Path(sys.executable).parent
        return clean_environment() | {"PATH": f"{scripts}:/usr/sbin:{os.environ['PATH']}"} | given

    def _here(self, text: str) -> str:
        text = text.replace("/run/secrets", str(self.secrets)).replace("$$", "$")
        return text.replace("redis:6379", f"127.0.0.1:{self.ports['redis']}")

    def line(self, service: str, command: list[str]) -> list[str]:
        """A command as the file has it, but for ports, paths and the names of programs here."""
        words = [str(self.ports["api"]) if word == "8000" else self._here(word) for word in command]
        if service == "redis":
            server = f"{valkey_binary()} --bind 127.0.0.1 --port {self.ports['redis']} --dir {self.folder}"
            words = [word.replace("redis-server", server) for word in words]
        if service == "proxy":
            read, written = str(self.nginx_conf()), f"{self.folder}/nginx-here.conf"
            words = [
                word.replace("/etc/nginx/bartserve.conf", read).replace("/tmp/nginx.conf", written)
                for word in words
            ]
        return words

    def nginx_conf(self) -> Path:
        """The proxy's configuration with this machine's paths and ports, and deadlines of a second."""
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        text = text.replace("/tmp/", f"{self.folder}/").replace(
            "listen 8080", f"listen 127.0.0.1:{self.ports['proxy']}"
        )
        text = text.replace("http://api:8000", f"http://127.0.0.1:{self.ports['api']}")
        text = re.sub(r"(client_(?:header|body)_timeout) \d+s", r"\1 1s", text)
        if os.geteuid() == 0:
            text = "user root;\n" + text  # the test's folders are root's own
        path = self.folder / "nginx.conf"
        path.write_text(text)
        return path

    def run(self, service: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        """A command in the service, to its end."""
        return subprocess.run(
            self.line(service, command),
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def healthy(self, service: str) -> bool:
        """What the service's own health check says."""
        kind, *command = self.stack[service]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(service, command).returncode == 0

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """The service's command as long as the block lasts; then stopped by its signal, in its time."""
        with (self.folder / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                self.line(service, self.stack[service]["command"]),
                env=self.environment(service),
                stdout=log,
                stderr=log,
            )
            try:
                yield process
            finally:
                process.send_signal(signal.Signals[self.stack[service].get("stop_signal", "SIGTERM")])
                try:
                    process.wait(_seconds(self.stack[service]["stop_grace_period"]) + SLOWER)
                finally:
                    process.kill()


def _seconds(text: str) -> int:
    return int(text.removesuffix("s"))
