"""Addresses of clients: as what they are counted, and which are proxies."""

import pytest

from app.web.addresses import counted_as, is_among, networks_of


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("no address " * 1000, ("no address " * 1000)[:64]),
    ],
)
def test_an_ipv6_subscriber_counts_as_one(address, counted):
    assert counted_as(address) == counted


def test_proxies_are_found_by_network():
    """IPv4 addresses in IPv6 form too; a text that is no address is no proxy."""
    proxies = networks_of("10.0.0.0/8, 2001:db8::/32,192.0.2.1")
    inside = ["10.200.3.4", "::ffff:10.1.1.1", "2001:db8:ffff::1", "192.0.2.1"]
    outside = ["11.0.0.1", "192.0.2.2", "::1", "", "unix:"]
    assert [is_among(address, proxies) for address in inside + outside] == [True] * 4 + [False] * 5
    assert not is_among("127.0.0.1", networks_of(""))
