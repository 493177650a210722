"""Settings as shown to people: variable, kind, default and meaning of each, and its value without secrets."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit, urlunsplit

from pydantic.fields import FieldInfo

from app.settings import PREFIX, Settings
from app.sign_in_settings import SignInSettings

SECRETS = frozenset({"database_password", "redis_password"})
MASK = "********"


@dataclass(frozen=True)
class Described:
    """A setting as shown to people."""

    variable: str
    kind: str
    default: str
    meaning: str
    name: str


def describe_settings() -> list[Described]:
    """Return every setting, in the order of the class, those of the sign-in last."""
    ordered = sorted(Settings.model_fields.items(), key=lambda field: field[0] in SignInSettings.model_fields)
    return [
        Described(
            variable=f"{PREFIX}{name.upper()}",
            kind=_kind(field.annotation),
            default=_default(field),
            meaning=field.description or "",
            name=name,
        )
        for name, field in ordered
    ]


def _default(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra["default_words"]) if isinstance(extra, dict) else _as_text(field.default)


def shown_value(settings: Settings, name: str) -> str:
    """Return the value of a setting, with secrets masked."""
    value = getattr(settings, name)
    if name in SECRETS:
        return MASK if value else "none"
    return _masked(value) if isinstance(value, str) and "://" in value else _as_text(value)


def _masked(url: str) -> str:
    """Mask passwords and other secrets in a URL."""
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


def _as_text(value: Any) -> str:
    return "none" if value is None or value == "" else str(value)
