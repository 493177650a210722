"""Clients of local servers without HTTPS, since reading certificates takes longer than most tests."""

import ssl
from typing import Any

import httpx

from tests.support.waiting import stretched

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Client(httpx.Client):
    """An httpx client for plain HTTP."""

    def __init__(self, *, timeout: float = 5.0, **options: Any) -> None:
        super().__init__(verify=NO_CERTIFICATES, timeout=stretched(timeout), **options)


def get(url: str, **options: Any) -> httpx.Response:
    """Send a GET by httpx for plain HTTP."""
    return httpx.get(url, verify=NO_CERTIFICATES, **options)


def post(url: str, **options: Any) -> httpx.Response:
    """Send a POST by httpx for plain HTTP."""
    return httpx.post(url, verify=NO_CERTIFICATES, **options)
