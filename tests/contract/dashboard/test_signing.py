"""Sign-in where keys are required: sessions, CSRF tokens, access."""

import re
from datetime import timedelta

import pytest

from app.services.access import keys, sessions
from app.store.clock import utc_now
from app.store.engine import session_scope
from app.store.tables import BrowserSession
from tests.support.api_calls import CSV, bearer, make_key, problem, table
from tests.support.databases import only
from tests.support.html_page import ACCEPT, browsing, page_of
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.routes import address, guarded_routes

pytestmark = only("sqlite")
EVERY = tuple(keys.SCOPES)


@pytest.fixture
def person(team):
    """Return a browser client of a team service."""
    with browsing(team) as session:
        yield session


def sign_in(person, key, to="/"):
    return person.post("/ui/sign-in", params={"next": to}, data={"key": key.secret})


def test_pages_redirect_to_sign_in_and_back(person, team, database):
    """Pages redirect to the sign-in form; a valid key leads to the requested page, others don't."""
    ann = make_key(database, "ann")
    door = person.get("/ui/models?limit=3")
    page = page_of(door)
    assert door.url.path == "/ui/sign-in"
    (action,) = re.findall(r'action="(/ui/sign-in[^"]+)"', page.text)
    refused = person.post(action, data={"key": f"{ann.secret}x"})
    assert action in refused.text
    assert "not a valid key" in page_of(refused, 401).words
    assert not person.cookies

    let_in = person.post(action, data={"key": ann.secret})

    page = page_of(let_in)
    assert (let_in.url.path, let_in.url.query) == ("/ui/models", b"limit=3")
    assert "ann" in page.words
    assert person.get("/docs").status_code == 200
    assert person.get("/openapi.json").status_code == 200
    assert person.get("/models").json()["items"] == []
    problem(team.get("/ui/models"), 401, "unauthorized")


def test_the_cookie_is_a_session_no_script_and_no_other_site_can_use(person, database):
    """The cookie is HttpOnly and SameSite=Strict, differs from the key, and is stored only as a hash."""
    ann = make_key(database, "ann")
    answer = person.post("/ui/sign-in", data={"key": ann.secret}, follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    token = cookie.split("=", 1)[1].split(";", 1)[0]

    assert answer.status_code == 303
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"))
    assert ann.secret not in cookie
    assert ann.secret not in person.get("/").text
    with session_scope(database.engine) as session:
        (row,) = session.query(BrowserSession).all()
        assert token not in row.hash
        assert len(row.hash) == 64


def test_behind_tls_the_cookie_is_secure_and_of_this_host_alone(settings, database):
    """Under an https address the cookie is `__Host-` and Secure; copied commands use that address."""
    public = "https://bart.example"
    ann = make_key(database, "ann")
    chosen = settings.model_copy(update={"host": "0.0.0.0", "public_url": public})
    with (
        serving(chosen) as address,
        plain_http.Client(base_url=address, headers=ACCEPT, timeout=60) as person,
    ):
        problem(person.post("/ui/sign-in", headers={"Origin": "https://evil.example", "Accept": "*/*"}), 403)
        answer = person.post("/ui/sign-in", data={"key": ann.secret}, headers={"Origin": public})
        cookie = answer.headers["set-cookie"]
        name, token = cookie.split(";")[0].split("=", 1)
        assert name == "__Host-bartserve_session"
        assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie.split("; "))
        assert "Domain" not in cookie
        person.cookies.clear()
        plain = person.get("/ui/datasets", headers={"Cookie": f"bartserve_session={token}"})
        assert plain.headers["location"].startswith("/ui/sign-in")
        ours = {"Cookie": f"{name}={token}"}
        page = page_of(person.get("/ui/datasets", headers=ours))
        assert f"{public}/datasets" in page.text
        assert address not in page.text
        left = person.post("/ui/sign-out", data={"csrf": page.hidden["csrf"]}, headers=ours)
        assert left.headers["clear-site-data"] == '"cache"'
        assert "Secure" in left.headers["set-cookie"]


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/a\nb"]
)
def test_sign_in_leads_nowhere_else(person, database, to):
    """`next` leads to an address of this service, otherwise to the first page."""
    key = {"key": make_key(database, "ann").secret}
    answer = person.post("/ui/sign-in", params={"next": to}, data=key, follow_redirects=False)
    assert answer.headers["location"] == "/"


def test_every_form_must_carry_its_sessions_token(person, database):
    """The cookie alone changes nothing on any route, by a form without the token or by JSON."""
    sign_in(person, make_key(database, "ann", scopes=EVERY))
    for method, path in guarded_routes():
        if method in {"GET", "HEAD"}:
            continue
        for sent in ({}, {"csrf": "0" * 64}):
            answer = person.request(method, address(path), data=sent, headers={"Accept": "*/*"})
            problem(answer, 403, "forbidden")
    assert person.get("/ui/models").status_code == 200


def test_with_its_token_a_form_is_taken_from_our_own_pages_only(person, database):
    """A form with the token is accepted from our pages and refused from another site."""
    sign_in(person, make_key(database, "ann"))
    form = page_of(person.get("/ui/datasets")).hidden
    sent = {"data": form, "files": {"file": ("t.csv", table())}}
    host = str(person.base_url).rstrip("/")
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}):
        assert person.post("/ui/datasets", headers=headers, **sent).status_code == 403
        assert person.get("/datasets").json()["items"] == []
    page_of(person.post("/ui/datasets", headers={"Origin": host, "Sec-Fetch-Site": "same-origin"}, **sent))
    assert len(person.get("/datasets").json()["items"]) == 1
    token = {"X-CSRF-Token": form["csrf"]}
    assert person.post("/datasets", content=table(), headers=CSV | token).status_code == 201


def test_a_session_ends_by_signing_out_by_its_time_and_with_its_key(person, database):
    """A session ends at sign-out, at its expiry and with its key."""
    ann = make_key(database, "ann")

    def is_in() -> bool:
        return person.get("/ui/models").url.path == "/ui/models"

    sign_in(person, ann)
    assert is_in()
    cookies = dict(person.cookies)
    token = page_of(person.get("/")).hidden["csrf"]
    left = person.post("/ui/sign-out", data={"csrf": token})
    assert left.url.path == "/ui/sign-in"
    assert left.history[0].headers["clear-site-data"] == '"cache"', "charts are kept by browsers otherwise"
    assert not is_in()
    person.cookies.update(cookies)
    assert not is_in(), "signed out means everywhere"
    person.cookies.clear()

    sign_in(person, ann)
    with session_scope(database.engine) as session:
        session.query(BrowserSession).update({"expires_at": utc_now() - timedelta(seconds=1)})
    assert not is_in()

    sign_in(person, ann)
    assert is_in()
    with session_scope(database.engine) as session:
        keys.revoke(session, ann.id)
    assert not is_in()
    assert sessions.recall(database.engine, "x" * 5000) is None


def test_a_key_has_only_so_many_sessions(database, monkeypatch):
    """A session beyond the limit per key ends the key's oldest; other keys' sessions stay."""
    monkeypatch.setattr("app.services.access.sessions.PER_KEY", 3)
    ann, bob = make_key(database, "ann"), make_key(database, "bob")
    of_bob = sessions.begin(database.engine, bob.secret)
    of_ann = [sessions.begin(database.engine, ann.secret) for _ in range(5)]
    in_force = [token for token in of_ann if sessions.recall(database.engine, token)]
    assert in_force == of_ann[2:]
    assert sessions.recall(database.engine, of_bob)


def test_a_session_sees_its_owners_things_and_does_what_its_key_may(person, team, database):
    """Other owners' objects are hidden; a missing scope is named."""
    ann, bob = make_key(database, "ann"), make_key(database, "bob", scopes=["read"])
    dataset = team.post("/datasets", content=table().encode(), headers=CSV | bearer(ann)).json()
    sign_in(person, bob)
    page_of(person.get(f"/ui/datasets/{dataset['id']}"), 404)
    form = page_of(person.get("/ui/datasets")).hidden
    refused = person.post("/ui/datasets", data=form, files={"file": ("t.csv", table())})
    assert "scope train" in page_of(refused, 403).words
    page_of(person.get("/ui/keys"), 403)


def test_keys_are_made_shown_once_rotated_and_revoked_by_an_admin(person, team, database):
    """An admin manages the owner's keys; a secret appears once, on the page that created it."""
    boss, bob = make_key(database, "boss", owner="ann", scopes=["admin"]), make_key(database, "bob")
    sign_in(person, boss)
    page = page_of(person.get("/ui/keys"))
    assert "bob" not in page.words
    csrf = {"csrf": page.hidden["csrf"]}

    response = person.post("/ui/keys", data=csrf | {"name": "new", "scopes": ["read"], "days": "3"})

    (secret,) = re.findall(r"<code>(bart_\w+)</code>", page_of(response).text)
    authenticated = keys.authenticate(database.engine, secret)
    assert authenticated is not None
    assert (authenticated.owner, authenticated.scopes) == ("ann", {"read"})
    assert "no-store" in response.headers["cache-control"]
    assert secret not in person.get("/ui/keys").text
    page_of(person.post("/ui/keys", data=csrf | {"name": "new", "scopes": ["read"]}), 409)
    page_of(person.post("/ui/keys", data=csrf | {"name": "other"}), 422)
    page_of(person.post("/ui/keys", data=csrf | {"name": "other", "scopes": ["read"], "days": "x"}), 422)
    rotated = page_of(person.post(f"/ui/keys/{authenticated.id}/rotate", data=csrf))
    assert secret not in rotated.words
    page_of(person.post(f"/ui/keys/{authenticated.id}/revoke", data=csrf))
    assert keys.authenticate(database.engine, secret) is None
    page_of(person.post(f"/ui/keys/{bob.id}/revoke", data=csrf), 404)
    assert team.get("/models", headers=bearer(bob)).status_code == 200


def test_no_page_makes_or_shows_an_operators_key(person, browser, database):
    """No page creates or rotates an operator's key, neither for an admin nor on loopback."""
    boss = make_key(database, "boss", owner="ann", scopes=["admin"])
    ops = make_key(database, "ops", owner="ann", scopes=["operator"])
    sign_in(person, boss)
    csrf = {"csrf": page_of(person.get("/ui/keys")).hidden["csrf"]}
    for client, sent in ((person, csrf), (browser, {})):
        assert 'value="operator"' not in client.get("/ui/keys").text
        page_of(client.post("/ui/keys", data=sent | {"name": "new", "scopes": ["read", "operator"]}), 403)
        page_of(client.post(f"/ui/keys/{ops.id}/rotate", data=sent), 403)
        assert [key.name for key in all_keys(database)] == ["boss", "ops"]
    person.post(f"/ui/keys/{ops.id}/revoke", data=csrf)
    assert keys.authenticate(database.engine, ops.secret) is None


def all_keys(database):
    with session_scope(database.engine) as session:
        return keys.list_keys(session)


def test_on_this_machine_nobody_signs_in(browser):
    """On loopback the sign-in page leads straight on, and keys can be created for later use."""
    assert browser.get("/ui/sign-in").url.path == "/"
    assert browser.post("/ui/sign-in", data={"key": "x"}).url.path == "/"
    page = page_of(browser.post("/ui/keys", data={"name": "ann", "owner": "team", "scopes": ["read"]}))
    assert "bart_" in page.words
