"""Access: local clients without a key, others with one, and no view of other owners' objects."""

from datetime import timedelta

import pytest

from app.services.access import keys
from app.store.access import keys as store
from app.store.clock import utc_now
from app.store.engine import session_scope
from tests.support.api_calls import CSV, bearer, make_key, post_csv, problem, table
from tests.support.databases import only
from tests.support.routes import address, body_for, fields, guarded_routes
from tests.support.waiting import eventually


def test_every_route_needs_a_valid_key(team, database, caplog):
    """Every route except health answers 401 to absent, made-up, mistyped, revoked and expired keys."""
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
    routes = [*guarded_routes(), ("GET", "/nowhere"), ("POST", "/health")]
    caplog.set_level("DEBUG", "app.api.requests")  # requests of monitoring are debug
    for number, (method, path) in enumerate(routes):
        # Keys are looked at before routes: each route asks one of them, and every tenth asks all.
        for headers in strangers if number % 10 == 0 else [strangers[number % len(strangers)]]:
            response = team.request(method, address(path), headers=headers)
            if method == "HEAD":
                assert response.status_code == 401
            else:
                problem(response, 401, "unauthorized")
            assert response.headers["www-authenticate"] == "Bearer"
    # A line is logged after the response: method and template, also where no key was valid.
    logged = {f"{method} {path} 401" for method, path in guarded_routes()} | {
        "GET (none) 401",
        "POST (none) 401",
    }
    eventually(lambda: logged == {each for each in caplog.messages if each.endswith("401")})
    assert team.get("/health/live").status_code == 200
    assert team.get("/datasets", headers=bearer(good)).status_code == 200


def test_a_service_without_keys_lets_nobody_in(team):
    """A team service without any key answers 401, with health still open."""
    problem(team.get("/models"), 401)
    assert team.get("/health/live").json() == {"status": "alive"}
    assert team.get("/health/ready").status_code == 503


@pytest.fixture
def anns(team, database):
    """Ann's key, and the ids of her dataset, model and predictions."""
    ann = bearer(make_key(database, "ann"))
    dataset = team.post("/datasets", content=table().encode(), headers=CSV | ann).json()
    body = {"dataset_id": dataset["id"], "target": "y", "name": "mine"}
    model = team.post("/models", json=body, headers=ann).json()
    return ann, {"dataset_id": dataset["id"], "model_id": model["id"]}


def test_objects_of_other_owners_are_404_on_every_route(team, database, anns):
    """Objects of other owners are 404, never 403, on every route that names one, and stay unchanged."""
    ann, ids = anns
    bob = bearer(make_key(database, "bob", scopes=keys.SCOPES))
    named = [route for route in guarded_routes() if set(fields(route[1])) & set(ids)]
    ids = ids | {"version": ids["model_id"]}
    assert len(named) > 15
    for method, path in named:
        addresses = [address(path, **ids), *([address(path, **ids | {"model_id": "mine"})])]
        for target in addresses:
            sent = body_for(path, ids["dataset_id"]) if method in {"POST", "PUT"} else {}
            response = team.request(method, target, headers=bob, **sent)
            assert response.status_code == 404, (method, target, response.text)
    for method, path in sorted(named, key=lambda route: route[0] == "DELETE"):
        sent = body_for(path, ids["dataset_id"]) if method in {"POST", "PUT"} else {}
        if "cancel" in path or method == "DELETE" or path.endswith("/delete"):
            continue  # it would be deleted before the next routes
        if (method, path) == ("GET", "/models/{model_id}/schedule"):
            continue  # it has none
        answer = team.request(method, address(path, **ids), headers=ann, **sent)
        assert answer.status_code != 404, (method, path, "tells nothing: it is 404 for its owner too")
    problem(team.post("/models", json=body_for("models", ids["dataset_id"])["json"], headers=bob), 404)
    assert team.get(f"/models/{ids['model_id']}", headers=ann).json()["state"] == "queued"


def test_keys_of_one_owner_share_and_others_see_nothing(team, database, anns):
    """Lists show an owner's objects to all its keys and to nobody else."""
    _, ids = anns
    again, bob = bearer(make_key(database, "second", owner="ann")), bearer(make_key(database, "bob"))
    lists = [path for method, path in guarded_routes() if method == "GET" and not fields(path)]
    for path in ("/datasets", "/models", "/predictions"):
        assert path in lists
        assert team.get(path, headers=bob).json()["items"] == []
    for path in lists:
        if path != "/audit":
            body = team.get(path, headers=bob).text
            assert not any(of_ann in body for of_ann in ids.values()), path
    for path in ("/datasets", "/models"):
        assert len(team.get(path, headers=again).json()["items"]) == 1


@only("sqlite")
def test_on_loopback_web_pages_stay_out(client):
    """On loopback no key is needed, but a foreign Origin or Host gets 403."""
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
        "127.0.0.1.nip.io",
    ):
        problem(client.get("/datasets", headers={"Host": host}), 403, "forbidden")
    assert client.get("/datasets", headers={"Origin": own}).status_code == 200
    for origin in ("https://evil.example", "null", f"http://localhost:{port + 1}", "http://127.0.0.1", ""):
        problem(client.get("/datasets", headers={"Origin": origin}), 403, "forbidden")
        problem(client.post("/datasets", content=b"a,b\n1,2\n", headers=CSV | {"Origin": origin}), 403)
    assert post_csv(client, table()).status_code == 201


@only("sqlite")
def test_on_loopback_every_route_looks_at_host_and_origin(client):
    """On loopback no route answers a page of another site or a request under a foreign host name."""
    for method, path in guarded_routes():
        foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}, foreign):
            assert client.request(method, address(path), headers=headers).status_code == 403, (method, path)


@only("sqlite")
def test_on_loopback_a_link_leads_here_and_nothing_else_does(client):
    """Requests initiated by another site are refused, except a link that the user follows."""
    link = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "cross-site"}
    for site in ("none", "same-origin"):
        assert client.get("/models", headers={"Sec-Fetch-Site": site}).status_code == 200
    for site in ("cross-site", "same-site"):
        problem(client.get("/models", headers={"Sec-Fetch-Site": site}), 403, "forbidden")
        assert client.get("/ui/models", headers=link | {"Sec-Fetch-Site": site}).status_code == 200
    assert client.get("/ui/models", headers=link | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert client.post("/datasets", content=table(), headers=CSV | link).status_code == 403
