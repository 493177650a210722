"""Addresses of clients: as what they are counted, and which are our proxies."""

import ipaddress
from collections.abc import Collection

LONGEST = 64  # characters of an address; a proxy may pass on any text
IPV6_BITS = 64  # of an address, those that a subscriber doesn't choose
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks_of(listed: str) -> tuple[Network, ...]:
    """Parse addresses and networks separated by commas; raises ValueError for any other text."""
    return tuple(ipaddress.ip_network(part.strip()) for part in listed.split(",") if part.strip())


def counted_as(text: str) -> str:
    """Return as what a client's address is counted: itself, of IPv6 its /64 network.

    A subscriber has at least such a network, and may send each request from another address of it.
    """
    address = _parsed(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_BITS), strict=False))
    return text[:LONGEST] if address is None else str(address)


def is_among(text: str, networks: Collection[Network]) -> bool:
    """Tell whether an address belongs to one of the networks."""
    address = _parsed(text)
    return address is not None and any(address in network for network in networks)


def _parsed(text: str) -> Address | None:
    """Parse an address; None for other text, which a proxy may send."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
