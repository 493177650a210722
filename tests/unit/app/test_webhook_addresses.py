"""To which addresses webhooks are sent."""

import asyncio
import ipaddress

import pytest

from app.services.webhook_sending import RefusedAddressError, is_allowed, resolve, send
from app.store.webhooks.outbox import Taken

OURS = [ipaddress.ip_network("10.1.0.0/16"), ipaddress.ip_network("fd00::/8")]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1"),
        *("ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "198.18.0.1"),
        *("64:ff9b:1::7f00:1", "64:ff9b:1::5db8:d822", "::10.0.0.1", "::93.184.216.34", "::ffff:0:10.0.0.1"),
        *("192.88.99.1", "::ffff:192.88.99.1", "fec0::1", "2001::1", "2001:db8::1", "4000::1"),
    ],
)
def test_addresses_that_are_not_public_are_refused(address):
    """Private, local, shared and multicast addresses, and IPv6 forms of such, need the setting."""
    assert not is_allowed(address, [])


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]
)
def test_public_addresses_are_allowed(address):
    """Public addresses need no setting."""
    assert is_allowed(address, [])


def test_the_setting_allows_its_networks_alone():
    """An address of a listed network is allowed, its neighbours aren't."""
    assert is_allowed("10.1.2.3", OURS)
    assert is_allowed("::ffff:10.1.2.3", OURS)
    assert is_allowed("fd00::1", OURS)
    assert not is_allowed("10.2.0.1", OURS)


def resolving(monkeypatch, *addresses):
    asked = []

    async def getaddrinfo(_self, host, port, **_options):
        asked.append(host)
        return [(2, 1, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


def test_a_name_with_one_private_address_is_refused(monkeypatch):
    """All of a name's addresses must be public: the connection could go to any."""
    resolving(monkeypatch, "93.184.216.34", "127.0.0.1")
    with pytest.raises(RefusedAddressError):
        asyncio.run(resolve("mixed.example", 443, []))
    resolving(monkeypatch)
    with pytest.raises(RefusedAddressError):
        asyncio.run(resolve("nothing.example", 443, []))


def test_a_name_is_resolved_once_and_http_needs_an_allowed_network(monkeypatch):
    """The address that was checked is the one of the connection; outside, http:// is refused."""
    asked = resolving(monkeypatch, "93.184.216.34")
    taken = Taken("msg_1", "wh_1", "ann", "http://plain.example/x", "{}", 1, [])
    assert asyncio.run(send(taken, [])) == ("Outside the allowed networks it must be https://.", False)
    assert asked == ["plain.example"]
    asked = resolving(monkeypatch, "127.0.0.1")
    closed = Taken("msg_1", "wh_1", "ann", "http://plain.example:9/x", "{}", 1, [])
    fault, _ = asyncio.run(send(closed, [ipaddress.ip_network("127.0.0.1")]))
    assert fault == "The connection failed (ConnectionRefusedError)."
    assert asked == ["plain.example"]
