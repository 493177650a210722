"""Every setting of the service, one class; each can be given by an environment variable BARTSERVE_<NAME>."""

import contextlib
import difflib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

Url = TypeVar("Url", str, str | None)
MIB = 1024 * 1024
# Of a service that others than this machine reach.
QUOTAS = {
    "quota_stored_bytes": 20 * 1024 * MIB,
    "quota_queued": 100,
    "quota_predictions": 16,
    "quota_streams": 50,
    "quota_requests_per_second": 100,
}
PREFIX = "BARTSERVE_"
SECRETS = frozenset({"database_password", "redis_password"})
MASK = "********"
# Read besides by the clients (where the service is, and a key), the compiler, the supervisor and the tests.
OTHER_VARIABLES = frozenset(
    {"URL", "KEY", "COMPILE_ALONE", "LIFELINE_FD", "CONTRACT_EXAMPLES", "CHAOS_EVENTS"}
)
# What Kubernetes sets for a service that is called bartserve, and what the tests read.
STRANGE_VARIABLES = re.compile(r"SERVICE_(HOST|PORT)(_.*)?|PORT_\d+_(TCP|UDP)(_.*)?|TEST_.*")
BELL_TASK, BELL_QUEUE = "work", "bartserve"  # what the API sends, and where, to ring the workers


def _cores() -> int:
    """Cores this process may use, which in a container is fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def _memory() -> int:
    """Bytes of memory this process may use, which in a container are fewer than the machine has."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(file).read_text()))
    return min(found)


class SettingError(ValueError):
    """A setting can't be used: one sentence that names its variable and never holds its value."""


def _is_url(url: str, schemes: tuple[str, ...], examples: str) -> None:
    """Raise ValueError, without a part of the URL, which may hold a password."""
    try:
        parts = urlsplit(url)
        readable = parts.scheme in schemes and (parts.port or 1) > 0
    except ValueError:  # its own words hold parts of it
        raise ValueError(
            "it can't be read as a URL; in a password write / as %2F, @ as %40, : as %3A, # as %23, [ as %5B"
        ) from None
    if not readable:
        raise ValueError(f"it must begin with {examples}")


def _with_password(url: Url, password: str) -> Url:
    """The URL with a password, unless it has one, is absent, or none is given."""
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


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Settings(BaseSettings):
    """What the parts run with. Arguments win over the environment, the environment over the defaults."""

    model_config = SettingsConfigDict(env_prefix="BARTSERVE_", extra="ignore", frozen=True)

    data_dir: Path = Field(
        default_factory=_default_data_dir,
        json_schema_extra={"default_words": "~/.local/share/bartserve"},
        description="The folder of the embedded service: its database and locks.",
    )
    database_url: str = Field(
        default="",
        description="SQLAlchemy URL of a SQLite or Postgres database; default: SQLite in the data folder.",
    )
    database_password: str = Field(
        default="", repr=False, description="The password of the database, when it is not in its URL."
    )
    redis_password: str = Field(
        default="", repr=False, description="The password of the broker, when it is not in its URL."
    )
    redis_url: str | None = Field(
        default=None,
        description="The broker (redis://, rediss:// or redis+socket://). None: the embedded worker, which "
        "rings its own bell.",
    )

    host: str = Field(
        default="127.0.0.1", description="The address to listen on. Beyond loopback, API keys are demanded."
    )
    port: int = Field(default=8000, ge=0, le=65535, description="The port to listen on; 0: any free one.")
    public_url: str | None = Field(
        default=None,
        description="Where browsers reach the service, as https://bart.example. Behind a proxy that ends TLS "
        "it makes cookies Secure; copied commands name it.",
    )
    max_body_bytes: int = Field(default=512 * MIB, gt=0, description="The largest upload.")
    max_predict_rows: int = Field(default=100_000, gt=0, description="The most rows of one predict call.")
    max_predict_work: float = Field(
        default=1e11,
        gt=0,
        description="Rows times draws times trees of one predict call, about: ten seconds of a core.",
    )
    cache_bytes: int = Field(default=512 * MIB, ge=0, description="Unpacked posteriors kept in memory.")

    body_seconds: float = Field(
        default=10.0,
        gt=0,
        description="The seconds that a request's body may take, beside those that body_bytes_per_second "
        "allows for its length.",
    )
    body_bytes_per_second: int = Field(
        default=1024, gt=0, description="The least speed of a request's body, and of an answer's reader."
    )
    head_seconds: float = Field(
        default=20.0, gt=0, description="The seconds in which a request's headers must be sent."
    )
    write_seconds: float = Field(
        default=60.0,
        gt=0,
        description="The seconds after which an answer is given up of which less was taken meanwhile than "
        "body_bytes_per_second says.",
    )
    max_connections: int = Field(default=800, gt=0, description="Open at once to one API process.")

    # What one owner may have; 0: any amount. Unless given: no limit on loopback.
    quota_stored_bytes: int | None = Field(
        default=None, ge=0, description="Datasets, draws and predictions; beyond loopback 20 GiB."
    )
    quota_queued: int | None = Field(
        default=None, ge=0, description="Fits and background predictions that are open; beyond loopback 100."
    )
    quota_predictions: int | None = Field(
        default=None,
        ge=0,
        description="Predictions and explanations computed at once by an API process; beyond loopback 16.",
    )
    quota_streams: int | None = Field(
        default=None,
        ge=0,
        description="Streams of events open to one API process, with four models each; beyond loopback 50.",
    )
    quota_requests_per_second: int | None = Field(
        default=None,
        ge=0,
        description="Over ten seconds, to one API process; beyond loopback 100.",
    )

    worker_slots: int = Field(
        default_factory=_cores,
        json_schema_extra={"default_words": "one per core"},
        ge=1,
        description="Chains worked on at once; finishes and predictions have one place more.",
    )
    worker_memory_kib: int | None = Field(
        default=None, gt=0, description="A worker's child that has grown beyond this is replaced."
    )
    fit_memory_bytes: int = Field(
        default=0,
        ge=0,
        description="The most memory one fit may take of a worker's process, by the formula of its refusal; "
        "0: worker_memory_kib, else this machine's memory divided by the worker's slots and one.",
    )
    fit_seconds: float = Field(
        default=2 * 24 * 3600.0,
        ge=0,
        description="The longest estimated time of one fit; 0: any.",
    )
    slice_seconds: float = Field(default=1.0, gt=0, description="Sampling between two commits of a chain.")
    lease_seconds: float = Field(
        default=0.0,
        ge=0,
        description="How long a unit is its worker's without a sign of life; 0: 12 s embedded, else 60 s.",
    )
    dispatch_seconds: float = Field(
        default=0.0,
        ge=0,
        description="Between two looks of the dispatcher; 0: 0.2 s embedded, else 2 s.",
    )
    kernels: Literal["native", "baseline"] = Field(
        default="native",
        description="Compiled for this very processor, or for one that nearly every server has.",
    )
    kernels_seed: Path | None = Field(
        default=None, description="A folder of kernels compiled beforehand, as container images have."
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="Of the logs on stderr; auto: text on a terminal, else JSON."
    )
    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        default=None, description="The least that is logged; default: info as JSON, warning as text."
    )
    key_prefix: str = Field(default="bartserve:", description="Of every key in Redis.")

    @field_validator("database_url")
    @classmethod
    def _driver(cls, url: str) -> str:
        """Postgres URLs mean psycopg, whatever their dialect."""
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
        """An origin: a scheme, a host and perhaps a port."""
        if url is None:
            return None
        form = re.fullmatch(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?/?", url.lower())
        if form is None:
            raise ValueError("it must be like https://bart.example: a scheme and a host, no path and no user")
        usual = {"http": ":80", "https": ":443"}[form[1]]  # which browsers leave out
        return f"{form[1]}://{form[2]}{'' if form[3] in {None, usual} else form[3]}"

    @model_validator(mode="before")
    @classmethod
    def _no_empty_strings(cls, given: Any) -> Any:
        """An empty environment variable means the default, as compose files write it; secrets are in files.

        BARTSERVE_<NAME>_FILE names a file with the setting, of which the white space at the end is left out.
        """
        if not isinstance(given, dict):
            return given
        found = {name: value for name, value in given.items() if value != ""}
        for name in cls.model_fields:
            path = os.environ.get(f"BARTSERVE_{name.upper()}_FILE")
            if path and name not in found:
                try:
                    found[name] = Path(path).read_text().rstrip()
                except OSError as error:
                    raise ValueError(
                        f"BARTSERVE_{name.upper()}_FILE: {path} can't be read ({error.strerror})"
                    ) from None
        return found

    @model_validator(mode="after")
    def _fill(self) -> Self:
        filled: dict[str, Any] = {
            "fit_memory_bytes": self.fit_memory_bytes
            or 1024 * (self.worker_memory_kib or 0)
            or _memory() * 9 // 10 // (self.worker_slots + 1),
            "database_url": _with_password(self.database_url, self.database_password)
            or f"sqlite:///{self.data_dir.absolute() / 'bartserve.db'}",
            "redis_url": _with_password(self.redis_url, self.redis_password),
            "lease_seconds": self.lease_seconds or (12.0 if self.embedded else 60.0),
            "dispatch_seconds": self.dispatch_seconds or (0.2 if self.embedded else 2.0),
        }
        for name, usual in QUOTAS.items():
            given = getattr(self, name)
            filled[name] = (None if is_loopback(self.host) else usual) if given is None else given or None
        for name, value in filled.items():
            object.__setattr__(self, name, value)  # frozen for everyone else
        return self

    @property
    def embedded(self) -> bool:
        """One machine, no broker: the worker rings its own bell."""
        return self.redis_url is None


def read_settings(**given: Any) -> Settings:
    """The settings of the environment and of what is given; raises SettingError."""
    try:
        return Settings(**given)
    except ValidationError as error:
        # Not its own text: that holds the values, and one of them may be a secret.
        wrong = error.errors(include_url=False, include_context=False, include_input=False)
    told = []
    for fault in wrong:
        what = fault["msg"].removeprefix("Value error, ")
        if not fault["loc"]:
            told.append(what)  # which names its variable itself
            continue
        name = str(fault["loc"][0])
        option = f"--{name.removeprefix('worker_').replace('_', '-')}"
        variable = option if name in given else f"{PREFIX}{name.upper()}"
        told.append(f"{variable}: {what[:1].lower()}{what[1:]}")
    raise SettingError("; ".join(told) + ".")


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable BARTSERVE_... that nothing reads, with the nearest that something does."""
    fields = {name.upper() for name in Settings.model_fields}
    known = sorted(fields | {f"{name}_FILE" for name in fields} | {"URL", "KEY"})
    told = []
    for variable in sorted(environment):
        name = variable.upper().removeprefix(PREFIX)
        if (
            name == variable.upper()
            or name in OTHER_VARIABLES | set(known)
            or STRANGE_VARIABLES.fullmatch(name)
        ):
            continue
        (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        told.append(
            f"The environment variable {variable} is no setting; the nearest is {PREFIX}{nearest} "
            "(`bartserve config` lists all)."
        )
    return told


@dataclass(frozen=True)
class Described:
    """A setting for people."""

    variable: str
    kind: str
    default: str
    meaning: str
    name: str


def described() -> list[Described]:
    """Every setting, in the order of the class."""
    return [
        Described(
            variable=f"{PREFIX}{name.upper()}",
            kind=_kind(field.annotation),
            default=_default(field),
            meaning=field.description or "",
            name=name,
        )
        for name, field in Settings.model_fields.items()
    ]


def _default(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra["default_words"]) if isinstance(extra, dict) else _shown(field.default)


def shown_value(settings: Settings, name: str) -> str:
    """The value of a setting, without secrets."""
    value = getattr(settings, name)
    if name in SECRETS:
        return MASK if value else "none"
    return _masked(value) if isinstance(value, str) and "://" in value else _shown(value)


def _masked(url: str) -> str:
    """A URL without its password, wherever that stands."""
    parts = urlsplit(url)
    place, _, host = parts.netloc.rpartition("@")
    if ":" in place:
        place = f"{place.partition(':')[0]}:{MASK}"
    query = re.sub(r"(?i)([^&=]*(?:pass|secret|token)[^&=]*=)[^&]*", rf"\g<1>{MASK}", parts.query)
    return urlunsplit(parts._replace(netloc=f"{place}@{host}" if place else host, query=query))


def _kind(annotation: Any) -> str:
    if annotation is Path:
        return "path"
    if isinstance(annotation, type):
        return {int: "integer", float: "number", str: "text", bool: "true or false"}.get(
            annotation, annotation.__name__
        )
    options = [option for option in get_args(annotation) if option is not type(None)]
    return ", ".join(option if isinstance(option, str) else _kind(option) for option in options)


def _shown(value: Any) -> str:
    return "none" if value is None or value == "" else str(value)
