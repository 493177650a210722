"""Tokens of a team's own sign-in: signed by its provider for this service (JWT, RFC 7519 and 8725).

A token is a key of a few minutes: its claims name the owner and give the scopes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from app.services.access.keys import MAX_NAME, Key
from app.services.access.provider_keys import ProviderKeys
from app.services.errors import UnauthorizedError
from app.settings import Settings
from app.sign_in_settings import listed_in, scopes_by_value

LONGEST = 16 * 1024  # characters of a token; with hundreds of groups some have ten thousand
MAX_KEY_NAME = 500
EVERYBODY = "*"
NEEDED = ("exp", "iss", "aud")


@dataclass(frozen=True)
class TokenRules:
    """Requirements of a token, and what its claims give."""

    issuer: str
    audiences: frozenset[str]
    algorithms: frozenset[str]
    owner_claim: str
    scope_claim: str
    scopes: Mapping[str, frozenset[str]]
    leeway: float


class Tokens:
    """Checks tokens; for threads.

    Parameters
    ----------
    rules
        What a token must say.
    keys
        The provider's public keys.
    """

    def __init__(self, rules: TokenRules, keys: ProviderKeys) -> None:
        self._rules, self._keys = rules, keys

    def authenticate(self, token: str) -> Key:
        """Return the key that a token stands for.

        Raises
        ------
        UnauthorizedError
            The token isn't valid now, here and for us.
        UnavailableError
            It can't be checked, because the provider doesn't respond.
        """
        rules = self._rules
        try:
            if len(token) > LONGEST:
                raise UnauthorizedError(f"The token has more than {LONGEST} characters.")
            header = jwt.get_unverified_header(token)
            algorithm, name = header.get("alg"), header.get("kid")
            if not isinstance(algorithm, str) or algorithm not in rules.algorithms:
                raise UnauthorizedError(
                    f"The token's algorithm isn't accepted: only {' or '.join(sorted(rules.algorithms))}."
                )
            if name is not None and len(name) > MAX_KEY_NAME:
                raise UnauthorizedError("The token's key has too long a name.")
            key = self._keys.find(name, algorithm)
            if key is None:
                raise UnauthorizedError("The token isn't signed with a key of the provider: sign in again.")
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=rules.audiences,
                issuer=rules.issuer,
                leeway=rules.leeway,
                options={"require": list(NEEDED)},
            )
        except jwt.ExpiredSignatureError:
            raise UnauthorizedError("The token has expired: sign in again.") from None
        except (jwt.ImmatureSignatureError, jwt.InvalidIssuedAtError):
            raise UnauthorizedError("The token isn't valid yet: compare the clocks.") from None
        except (jwt.InvalidAudienceError, jwt.InvalidIssuerError, jwt.MissingRequiredClaimError):
            raise UnauthorizedError(
                "The token isn't for this service: it needs exp, and the configured iss and aud."
            ) from None
        except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
            raise UnauthorizedError("The token is malformed, or its signature is wrong.") from None
        return self._key_of(claims)

    def _key_of(self, claims: Mapping[str, Any]) -> Key:
        owner, subject = _claim(claims, self._rules.owner_claim), claims.get("sub")
        if not _is_name(owner):
            raise UnauthorizedError(
                f"The token's claim {self._rules.owner_claim} names no owner (1 to {MAX_NAME} characters)."
            )
        given = _claim(claims, self._rules.scope_claim)
        values = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
        held = {value for value in values if isinstance(value, str)} | {EVERYBODY}
        scopes = frozenset[str]().union(*(self._rules.scopes.get(value, ()) for value in held))
        shown = (claims.get(name) for name in ("preferred_username", "email", "name"))
        name = next((text for text in shown if _is_name(text)), owner)
        return Key(f"token:{subject if _is_name(subject) else owner}", str(name), str(owner), scopes)


def tokens_of(settings: Settings) -> Tokens | None:
    """Return what checks tokens by the settings; None where no provider is set."""
    if settings.oidc_issuer is None:
        return None
    rules = TokenRules(
        issuer=settings.oidc_issuer,
        audiences=listed_in(settings.oidc_audience),
        algorithms=listed_in(settings.oidc_algorithms),
        owner_claim=settings.oidc_owner_claim,
        scope_claim=settings.oidc_scope_claim,
        scopes=scopes_by_value(settings.oidc_scopes),
        leeway=settings.oidc_leeway_seconds,
    )
    return Tokens(rules, ProviderKeys(settings.oidc_issuer, settings.oidc_jwks_url))


def is_token(presented: str) -> bool:
    """Tell a token from a key: it has three parts."""
    return presented.count(".") == 2


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its whole name (which may be a URL), else by the path that its dots describe."""
    if path in claims:
        return claims[path]
    at: Any = claims
    for step in path.split("."):
        at = at.get(step) if isinstance(at, dict) else None
    return at


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) == len(value) <= MAX_NAME and value.isprintable()
