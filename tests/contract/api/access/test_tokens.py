"""Tokens of a team's own sign-in, by a real provider whose keys rotate and which may be out of reach."""

import time

import pytest

from app.services.access import keys, provider_keys
from app.sign_in_settings import TOKEN_SCOPES
from tests.contract.api.access.test_keys import scopes_for
from tests.support.api_calls import CSV, bearer, make_key, problem, table
from tests.support.databases import only
from tests.support.html_page import ACCEPT, page_of
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.processes.provider import AUDIENCE, Provider, confused, new_key, unsigned
from tests.support.routes import address, body_for, guarded_routes

pytestmark = only("sqlite")
HEADER = "X-Forwarded-Access-Token"


@pytest.fixture(scope="module")
def _provider():
    with Provider().serving() as provider:
        yield provider


@pytest.fixture
def provider(_provider):
    """A provider with one key; a service beside it has asked for none yet."""
    _provider.keys.clear()
    _provider.asked.clear()
    _provider.responds = True
    _provider.rotate("first")
    return _provider


@pytest.fixture
def chosen(settings, provider):
    return settings.model_copy(
        update={
            "host": "0.0.0.0",
            "oidc_issuer": provider.issuer,
            "oidc_audience": f"other, {AUDIENCE}",
            "oidc_owner_claim": "team",
            "oidc_header": HEADER,
        }
    )


@pytest.fixture
def signed(chosen):
    """A client of a service that accepts the provider's tokens, with nothing cached."""
    with serving(chosen) as url, plain_http.Client(base_url=url, timeout=30) as client:
        yield client


def by(token):
    return {"Authorization": f"Bearer {token}"}


def test_a_token_gives_its_owner_and_scopes_beside_keys(signed, provider, database):
    """A token acts for the owner and with the scopes of its claims; keys of the owner share its objects."""
    trainer = by(provider.token(scope="bartserve:train bartserve:read email"))
    made = signed.post("/datasets", content=table().encode(), headers=CSV | trainer)
    assert made.status_code == 201
    reader = by(provider.token(sub="bob", scope=["bartserve:read", 7]))
    assert signed.get(f"/datasets/{made.json()['id']}", headers=reader).status_code == 200
    problem(signed.post("/datasets", content=table().encode(), headers=CSV | reader), 403, "scope-missing")
    other = by(provider.token(team="sales", scope="bartserve:read bartserve:admin"))
    problem(signed.get(f"/datasets/{made.json()['id']}", headers=other), 404)
    key = bearer(make_key(database, "ci", owner="research"))
    assert [item["id"] for item in signed.get("/datasets", headers=key).json()["items"]] == [
        made.json()["id"]
    ]
    (entry,) = signed.get("/audit", headers=by(provider.token(scope="bartserve:admin"))).json()["items"][-1:]
    assert (entry["who"], entry["owner"]) == ("token:ann", "research")
    assert len(provider.asked) == 2, "discovery and keys are read once"


@pytest.mark.slow
def test_every_route_asks_a_token_for_its_scope(signed, provider):
    """Every route accepts the scopes of a token that it accepts of a key, and operator is none of them."""
    held = {scope: by(provider.token(scope=f"bartserve:{scope}")) for scope in (*TOKEN_SCOPES, keys.OPERATOR)}
    assert set(TOKEN_SCOPES) == set(keys.ON_PAGES)
    for method, path in guarded_routes():
        sent = body_for(path, "ds_1") if method == "POST" else {}
        let_in = set()
        for scope, headers in held.items():
            with signed.stream(method, address(path), headers=headers, **sent) as response:
                response.read()
            assert response.status_code != 401
            let_in |= {scope} if response.status_code != 403 else set()
        free = {keys.OPERATOR} if scopes_for(method, path) == set(keys.SCOPES) else set()
        assert let_in == scopes_for(method, path) - {keys.OPERATOR} | free, (method, path)


def forgeries(provider):
    """Return tokens that must not be accepted, by what is wrong."""
    past, claims = int(time.time()) - 100, provider.claims()
    return {
        "expired": provider.token(exp=past),
        "without an end": provider.token(exp=None),
        "not yet valid": provider.token(nbf=int(time.time()) + 100),
        "issued later": provider.token(iat=int(time.time()) + 100),
        "an endless end": provider.token(exp=float("inf")),
        "for another service": provider.token(aud="shop"),
        "for nobody": provider.token(aud=None),
        "of another issuer": provider.token(iss=f"{provider.issuer}/"),
        "of no issuer": provider.token(iss=None),
        "without an owner": provider.token(team=None),
        "of an owner that is a list": provider.token(team=["research"]),
        "of an owner of two lines": provider.token(team="a\nb"),
        "forged under a known name": provider.token(key=new_key()),
        "of an unknown key": provider.token("second", key=new_key()),
        "unsigned": unsigned(claims),
        "unsigned, in capitals": unsigned(claims, algorithm="NONE"),
        "without a signature": unsigned(claims, algorithm="RS256"),
        "HS256 by the public key": confused(claims, provider.public_pem()),
        "by an algorithm not allowed": provider.token(algorithm="RS512"),
        "of other claims": provider.token().replace(".", ".e30", 1),
        "no token": "a.b.c",
        "dots": "..",
        "too long": f"{'a' * 20_000}.b.c",
        "no text": "e30.e30.\u00ff",
    }


def test_forged_foreign_and_expired_tokens_are_refused(signed, provider):
    """Each is refused as a problem document with 401, for browsers' own header too, and asks nothing more."""
    wrong = forgeries(provider)
    assert signed.get("/models", headers=by(provider.token())).status_code == 200
    for what, token in wrong.items():
        for headers in ({"Authorization": f"Bearer {token}".encode()}, {HEADER: token.encode()}):
            body = problem(signed.get("/models", headers=headers), 401, "unauthorized")
            assert token not in str(body), what
    assert len(provider.asked) == 2, "unknown keys make the service ask again at most every ten seconds"


def test_clocks_may_differ_by_the_leeway(signed, provider):
    """A token that ended half a minute ago by our clock is accepted, as the setting says."""
    assert signed.get("/models", headers=by(provider.token(exp=int(time.time()) - 30))).status_code == 200
    early = provider.token(iat=int(time.time()) + 30, nbf=int(time.time()) + 30)
    assert signed.get("/models", headers=by(early)).status_code == 200


def test_without_the_provider_known_keys_go_on_and_unknown_are_503(chosen, provider, monkeypatch, database):
    """Tokens of keys read before are accepted, others get 503 with Retry-After; API keys never mind."""
    monkeypatch.setattr(provider_keys, "AGAIN", 0.0)
    with serving(chosen) as url, plain_http.Client(base_url=url, timeout=30) as client:
        provider.responds = False
        first = client.get("/models", headers=by(provider.token()))
        problem(first, 503, "unavailable")
        assert first.headers["retry-after"]
        key = bearer(make_key(database, "ci"))
        assert client.get("/models", headers=key).status_code == 200
        provider.responds = True
        assert client.get("/models", headers=by(provider.token())).status_code == 200
        provider.responds = False
        assert client.get("/models", headers=by(provider.token())).status_code == 200
        old = provider.token()
        provider.rotate("second", "ES256")
        problem(client.get("/models", headers=by(provider.token("second"))), 503, "unavailable")
        provider.responds = True
        assert client.get("/models", headers=by(provider.token("second"))).status_code == 200
        problem(client.get("/models", headers=by(old)), 401)


def test_a_browser_is_signed_in_by_the_proxys_header(signed, provider, database):
    """Pages need no sign-in of ours, forms need the token of their own page, and other sites are refused."""
    token = provider.token(scope="bartserve:admin")
    with plain_http.Client(base_url=signed.base_url, headers=ACCEPT | {HEADER: token}) as person:
        shown = person.get("/ui/keys")
        page = page_of(shown)
        assert "Ann A." in page.words
        assert "Sign out" not in page.words
        cookie = shown.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
        form = {"csrf": page.hidden["csrf"], "name": "mine", "scopes": "read"}
        for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert person.post("/ui/keys", data=form, headers=foreign).status_code == 403
        assert person.post("/ui/keys", data=form | {"csrf": "x"}).status_code == 403
        upload = {"content": table().encode(), "headers": CSV}
        problem(person.post("/datasets", **upload), 403)
        upload["headers"] = CSV | {"X-CSRF-Token": page.hidden["csrf"]}
        assert person.post("/datasets", **upload).status_code == 201
        assert person.post("/ui/keys", data=form).status_code == 200
        assert "set-cookie" not in person.get("/ui/keys").headers
    without_cookie = {"headers": ACCEPT | {HEADER: token}, "data": form}
    assert signed.post("/ui/keys", **without_cookie).status_code == 403
    problem(signed.get("/datasets", headers=by(token) | {"Origin": "https://evil.example"}), 403)


def test_clients_of_the_api_get_no_page(signed):
    """Whatever is wrong with a token, a client that asks for no page gets a problem document."""
    for path in ("/models", "/ui/models", "/nowhere"):
        for accept in ("*/*", "application/json", ""):
            problem(signed.get(path, headers={"Accept": accept} | by("a.b.c")), 401)
            problem(signed.get(path, headers={"Accept": accept, HEADER: "a.b.c"}), 401)
