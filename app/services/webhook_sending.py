"""Deliveries of webhooks: signed by the Standard Webhooks convention, and sent outside our own network only.

A host name is resolved once, and the connection is made to an address that was checked; there are no
redirects and no proxies.
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import logging
import re
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.fair_line import OwnerTurns
from app.store.engine import session_scope
from app.store.webhooks import outbox as store
from app.store.webhooks.outbox import Taken

DEADLINE = 10.0  # seconds for a delivery: the name, the connection, the head of the response
PLACES, OF_OWNER = 8, 4  # deliveries at once, and of one owner
LINGER = 2.0  # seconds for which the sender waits for more
PAUSE = 0.2
MOST_LINES, LINE_BYTES = 200, 8192  # of the head of a response, and of what is sent before it
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})\b")
NAT64 = ipaddress.ip_network("64:ff9b::/96")
PUBLIC = ipaddress.ip_network("2000::/3")  # of IPv6: the rest is unallocated, local, or translated to IPv4
RELAYS = ipaddress.ip_network("192.88.99.0/24")  # anycast of 6to4, withdrawn by RFC 7526
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
T = TypeVar("T")
log = logging.getLogger(__name__)


class RefusedAddressError(Exception):
    """Nothing is sent to this address; the message is a sentence."""


def signed(taken: Taken, at: int) -> dict[str, str]:
    """Return the headers of a delivery: its id, the time of this attempt, a signature by each secret.

    By Standard Webhooks 1.0: HMAC-SHA256 of `id.timestamp.body`, base64, after `v1,`.
    """
    text = f"{taken.id}.{at}.{taken.body}".encode()
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in taken.secrets]
    marks = [base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode() for key in keys]
    return {
        "webhook-id": taken.id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{mark}" for mark in marks),
        "content-type": "application/json",
        "user-agent": "bartserve",
    }


def is_allowed(text: str, networks: Collection[_Network]) -> bool:
    """Tell whether something may be sent to an address: a public one, or one of the allowed networks."""
    inner = _inner(ipaddress.ip_address(text.partition("%")[0]))
    allocated = inner in PUBLIC if inner.version == 6 else inner not in RELAYS
    return (allocated and inner.is_global and not inner.is_multicast) or is_listed(text, networks)


def is_listed(text: str, networks: Collection[_Network]) -> bool:
    """Tell whether an address is of one of the networks."""
    inner = _inner(ipaddress.ip_address(text.partition("%")[0]))
    return any(inner in network for network in networks)


def _inner(address: _Address) -> _Address:
    """Return the IPv4 address that an IPv6 address leads to, if it is one of those."""
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped or address.sixtofour
        if mapped is None and address in NAT64:
            mapped = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return mapped or address
    return address


async def resolve(host: str, port: int, networks: Collection[_Network]) -> str:
    """Resolve a host to an address that may be told.

    Raises
    ------
    RefusedAddressError
        It has no address, or one that may not.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise RefusedAddressError("The host has no address.") from None
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(is_allowed(address, networks) for address in addresses):
        raise RefusedAddressError(
            "The host has an address of a private network: BARTSERVE_WEBHOOK_NETWORKS allows some."
        )
    return addresses[0]


async def send(taken: Taken, networks: Collection[_Network]) -> tuple[str | None, bool]:
    """Make one attempt; return None or the fault as a sentence, and whether it is for good."""
    try:
        async with asyncio.timeout(DEADLINE):
            return await _post(taken, networks)
    except TimeoutError:
        return f"It didn't answer within {DEADLINE:.0f} s.", False
    except RefusedAddressError as error:
        return str(error), False
    except (httpx.InvalidURL, OSError, ValueError) as error:
        return f"The connection failed ({type(error).__name__}).", False


async def _post(taken: Taken, networks: Collection[_Network]) -> tuple[str | None, bool]:
    parts = urlsplit(taken.url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    address = await resolve(host, port, networks)
    inside = is_listed(address, networks)
    if parts.scheme != "https" and not inside:
        raise RefusedAddressError("Outside the allowed networks it must be https://.")
    target, body = httpx.URL(taken.url).raw_path, taken.body.encode()
    headers = {"host": parts.netloc, "accept": "*/*", "content-length": str(len(body)), "connection": "close"}
    lines = [f"{name}: {value}" for name, value in (headers | signed(taken, int(time.time()))).items()]
    secured: dict[str, Any] = {}
    if parts.scheme == "https":
        secured = {"ssl": httpx.create_ssl_context(trust_env=False), "server_hostname": host}
    reader, writer = await asyncio.open_connection(address, port, limit=LINE_BYTES, **secured)
    try:
        writer.write(b"POST %b HTTP/1.1\r\n%b\r\n\r\n%b" % (target, "\r\n".join(lines).encode(), body))
        with suppress(ConnectionError):  # it may answer before it has read all
            await writer.drain()
        status = await _status(reader)
    finally:
        writer.transport.abort()
    if status < HTTPStatus.MULTIPLE_CHOICES:
        return None, False
    return f"It answered {status}.", status == HTTPStatus.GONE


async def _status(reader: asyncio.StreamReader) -> int:
    """Read the head of a response and return its status; the body is nothing to us.

    A client of HTTP would read interim responses (100 Continue) without an end.
    """
    head: list[bytes] = []
    for _ in range(MOST_LINES):
        head.append((await reader.readline()).strip())
        if head[-1]:
            continue
        found = STATUS.match(head[0])
        if found is None:
            break
        if (status := int(found[1])) >= HTTPStatus.OK:
            return status
        head = []
    raise ConnectionError


async def run(engine: Engine, networks: Sequence[_Network], seconds: float) -> int:
    """Send what is due, for as many seconds at most; return the number of attempts.

    A free place is for the owner with the fewest, of equals for the one served least recently; one owner's
    slow receivers take half of them.
    """
    running: dict[asyncio.Task[None], str] = {}
    turns = OwnerTurns()
    attempts, until = 0, time.monotonic() + seconds
    idle_until = time.monotonic() + LINGER
    await asyncio.to_thread(_in_transaction, engine, store.forget_old)
    while time.monotonic() < until:
        while len(running) < PLACES:
            taken = await asyncio.to_thread(_take, engine, turns)
            if taken is None:
                break
            turns.begin(taken.owner)
            running[asyncio.create_task(_deliver(engine, taken, networks))] = taken.owner
            attempts += 1
        if running:
            done, _ = await asyncio.wait(running, timeout=PAUSE, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                turns.end(running.pop(task))
                with suppress(Exception):  # it has been logged; the delivery is due again after its lease
                    task.result()
            idle_until = time.monotonic() + LINGER
        elif time.monotonic() >= idle_until:
            break
        else:
            await asyncio.sleep(PAUSE)
    if running:
        await asyncio.wait(running, timeout=DEADLINE)
    return attempts


async def _deliver(engine: Engine, taken: Taken, networks: Collection[_Network]) -> None:
    try:
        fault, for_good = await send(taken, networks)
        made = partial(store.made, taken=taken, fault=fault, for_good=for_good)
        await asyncio.to_thread(_in_transaction, engine, made)
    except Exception:
        log.exception("delivery %s of webhook %s", taken.id, taken.webhook_id)
        raise


def _take(engine: Engine, turns: OwnerTurns) -> Taken | None:
    with session_scope(
        engine, read_only=True
    ) as session:  # most looks find nothing, and hold no other writer up
        owners = turns.order(store.owners_due(session), OF_OWNER)
    taken = (_in_transaction(engine, partial(store.take, owner=owner)) for owner in owners)
    return next((each for each in taken if each is not None), None)


def _in_transaction(engine: Engine, act: Callable[[Session], T]) -> T:
    with session_scope(engine) as session:
        return act(session)
