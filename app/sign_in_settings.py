"""Settings of the sign-in by a team's own provider (OpenID Connect), a part of `app.settings.Settings`."""

import ipaddress
import re
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings

# Scopes that a token can give. The command line alone gives `operator`, as a key.
TOKEN_SCOPES = ("read", "predict", "train", "metrics", "admin")
# Signatures with public keys alone: with a shared secret (HS256) whoever checks tokens could make them.
ALGORITHMS = frozenset(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in ("256", "384", "512")) | {
    "EdDSA"
}


def is_loopback(host: str) -> bool:
    """Return whether a listening address is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class SignInSettings(BaseSettings):
    """Signer and requirements of tokens, and which scopes and owner they give."""

    oidc_issuer: str | None = Field(
        default=None,
        description="The issuer of your sign-in (OpenID Connect), exactly as its tokens name it, such as "
        "https://login.example/realms/team. Then its tokens are accepted as well as keys.",
    )
    oidc_audience: str = Field(
        default="",
        description="The audiences of which a token must name one, separated by commas; needed with "
        "oidc_issuer, so that tokens for other services aren't accepted.",
    )
    oidc_jwks_url: str | None = Field(
        default=None,
        description="The URL of the provider's public keys (JWKS); default: the one that the issuer's "
        "/.well-known/openid-configuration names.",
    )
    oidc_algorithms: str = Field(
        default="RS256,ES256",
        description="The accepted algorithms of signatures, separated by commas: RS, PS or ES with 256, 384 "
        "or 512, or EdDSA.",
    )
    oidc_owner_claim: str = Field(
        default="sub",
        min_length=1,
        description="The claim of a token that names the owner of what it creates. Take one that users can't "
        "change; a dot leads into an object, as in realm.team.",
    )
    oidc_scope_claim: str = Field(
        default="scope",
        min_length=1,
        description="The claim of a token that gives its scopes: a list, or a text with spaces; such as "
        "groups, roles or realm_access.roles.",
    )
    oidc_scopes: str = Field(
        default=",".join(f"bartserve:{scope}={scope}" for scope in TOKEN_SCOPES),
        description="Which values of that claim give which scopes, such as "
        "analysts=read predict,science=read predict train; * is any valid token.",
    )
    oidc_leeway_seconds: float = Field(
        default=60.0,
        ge=0,
        le=600,
        description="By how many seconds the provider's clock may differ from this machine's.",
    )
    oidc_header: str | None = Field(
        default=None,
        description="The header in which your proxy hands on the token of a signed-in browser, such as "
        "X-Forwarded-Access-Token; its signature is checked as any other's.",
    )

    @field_validator("oidc_issuer", "oidc_jwks_url")
    @classmethod
    def _by_tls(cls, url: str | None) -> str | None:
        """Accept a URL from which keys come unchanged: by TLS, or from this machine."""
        try:
            parts = urlsplit(url or "https://unset")
            fits = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
            readable = fits and bool(parts.hostname) and parts.username is None and (parts.port or 1) > 0
        except ValueError:
            readable = False
        if not readable:
            raise ValueError("it must begin with https:// (http:// only on this machine) and name no user")
        return url

    @field_validator("oidc_algorithms")
    @classmethod
    def _public_keys_alone(cls, listed: str) -> str:
        named = listed_in(listed)
        if not named or not named <= ALGORITHMS:
            raise ValueError(f"it must be some of {', '.join(sorted(ALGORITHMS))}, separated by commas")
        return listed

    @field_validator("oidc_scopes")
    @classmethod
    def _known_scopes(cls, listed: str) -> str:
        if not all(given and given <= set(TOKEN_SCOPES) for given in scopes_by_value(listed).values()):
            raise ValueError(
                f"it must be like analysts=read predict, with scopes of {', '.join(TOKEN_SCOPES)}"
            )
        return listed

    @field_validator("oidc_header")
    @classmethod
    def _is_header(cls, name: str | None) -> str | None:
        if name is not None and (
            not re.fullmatch(r"[A-Za-z0-9-]{1,100}", name) or name.lower() in {"authorization", "cookie"}
        ):
            raise ValueError("it must be the name of a header other than Authorization and Cookie")
        return name

    @model_validator(mode="after")
    def _for_whom(self) -> Self:
        if self.oidc_issuer and not listed_in(self.oidc_audience):
            raise ValueError("BARTSERVE_OIDC_AUDIENCE: it is needed with BARTSERVE_OIDC_ISSUER")
        return self


def listed_in(text: str) -> frozenset[str]:
    """Return the parts of a text separated by commas."""
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def scopes_by_value(text: str) -> dict[str, frozenset[str]]:
    """Return the scopes that each value of the claim gives."""
    entries = (part.rpartition("=") for part in sorted(listed_in(text)))
    return {value.strip(): frozenset(scopes.split()) for value, _, scopes in entries}
