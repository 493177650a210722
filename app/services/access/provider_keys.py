"""The public keys of a team's sign-in (JWKS, RFC 7517), in memory, read again when they may have changed.

While the provider is out of reach, keys that were read before go on working for a day.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
from jwt import PyJWK

from app.services.errors import UnavailableError
from app.sign_in_settings import is_loopback

FRESH = 300.0  # seconds after which keys are asked for again: a withdrawn key works no longer than this
KEPT = 24 * 3600.0  # seconds for which they are used while the provider doesn't respond
AGAIN = 10.0  # seconds between two requests to the provider, whatever tokens arrive
DEADLINE = 4.0  # seconds for one of its documents
MAX_BYTES = 1024 * 1024
MAX_KEYS = 200
KINDS = frozenset({"RSA", "EC", "OKP"})  # public keys; a shared secret ("oct") is none
log = logging.getLogger(__name__)
Fetch = Callable[[str], Any]


class ProviderKeys:
    """The keys of one provider; for threads.

    Parameters
    ----------
    issuer
        The issuer, whose discovery document names the keys' URL.
    url
        The keys' URL, if it is known.
    fetch, clock
        Return the JSON document at a URL, and the seconds of a clock that never goes back.
    """

    def __init__(
        self,
        issuer: str,
        url: str | None = None,
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._url = issuer, url
        self._fetch, self._clock = fetch or _fetch, clock
        self._lock = threading.Lock()  # one request to the provider at a time
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._read = self._asked = -KEPT  # when keys came, and when they were asked for
        self._responds = True

    def find(self, name: str | None, algorithm: str) -> PyJWK | None:
        """Return the key of a name (`kid`) for an algorithm, None if the provider has none.

        Without a name, it is the provider's only key for this algorithm.

        Raises
        ------
        UnavailableError
            The key isn't known, and the provider doesn't respond.
        """
        found, age = self._find(name, algorithm), self._clock() - self._read
        if found is not None and age < FRESH:
            return found
        usable = found is not None and age < KEPT
        # Whoever has a key that was good before doesn't wait for another's request to the provider.
        if self._lock.acquire(blocking=not usable):
            try:
                self._renew(name, algorithm)
            finally:
                self._lock.release()
        found, age = self._find(name, algorithm), self._clock() - self._read
        if found is not None and age < KEPT:
            return found
        if not self._responds:
            raise UnavailableError(
                "Your sign-in's provider doesn't respond, and this token can't be checked without it: try "
                "again soon, or use a key.",
                retry_after=int(AGAIN),
            )
        return None

    def _find(self, name: str | None, algorithm: str) -> PyJWK | None:
        named = [key for key in self._keys if name is None or key.get("kid") == name]
        fitting = [made for key in named if (made := _made(key, algorithm)) is not None]
        return fitting[0] if len(fitting) == 1 else None

    def _renew(self, name: str | None, algorithm: str) -> None:
        now = self._clock()
        if now - self._asked < AGAIN or (
            now - self._read < FRESH and self._find(name, algorithm) is not None  # by another thread
        ):
            return
        self._asked = now
        try:
            self._keys = _keys_of(self._fetch(self._url or self._discovered()))
        except (httpx.HTTPError, OSError, ValueError) as error:
            self._responds = False
            log.warning("the keys of the sign-in can't be read: %s", error)
            return
        self._read, self._responds = now, True

    def _discovered(self) -> str:
        """Return the keys' URL by OpenID Connect Discovery 1.0, section 4; raises ValueError."""
        document = self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if not isinstance(document, dict) or document.get("issuer") != self._issuer:
            raise ValueError("the discovery document is of another issuer")
        url = document.get("jwks_uri")
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise ValueError("the discovery document names no https:// URL of keys")
        return str(url)


def _keys_of(document: Any) -> list[Mapping[str, Any]]:
    """Return the public keys for signatures in a JWKS; raises ValueError for another document."""
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list) or len(keys) > MAX_KEYS:
        raise ValueError("the document has no list of keys")
    mappings = [key for key in keys if isinstance(key, dict)]
    return [key for key in mappings if key.get("kty") in KINDS and key.get("use", "sig") == "sig"]


def _made(key: Mapping[str, Any], algorithm: str) -> PyJWK | None:
    """Return the key bound to the algorithm; None for a key of another algorithm or kind."""
    if key.get("alg", algorithm) != algorithm:
        return None
    try:
        return PyJWK(dict(key), algorithm)
    except Exception:  # noqa: BLE001  the library's own and those of what it reads keys with
        return None


def _fetch(url: str) -> Any:
    """Return a JSON document; raises httpx.HTTPError, OSError or ValueError.

    Redirects aren't followed.
    """
    try:
        return json.loads(asyncio.run(_received(url)))
    except TimeoutError:
        raise ValueError("the answer is too slow") from None


async def _received(url: str) -> bytes:
    """Receive a document, all of it before the deadline; timeouts of a client hold for each part alone."""
    received = bytearray()
    async with (
        asyncio.timeout(DEADLINE),
        httpx.AsyncClient(timeout=DEADLINE, verify=url.startswith("https:")) as client,
        client.stream("GET", url, headers={"Accept": "application/json"}) as response,
    ):
        if response.status_code != httpx.codes.OK:
            raise ValueError(f"the answer has status {response.status_code}")
        async for part in response.aiter_bytes():
            received += part
            if len(received) > MAX_BYTES:
                raise ValueError("the answer is too large")
    return bytes(received)
