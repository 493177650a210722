"""Stand-in for the engine of docker-compose.yml: runs the services' own commands with their environment."""

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

from tests.support.processes.embedded_service import clean_environment, free_port
from tests.support.processes.servers import valkey_binary

ROOT = Path(__file__).parents[3]
PASSWORD = "p@ss/word: of the test"
SLOWER = 30  # extra seconds on a busy machine
Service = dict[str, Any]


def services() -> dict[str, Service]:
    """Return the services of the file by name."""
    read: dict[str, Service] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return read


class Host:
    """One machine: secrets in a folder, free ports, and the servers' names mapped to their places.

    Parameters
    ----------
    database_url
        URL of the test's own Postgres, which replaces the host `postgres`.
    folder
        Folder for all files.
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
        """Return the service's environment from the file, with paths and names of this machine."""
        variables = {
            name: self._here(value) for name, value in self.stack[service].get("environment", {}).items()
        }
        if "BARTSERVE_DATABASE_URL" in variables:
            variables["BARTSERVE_DATABASE_URL"] = self.database_url
        scripts = Path(sys.executable).parent
        return clean_environment() | {"PATH": f"{scripts}:/usr/sbin:{os.environ['PATH']}"} | variables

    def _here(self, text: str) -> str:
        text = text.replace("/run/secrets", str(self.secrets)).replace("$$", "$")
        return text.replace("redis:6379", f"127.0.0.1:{self.ports['redis']}")

    def line(self, service: str, command: list[str]) -> list[str]:
        """Return a command from the file, except for ports, paths and the names of programs here."""
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
        """Return the proxy's configuration with this machine's paths and ports, and timeouts of a second."""
        text = (ROOT / "deploy" / "nginx.conf").read_text()
        text = text.replace("/tmp/", f"{self.folder}/").replace(
            "listen 8080", f"listen 127.0.0.1:{self.ports['proxy']}"
        )
        text = text.replace("http://api:8000", f"http://127.0.0.1:{self.ports['api']}")
        text = re.sub(r"(client_(?:header|body)_timeout) \d+s", r"\1 1s", text)
        if os.geteuid() == 0:
            text = "user root;\n" + text  # the test's folders belong to root
        path = self.folder / "nginx.conf"
        path.write_text(text)
        return path

    def run(self, service: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of the service to its end."""
        return subprocess.run(
            self.line(service, command),
            env=self.environment(service),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def healthy(self, service: str) -> bool:
        """Return the result of the service's own health check."""
        kind, *command = self.stack[service]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.run(service, command).returncode == 0

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run the service's command during the block, then stop it by its signal within its time."""
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
