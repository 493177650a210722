"""Keys of a team's sign-in: when they are read again, and which documents and settings give none."""

import logging
from contextlib import nullcontext

import pytest

from app.services.access import provider_keys
from app.services.access.provider_keys import ProviderKeys
from app.services.errors import UnavailableError
from app.settings import SettingError, read_settings
from tests.support.processes.provider import Provider


@pytest.fixture
def provider():
    """A provider with one key."""
    with Provider().serving() as provider:
        yield provider


def test_keys_are_read_again_in_time(provider, caplog):
    """Known keys are read again after minutes, unknown ones at once but not often, none a day later."""
    now = [0.0]
    held = ProviderKeys(provider.issuer, clock=lambda: now[0])
    assert held.find("first", "RS256") is not None
    assert held.find("first", "ES256") is None, "a key is bound to its algorithm"
    assert held.find(None, "RS256") is not None, "the only key needs no name"
    provider.rotate("second", "ES256")
    assert held.find("second", "ES256") is None, "it was asked a moment ago"
    assert len(provider.asked) == 2
    now[0] += provider_keys.AGAIN
    assert held.find("second", "ES256") is not None
    assert held.find("first", "RS256") is None
    provider.responds = False
    with caplog.at_level(logging.WARNING):
        now[0] += provider_keys.FRESH
        assert held.find("second", "ES256") is not None
    assert "can't be read" in caplog.text
    now[0] += provider_keys.KEPT
    with pytest.raises(UnavailableError):
        held.find("second", "ES256")


def test_a_whole_exchange_has_a_deadline(provider, monkeypatch, caplog):
    """A provider that goes on sending headers is given up, though each part comes in time."""
    monkeypatch.setattr(provider_keys, "DEADLINE", 0.2)
    provider.drips = True
    with caplog.at_level(logging.WARNING), pytest.raises(UnavailableError):
        ProviderKeys(provider.issuer).find("first", "RS256")
    assert "too slow" in caplog.text


@pytest.mark.parametrize(
    "document",
    [[], {}, {"keys": 1}, {"keys": [1, {}, {"kty": "RSA"}, {"kty": "oct", "k": "c2VjcmV0", "kid": "first"}]}],
)
def test_strange_documents_give_no_key(document):
    """A document that is no list of public keys gives none, whatever its shape."""
    held = ProviderKeys("https://login.example", "https://login.example/keys", fetch=lambda _url: document)
    is_set = isinstance(document, dict) and isinstance(document.get("keys"), list)
    with nullcontext() if is_set else pytest.raises(UnavailableError):
        assert held.find("first", "RS256") is None
        assert held.find("first", "HS256") is None


def test_another_issuers_discovery_is_refused(provider):
    """A discovery document that names another issuer, or keys without TLS, gives no keys."""
    for document in ({"issuer": "https://evil.example"}, {"issuer": "x", "jwks_uri": "http://evil.example"}):
        held = ProviderKeys("x", fetch=lambda _url, found=document: found)
        with pytest.raises(UnavailableError):
            held.find("first", "RS256")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"oidc_issuer": "https://login.example"}, "OIDC_AUDIENCE"),
        ({"oidc_issuer": "http://login.example", "oidc_audience": "a"}, "https://"),
        ({"oidc_jwks_url": "http://login.example"}, "https://"),
        ({"oidc_algorithms": "RS256,HS256"}, "RS512"),
        ({"oidc_algorithms": "none"}, "RS512"),
        ({"oidc_scopes": "team=operator"}, "admin"),
        ({"oidc_scopes": "team"}, "admin"),
        ({"oidc_header": "Authorization"}, "header"),
        ({"oidc_header": "X Y"}, "header"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(given, said):
    """No shared secrets, no keys without TLS, no tokens for other services, no operators."""
    with pytest.raises(SettingError, match=said):
        read_settings(**given)
