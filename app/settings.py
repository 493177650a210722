"""All settings of the service in one class; each can be given by an environment variable BARTSERVE_<NAME>."""

import contextlib
import difflib
import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from app.sign_in_settings import SignInSettings, is_loopback
from sampler.host.cores import count_cores

UrlType = TypeVar("UrlType", str, str | None)
MIB = 1024 * 1024
# Default quotas of a service that other machines can reach.
QUOTAS = {
    "quota_stored_bytes": 20 * 1024 * MIB,
    "quota_queued": 100,
    "quota_predictions": 16,
    "quota_streams": 50,
    "quota_requests_per_second": 100,
}
__all__ = [
    "BELL_QUEUE",
    "BELL_TASK",
    "PREFIX",
    "QUOTAS",
    "SettingError",
    "Settings",
    "is_loopback",
    "read_settings",
    "unknown_variables",
]
PREFIX = "BARTSERVE_"
# Also read by clients (URL and key), the compiler, the supervisor and the tests.
OTHER_VARIABLES = frozenset(
    {"URL", "KEY", "COMPILE_ALONE", "LIFELINE_FD", "CONTRACT_EXAMPLES", "CHAOS_EVENTS"}
)
# Variables that Kubernetes sets for a service named bartserve, and those of the tests.
STRANGE_VARIABLES = re.compile(r"SERVICE_(HOST|PORT)(_.*)?|PORT_\d+_(TCP|UDP)(_.*)?|TEST_.*")
PROCESS_BYTES = 512 * MIB  # of a worker's process by default: 420 MiB with its kernels, and data
BELL_TASK, BELL_QUEUE = "work", "bartserve"  # task name and queue of the doorbell


def _memory() -> int:
    """Return the bytes of memory this process may use; in a container there may be fewer than in all."""
    bounds = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            bounds.append(int(Path(file).read_text()))
    return min(bounds)


def _slots() -> int:
    """Return the default number of slots: one per core, as far as the memory suffices for their processes."""
    return max(1, min(count_cores(), _memory() * 9 // 10 // PROCESS_BYTES - 1))


class SettingError(ValueError):
    """A setting is invalid; the message is one sentence with its variable, never with its value."""


def _is_url(url: str, schemes: tuple[str, ...], examples: str) -> None:
    """Raise ValueError for an invalid URL, without quoting it, since it may contain a password."""
    try:
        parts = urlsplit(url)
        readable = parts.scheme in schemes and (parts.port or 1) > 0
    except ValueError:  # its message quotes parts of the URL
        raise ValueError(
            "it can't be read as a URL; in a password write / as %2F, @ as %40, : as %3A, # as %23, [ as %5B"
        ) from None
    if not readable:
        raise ValueError(f"it must begin with {examples}")


def _with_password(url: UrlType, password: str) -> UrlType:
    """Insert a password into a URL, unless the URL is empty or has one, or no password is given."""
    if not url or not password:
        return url
    parts = urlsplit(url)
    if parts.password is not None:
        return url
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{quote(password, safe='')}@{host}"))


def _default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "bartserve"


class Settings(SignInSettings):
    """Settings of all parts. Arguments override the environment, the environment overrides the defaults."""

    model_config = SettingsConfigDict(env_prefix="BARTSERVE_", extra="ignore", frozen=True)

    data_dir: Path = Field(
        default_factory=_default_data_dir,
        json_schema_extra={"default_words": "~/.local/share/bartserve"},
        description="The folder of the embedded service with its database and locks.",
    )
    database_url: str = Field(
        default="",
        description="SQLAlchemy URL of a SQLite or Postgres database; default: SQLite in the data folder.",
    )
    database_password: str = Field(
        default="", repr=False, description="The password of the database, if not in its URL."
    )
    redis_password: str = Field(
        default="", repr=False, description="The password of the broker, if not in its URL."
    )
    redis_url: str | None = Field(
        default=None,
        description="The broker (redis://, rediss:// or redis+socket://). None: embedded, where workers only "
        "poll the database.",
    )

    host: str = Field(
        default="127.0.0.1", description="The address to listen on. Beyond loopback, API keys are required."
    )
    port: int = Field(default=8000, ge=0, le=65535, description="The port to listen on; 0: any free port.")
    public_url: str | None = Field(
        default=None,
        description="The URL at which browsers reach the service, such as https://bart.example. Behind a "
        "proxy that terminates TLS it makes cookies Secure; shown commands contain it.",
    )
    max_body_bytes: int = Field(
        default=512 * MIB,
        gt=0,
        description="The largest upload in bytes. Beyond 512 MiB, what a reader may take (cells, memory, "
        "time) grows in proportion.",
    )
    max_predict_rows: int = Field(
        default=100_000, gt=0, description="The maximum of rows in one predict request."
    )
    max_predict_work: float = Field(
        default=1e11,
        gt=0,
        description="The maximum of rows times draws times trees in one predict request; the default takes "
        "about ten seconds of a core.",
    )
    cache_bytes: int = Field(
        default=512 * MIB, ge=0, description="Bytes of decoded posteriors kept in memory."
    )

    drift_watch: bool = Field(
        default=True,
        description="Whether the rows that models predict for are counted by week and compared with their "
        "training rows (drift); no row is stored.",
    )

    trusted_proxies: str = Field(
        default="",
        description="Addresses or networks of your proxies, separated by commas, such as 10.0.0.0/8: they "
        "say for which client they speak (X-Forwarded-For), and may open any number of connections.",
    )
    body_memory_bytes: int = Field(
        default=256 * MIB,
        ge=64 * MIB,
        description="Bytes of request bodies that one API process holds in memory (files are on disk). "
        "Beyond loopback an owner holds at most as many as are left for others, of the temporary disk too.",
    )
    body_seconds: float = Field(
        default=10.0,
        gt=0,
        description="The seconds by which a request body may lag behind body_bytes_per_second at any time.",
    )
    body_bytes_per_second: int = Field(
        default=16 * 1024,
        gt=0,
        description="The minimum rate of sending a request body and of reading a response; the default is a "
        "third of what the slowest mobile lines carry.",
    )
    keyless_seconds: float = Field(
        default=5.0,
        gt=0,
        description="The seconds within which a client without a key must send a body, which has at most a "
        "kilobyte, and go on reading a response.",
    )
    head_seconds: float = Field(
        default=10.0, gt=0, description="The seconds within which the request headers must arrive."
    )
    write_seconds: float = Field(
        default=60.0,
        gt=0,
        description="The seconds after which a response is aborted if the client has read less of it than "
        "body_bytes_per_second requires.",
    )
    max_connections: int = Field(
        default=800, gt=0, description="The maximum of open connections to one API process."
    )
    max_connections_per_address: int = Field(
        default=0,
        ge=0,
        description="The maximum of them from one address (of IPv6: from one /64 network) that is no trusted "
        "proxy; 0: a quarter of max_connections beyond loopback, unlimited on loopback.",
    )

    # Quotas per owner; 0 means unlimited. The default on loopback is unlimited.
    quota_stored_bytes: int | None = Field(
        default=None,
        ge=0,
        description="Bytes of datasets, draws and predictions per owner; 20 GiB beyond loopback.",
    )
    quota_queued: int | None = Field(
        default=None,
        ge=0,
        description="Open fits, background predictions and studies per owner, where a set of models counts "
        "once; 100 beyond loopback.",
    )
    quota_predictions: int | None = Field(
        default=None,
        ge=0,
        description="Predictions and explanations that one API process computes at once per owner; 16 beyond "
        "loopback.",
    )
    quota_streams: int | None = Field(
        default=None,
        ge=0,
        description="Event streams of one API process per owner, with four models each; 50 beyond loopback.",
    )
    quota_requests_per_second: int | None = Field(
        default=None,
        ge=0,
        description="Requests per second to one API process per owner, averaged over ten seconds; 100 beyond "
        "loopback.",
    )

    worker_slots: int = Field(
        default_factory=_slots,
        json_schema_extra={"default_words": "one per core with 512 MiB of memory"},
        ge=1,
        description="Chains, studies and totals run at once; finishes and predictions have separate places.",
    )
    worker_chain_threads: int = Field(
        default=0,
        ge=0,
        description="Threads that share the rows of one chain where each has 25,000 or more; the draws are "
        "the same. 0: the cores divided by worker_slots.",
    )
    worker_memory_kib: int | None = Field(
        default=None, gt=0, description="Memory beyond which a worker's child process is replaced."
    )
    fit_memory_bytes: int = Field(
        default=0,
        ge=0,
        description="The maximum memory that one fit may take in a worker process, by the formula in the "
        "error message; 0: worker_memory_kib, else 90% of the worker's memory divided by its slots plus one. "
        "Workers tell the API theirs, and the smallest counts.",
    )
    fit_seconds: float = Field(
        default=2 * 24 * 3600.0,
        ge=0,
        description="The longest estimated duration of one fit; 0: unlimited.",
    )
    slice_seconds: float = Field(
        default=1.0, gt=0, description="Sampling time between two commits of a chain."
    )
    lease_seconds: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="How long a worker keeps a unit without a heartbeat; 0: 12 s embedded, else 60 s.",
    )
    dispatch_seconds: float = Field(
        default=0.0,
        ge=0,
        description="The dispatcher's polling interval; 0: 0.2 s embedded, else 2 s.",
    )
    kernels: Literal["native", "baseline"] = Field(
        default="native",
        description="Kernels compiled for this very processor, or for a baseline of nearly every server.",
    )
    kernels_seed: Path | None = Field(
        default=None, description="A folder of precompiled kernels, as container images have."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="Format of the logs on stderr; auto: text on a terminal, else JSON."
    )
    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        default=None, description="The minimum log level; default: info for JSON, warning for text."
    )
    webhook_networks: str = Field(
        default="",
        description="Private addresses or networks to which webhooks may be sent, separated by commas, such "
        "as 10.1.2.0/24, and there by http:// too; default: none, public addresses by https:// alone.",
    )
    mlflow_tracking_uri: str | None = Field(
        default=None,
        description="A tracking server of MLflow, to whose experiments bartserve/<owner> each fit that "
        "succeeds is logged: settings, scores, verdict and card. Needs mlflow-skinny in the workers.",
    )
    key_prefix: str = Field(default="bartserve:", description="Prefix of every key in Redis.")

    @field_validator("database_url")
    @classmethod
    def _driver(cls, url: str) -> str:
        """Use psycopg for Postgres URLs of any dialect."""
        if url:
            known = ("postgres", "postgresql", "postgresql+psycopg", "sqlite")
            _is_url(url, known, "sqlite:// or postgresql://")
        scheme, separator, rest = url.partition("://")
        if scheme in {"postgres", "postgresql"}:
            return f"postgresql+psycopg{separator}{rest}"
        return url

    @field_validator("redis_url")
    @classmethod
    def _broker(cls, url: str | None) -> str | None:
        if url:
            known = ("redis", "rediss", "redis+socket")
            _is_url(url, known, "redis://, rediss:// or redis+socket://")
        return url

    @field_validator("public_url")
    @classmethod
    def _origin(cls, url: str | None) -> str | None:
        """Normalise an origin: a scheme, a host and possibly a port."""
        if url is None:
            return None
        form = re.fullmatch(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?/?", url.lower())
        if form is None:
            raise ValueError("it must be like https://bart.example: a scheme and a host, no path and no user")
        usual = {"http": ":80", "https": ":443"}[form[1]]  # omitted by browsers
        return f"{form[1]}://{form[2]}{'' if form[3] in {None, usual} else form[3]}"

    @field_validator("trusted_proxies", "webhook_networks")
    @classmethod
    def _networks(cls, listed: str) -> str:
        """Normalise addresses and networks."""
        try:
            parts = [part.strip() for part in listed.split(",")]
            return ",".join(str(ipaddress.ip_network(part)) for part in parts if part)
        except ValueError:
            raise ValueError(
                "it must be addresses or networks separated by commas, such as 10.0.0.0/8"
            ) from None

    @model_validator(mode="before")
    @classmethod
    def _no_empty_strings(cls, values: Any) -> Any:
        """Treat an empty environment variable as unset, for compose files, and read settings from files.

        BARTSERVE_<NAME>_FILE names a file with the setting; trailing white space is removed.
        """
        if not isinstance(values, dict):
            return values
        filled = {name: value for name, value in values.items() if value != ""}
        for name in cls.model_fields:
            path = os.environ.get(f"BARTSERVE_{name.upper()}_FILE")
            if path and name not in filled:
                try:
                    filled[name] = Path(path).read_text().rstrip()
                except OSError as error:
                    raise ValueError(
                        f"BARTSERVE_{name.upper()}_FILE: {path} can't be read ({error.strerror})"
                    ) from None
        return filled

    @model_validator(mode="after")
    def _fill(self) -> Self:
        filled: dict[str, Any] = {
            "fit_memory_bytes": self.fit_memory_bytes
            or 1024 * (self.worker_memory_kib or 0)
            or _memory() * 9 // 10 // (self.worker_slots + 1),
            "worker_chain_threads": self.worker_chain_threads or max(1, count_cores() // self.worker_slots),
            "database_url": _with_password(self.database_url, self.database_password)
            or f"sqlite:///{self.data_dir.absolute() / 'bartserve.db'}",
            "redis_url": _with_password(self.redis_url, self.redis_password),
            "lease_seconds": self.lease_seconds or (12.0 if self.embedded else 60.0),
            "dispatch_seconds": self.dispatch_seconds or (0.2 if self.embedded else 2.0),
            "max_connections_per_address": self.max_connections_per_address
            or (self.max_connections if is_loopback(self.host) else max(1, self.max_connections // 4)),
        }
        for name, usual in QUOTAS.items():
            quota = getattr(self, name)
            filled[name] = (None if is_loopback(self.host) else usual) if quota is None else quota or None
        for name, value in filled.items():
            object.__setattr__(self, name, value)  # bypasses frozen=True
        return self

    @property
    def embedded(self) -> bool:
        """Whether the service runs on one machine without a broker."""
        return self.redis_url is None


def read_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment and the arguments; raises SettingError."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        # Pydantic's own text contains the values, which may be secret.
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
    faults = []
    for fault in wrong:
        message = fault["msg"].removeprefix("Value error, ")
        if not fault["loc"]:
            faults.append(message)  # the message names its variable
            continue
        name = str(fault["loc"][0])
        option = f"--{name.removeprefix('worker_').replace('_', '-')}"
        variable = option if name in overrides else f"{PREFIX}{name.upper()}"
        faults.append(f"{variable}: {message[:1].lower()}{message[1:]}")
    raise SettingError("; ".join(faults) + ".")


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each unknown variable BARTSERVE_..., with the most similar known one."""
    fields = {name.upper() for name in Settings.model_fields}
    known = sorted(fields | {f"{name}_FILE" for name in fields} | {"URL", "KEY"})
    unknown = []
    for variable in sorted(environment):
        name = variable.upper().removeprefix(PREFIX)
        if (
            name == variable.upper()
            or name in OTHER_VARIABLES | set(known)
            or STRANGE_VARIABLES.fullmatch(name)
        ):
            continue
        (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        unknown.append(
            f"The environment variable {variable} is not a setting; the most similar is {PREFIX}{nearest} "
            "(`bartserve config` lists all)."
        )
    return unknown
