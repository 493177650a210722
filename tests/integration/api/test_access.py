"""Who may: this machine without a key, everyone else with one, nobody sees what is another's."""

from datetime import timedelta

import httpx
import pytest

from app.services import keys
from app.services.errors import InvalidRequestError, NotFoundError
from app.store import keys as store
from app.store.clock import utc_now
from app.store.engine import session_scope
from tests.conftest import only
from tests.integration.api.asking import CSV, post_csv, problem, table
from tests.integration.api.serving import serving


@pytest.fixture
def team(settings):
    """A service that listens beyond loopback, as far as it knows."""
    with (
        serving(settings.model_copy(update={"host": "0.0.0.0"})) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        yield client


def make_key(database, name: str) -> keys.MadeKey:
    with session_scope(database.engine) as session:
        return keys.create(session, name=name)


def bearer(key: keys.MadeKey) -> dict[str, str]:
    return {"Authorization": f"Bearer {key.secret}"}


EVERY_ROUTE = [
    ("POST", "/datasets"),
    ("GET", "/datasets"),
    ("GET", "/datasets/{ds}"),
    ("GET", "/datasets/{ds}/preview"),
    ("DELETE", "/datasets/{ds}"),
    ("POST", "/models"),
    ("GET", "/models"),
    ("GET", "/models/{mdl}"),
    ("POST", "/models/{mdl}/cancel"),
    ("POST", "/models/{mdl}/predict"),
    ("DELETE", "/models/{mdl}"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
    ("GET", "/nowhere"),
]


def test_nobody_is_in_without_a_key(team, database):
    """Every route but health answers 401 to no key and to made-up, mistyped, revoked and expired ones."""
    good, revoked, expired = (make_key(database, name) for name in ("ann", "bob", "cat"))
    with session_scope(database.engine) as session:
        keys.revoke(session, revoked.id)
        store.get(session, expired.id).expires_at = utc_now() - timedelta(seconds=1)
    typo = good.secret[:-1] + ("0" if good.secret[-1] != "0" else "1")
    other_secret = f"bart_{good.id}_{revoked.secret.rsplit('_')[-1]}"
    strangers = [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": good.secret},
        {"Authorization": f"Basic {good.secret}"},
        {"Authorization": b"Bearer \xff"},
        *({"Authorization": f"Bearer {k}"} for k in (typo, other_secret, "bart_x_y", "x" * 8000)),
        bearer(revoked),
        bearer(expired),
    ]
    for method, path in EVERY_ROUTE:
        for headers in strangers:
            response = team.request(method, path.format(ds="ds_1", mdl="mdl_1"), headers=headers)
            problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
    assert team.get("/health/live").status_code == 200
    assert team.get("/datasets", headers=bearer(good)).status_code == 200


def test_a_service_without_keys_lets_nobody_in(team):
    """A team service starts without keys: 401, while health is open."""
    problem(team.get("/models"), 401)
    assert team.get("/health/live").json() == {"status": "alive"}
    assert team.get("/health/ready").status_code == 503


def test_keys_of_one_owner_share_and_others_see_nothing(team, database):
    """Another owner's things are 404, never 403, and in no list; a second key of the owner sees them."""
    ann, again, bob = (bearer(make_key(database, name)) for name in ("ann", "ann", "bob"))
    made = team.post("/datasets", content=table().encode(), headers=CSV | ann).json()
    body = {"dataset_id": made["id"], "target": "y", "name": "mine"}
    model = team.post("/models", json=body, headers=ann).json()

    for method, path in EVERY_ROUTE:
        if "{" in path:
            address = path.format(ds=made["id"], mdl=model["id"])
            sent = {"rows": [{}]} if path.endswith("predict") else None
            problem(team.request(method, address, headers=bob, json=sent), 404, "not-found")
    problem(team.post("/models", json=body, headers=bob), 404)
    problem(team.post("/models/mine/predict", json={"rows": [{}]}, headers=bob), 404)
    for path in ("/datasets", "/models"):
        assert team.get(path, headers=bob).json()["items"] == []
        assert len(team.get(path, headers=again).json()["items"]) == 1
    assert team.get(f"/models/{model['id']}", headers=again).json()["state"] == "queued"


def test_a_key_is_shown_once_and_only_its_hash_is_kept(database):
    """What is stored holds no part of the secret; the form lets a scanner and a checksum recognise it."""
    made = make_key(database, "ann")
    with session_scope(database.engine) as session:
        (row,) = keys.list_keys(session)
    secret = made.secret.rsplit("_", 1)[1]

    assert made.secret == f"bart_{made.id}_{secret}"
    assert len(secret) == 38
    assert not any(secret[:8] in str(value) for value in vars(row).values())
    assert keys.authenticate(database.engine, made.secret) == "ann"
    with session_scope(database.engine) as session:
        used = keys.list_keys(session)[0].last_used_at
    assert used is not None


@only("sqlite")
def test_key_names_and_ids_are_checked(database):
    """A nameless key and the revoking of none are refused with a sentence."""
    with session_scope(database.engine) as session:
        for name in ("", "  ", "a\nb", "x" * 101):
            with pytest.raises(InvalidRequestError):
                keys.create(session, name=name)
        with pytest.raises(NotFoundError, match="no key in force"):
            keys.revoke(session, "unknown")


@only("sqlite")
def test_on_loopback_web_pages_stay_out(client):
    """No key is asked of this machine, but a foreign Origin or a name pointed here gets 403."""
    assert client.get("/datasets").status_code == 200
    own = str(client.base_url)
    port = client.base_url.port
    for host in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST", "127.0.0.2"):
        assert client.get("/datasets", headers={"Host": f"{host}:{port}"}).status_code == 200
    for host in (
        "evil.example",
        "localhost.evil.example",
        "192.168.1.5:8000",
        "",
        "[::1",
        "127.0.0.1.nip.io",
    ):
        problem(client.get("/datasets", headers={"Host": host}), 403, "forbidden")
    assert client.get("/datasets", headers={"Origin": own}).status_code == 200
    for origin in ("https://evil.example", "null", f"http://localhost:{port + 1}", "http://127.0.0.1", ""):
        problem(client.get("/datasets", headers={"Origin": origin}), 403, "forbidden")
        problem(client.post("/datasets", content=b"a,b\n1,2\n", headers=CSV | {"Origin": origin}), 403)
    assert post_csv(client, table()).status_code == 201
