"""API keys: creation, storage, rotation, revocation, and the scopes of routes."""

import contextlib
import re
from datetime import timedelta

import pytest
from alembic import command
from click.testing import Result
from sqlalchemy import event, text
from typer.testing import CliRunner

from app.cli import app as cli
from app.services.access import keys
from app.services.errors import ConflictError, InvalidRequestError, NotFoundError
from app.store import schema
from app.store.access import keys as store
from app.store.clock import utc_now
from app.store.engine import session_scope
from tests.support.api_calls import bearer, make_key, problem
from tests.support.databases import only
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.routes import address, body_for, guarded_routes

# Pages and charts of a model that take `predict` and `read`.
OF_KEPT_ROWS = (
    "effects",
    "dependence.svg",
    "accumulated.svg",
    "reasons.svg",
    "what-if",
    "treatment",
    "treatment.svg",
    "treatment/report",
    "forecast",
    "forecast.svg",
    "rehearsals.svg",
)
OF_PROTOCOL = ("", "/ready", "/versions/{version}", "/versions/{version}/ready")
LOOK, ASK, CHANGE = {keys.READ}, {keys.PREDICT}, {keys.TRAIN}
# Scopes of routes outside the rule: GET needs `read`, anything else `train`.
OTHERWISE = {
    ("POST", "/models/{model_id}/predict"): ASK,
    ("POST", "/model-sets/{set_id}/predict"): ASK,
    ("POST", "/model-sets/{set_id}/forecast"): ASK,
    ("POST", "/model-sets/{set_id}/predictions"): ASK,
    ("POST", "/models/{model_id}/predictions"): ASK,
    ("POST", "/models/{model_id}/invocations"): ASK,
    **{("GET", f"/v2/models/{{model_id}}{end}"): LOOK | ASK for end in OF_PROTOCOL},
    **{("POST", f"/v2/models/{{model_id}}{end}/infer"): ASK for end in ("", "/versions/{version}")},
    ("GET", "/v2"): LOOK | ASK,
    ("POST", "/models/{model_id}/partial-dependence"): ASK,
    ("POST", "/models/{model_id}/shap"): ASK,
    ("POST", "/models/{model_id}/survival"): ASK,
    ("POST", "/models/{model_id}/forecast"): ASK,
    ("POST", "/models/{model_id}/distribution"): ASK,
    ("POST", "/models/{model_id}/joint"): ASK,
    ("POST", "/models/{model_id}/accumulated-effects"): ASK,
    ("POST", "/ui/models/settings"): LOOK,
    ("POST", "/ui/models/{model_id}/predict"): ASK,
    ("POST", "/ui/models/{model_id}/outcomes"): ASK,
    ("POST", "/models/{model_id}/contrast"): ASK,
    ("POST", "/models/{model_id}/effects"): ASK,
    ("POST", "/models/{model_id}/aggregate"): ASK,
    ("POST", "/models/{model_id}/outcomes"): ASK,
    ("GET", "/models/{model_id}/outcomes"): LOOK | ASK,
    ("GET", "/models/{model_id}/drift"): LOOK | ASK,
    ("GET", "/predictions"): LOOK | ASK,
    ("GET", "/predictions/{prediction_id}"): LOOK | ASK,
    ("GET", "/predictions/{prediction_id}/result"): LOOK | ASK,
    ("POST", "/predictions/{prediction_id}/cancel"): ASK,
    ("DELETE", "/predictions/{prediction_id}"): ASK,
    **{
        ("GET", f"/ui/models/{{model_id}}/{page}"): ASK for page in ("predict", "density.svg", "survival.svg")
    },
    **{("GET", f"/ui/models/{{model_id}}/{page}"): set[str]() for page in OF_KEPT_ROWS},  # one isn't enough
    ("POST", "/ui/sign-out"): set(keys.SCOPES),
    ("GET", "/ui/keys"): {keys.ADMIN},
    ("POST", "/ui/keys"): {keys.ADMIN},
    ("POST", "/ui/keys/{key_id}/revoke"): {keys.ADMIN},
    ("POST", "/ui/keys/{key_id}/rotate"): {keys.ADMIN},
    ("GET", "/metrics"): {keys.METRICS},
    ("GET", "/audit"): {keys.ADMIN, keys.OPERATOR},
    **{
        (method, path): set(keys.SCOPES)
        for method in ("GET", "HEAD")
        for path in ("/openapi.json", "/docs", "/docs/start.js", "/docs/{name}", "/problems/{slug}")
    },
}


def scopes_for(method: str, path: str) -> set[str]:
    usual = LOOK if method in {"GET", "HEAD"} else CHANGE
    return OTHERWISE.get((method, path), usual) | {keys.ADMIN}


@only("sqlite")
def test_rows_that_are_kept_are_not_shown_to_a_key_that_predicts(team, database):
    """Without rows a question is about the model's own, row by row: that takes `read`, alone or beside."""
    held = {"ask": ASK, "all": ASK | LOOK}
    keyed = {who: bearer(make_key(database, who, scopes=[*scopes])) for who, scopes in held.items()}
    for end in (
        "partial-dependence",
        "accumulated-effects",
        "contrast",
        "effects",
        "shap",
    ):
        path = f"/models/mdl_1/{end}"
        sent = body_for(path, "ds_1")["json"]
        without = {name: value for name, value in sent.items() if name != "rows"}
        problem(team.post(path, json=without, headers=keyed["ask"]), 403, "scope-missing")
        problem(team.post(path, json=sent, headers=keyed["ask"]), 404)
        assert team.post(path, json=without, headers=keyed["all"]).status_code != 403
    for page in OF_KEPT_ROWS:
        path = f"/ui/models/mdl_1/{page}"
        assert [team.get(path, headers=keyed[who]).status_code == 403 for who in keyed] == [True, False]


@only("sqlite")
def test_every_route_asks_for_its_scope(team, database):
    """Every route answers 403 to every scope that it doesn't accept, as documented."""
    held = {scope: bearer(make_key(database, scope, scopes=[scope])) for scope in keys.SCOPES}
    documented = team.get("/openapi.json", headers=held[keys.READ]).json()["paths"]
    for method, path in guarded_routes():
        sent = body_for(path, "ds_1") if method in {"POST", "PUT"} else {}
        let_in = set()
        for scope, headers in held.items():
            with team.stream(method, address(path), headers=headers, **sent) as response:
                response.read()
            if response.status_code == 403 and method != "HEAD":
                problem(response, 403, "scope-missing")
            assert response.status_code != 401
            let_in |= {scope} if response.status_code != 403 else set()
        assert let_in == scopes_for(method, path), (method, path)
        if operation := documented.get(path, {}).get(method.lower()):
            scopes = {scope for way in operation["security"] for scope in way.get("key", [])}
            assert scopes | {keys.ADMIN} == let_in, (method, path)
    for scope, description in keys.SCOPES.items():
        assert f"`{scope}`: {description}" in str(team.get("/openapi.json", headers=held["read"]).json())


def test_a_key_is_shown_once_and_only_its_hash_is_kept(database):
    """The stored row contains no part of the secret; prefix and checksum let scanners recognise a key."""
    key = make_key(database, "ann", owner="team")
    with session_scope(database.engine) as session:
        (row,) = keys.list_keys(session)
    secret = key.secret.rsplit("_", 1)[1]

    assert key.secret == f"bart_{key.id}_{secret}"
    assert len(secret) == 38
    assert not any(secret[:8] in str(value) for value in vars(row).values())
    authenticated = keys.authenticate(database.engine, key.secret)
    assert authenticated == keys.Key(key.id, "ann", "team", frozenset(keys.USUAL))
    assert authenticated == keys.recall(database.engine, key.id)


@contextlib.contextmanager
def statements(engine):
    """Collect the SQL statements sent in the block."""
    sent = []

    def note(_connection, _cursor, statement, *_rest):
        sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)


def test_a_mistyped_key_costs_the_database_nothing(database):
    """A wrong character anywhere in a key is detected without a query."""
    key = make_key(database, "ann")
    with statements(database.engine) as sent:
        for at in range(len(key.secret)):
            other = "x" if key.secret[at] != "x" else "y"
            assert keys.authenticate(database.engine, key.secret[:at] + other + key.secret[at + 1 :]) is None
        assert keys.authenticate(database.engine, "") is None
    assert sent == []


def test_last_used_is_coarse(database):
    """The first use is stored, later ones only after an hour."""
    key = make_key(database, "ann")
    keys.authenticate(database.engine, key.secret)
    with statements(database.engine) as sent:
        keys.authenticate(database.engine, key.secret)
    assert not any(statement.startswith("UPDATE") for statement in sent)
    long_ago = utc_now() - timedelta(hours=2)
    with session_scope(database.engine) as session:
        store.get(session, key.id).last_used_at = long_ago
    keys.authenticate(database.engine, key.secret)
    with session_scope(database.engine) as session:
        assert store.get(session, key.id).last_used_at > long_ago + timedelta(hours=1)


def test_rotation_overlaps(database):
    """After a rotation both keys work until the overlap ends, then only the new one."""
    old = make_key(database, "ci", owner="ann", scopes=["train"], lasts=timedelta(days=90))
    with session_scope(database.engine) as session:
        new = keys.rotate(session, "ci", timedelta(hours=24))
    both = [keys.authenticate(database.engine, key.secret) for key in (old, new)]
    assert [(key.owner, key.scopes) for key in both] == [("ann", frozenset(["train"]))] * 2
    with session_scope(database.engine) as session:
        was, now = store.get(session, old.id), store.get(session, new.id)
        left = was.expires_at - utc_now()
        assert timedelta(hours=23) < left <= timedelta(hours=24)
        assert now.expires_at - now.created_at == timedelta(days=90)
        was.expires_at = utc_now() - timedelta(seconds=1)
    assert keys.authenticate(database.engine, old.secret) is None
    assert keys.recall(database.engine, old.id) is None
    assert keys.authenticate(database.engine, new.secret) is not None


def test_a_rotation_never_lengthens_a_key(database):
    """A rotated key that expires within the overlap keeps its expiry; without overlap it ends at once."""
    old = make_key(database, "ci", lasts=timedelta(hours=1))
    with session_scope(database.engine) as session:
        ends = store.get(session, old.id).expires_at
        new = keys.rotate(session, old.id, timedelta(hours=24))
    with session_scope(database.engine) as session:
        assert store.get(session, old.id).expires_at == ends
        newest = keys.rotate(session, "ci", timedelta(0))
    assert keys.authenticate(database.engine, old.secret) is None
    assert keys.authenticate(database.engine, new.secret) is None
    assert keys.authenticate(database.engine, newest.secret) is not None


@only("sqlite")
def test_arguments_of_keys_are_checked(database):
    """An empty name, a name in use, an unknown scope and an unknown key are refused with a sentence."""
    with session_scope(database.engine) as session:
        for name in ("", "  ", "a\nb", "x" * 101):
            with pytest.raises(InvalidRequestError):
                keys.create(session, name=name)
            with pytest.raises(InvalidRequestError):
                keys.create(session, name="fine", owner=name)
        for scopes in (["root"], [], ["read", ""]):
            with pytest.raises(InvalidRequestError, match="there is no scope"):
                keys.create(session, name="ann", scopes=scopes)
        for lasts in (timedelta(0), timedelta(days=-1), timedelta(days=9999)):
            with pytest.raises(InvalidRequestError):
                keys.create(session, name="ann", lasts=lasts)
        keys.create(session, name="ann")
        with pytest.raises(ConflictError, match="named ann"):
            keys.create(session, name="ann")
        assert len(keys.revoke(session, "ann")) == 1
        session.expire_all()
        keys.create(session, name="ann")  # a name that is available again
        for ending in (keys.revoke, lambda *a: keys.rotate(*a, timedelta(0))):
            with pytest.raises(NotFoundError, match="no key in force"):
                ending(session, "unknown")
        with pytest.raises(InvalidRequestError):
            keys.rotate(session, "ann", timedelta(seconds=-1))


@only("sqlite")
def test_names_of_keys_are_each_owners_own(database):
    """Other owners' key names stay hidden; an ambiguous name, or an id used as a name, revokes nothing."""
    with session_scope(database.engine) as session:
        ann = keys.create(session, name="ci", owner="ann")
        bob = keys.create(session, name="ci", owner="bob")
        with pytest.raises(ConflictError, match="named ci"):
            keys.create(session, name="ci", owner="bob")
        for ending in (keys.revoke, lambda *a: keys.rotate(*a, timedelta(0))):
            with pytest.raises(ConflictError, match=f"{bob.id} of bob"):
                ending(session, "ci")
        keys.revoke(session, ann.id)
        session.expire_all()
        assert keys.revoke(session, "ci") == [bob.id]
        named = keys.create(session, name=ann.id, owner="cat")
        for ending in (keys.revoke, lambda *a, **b: keys.rotate(*a, timedelta(0), **b)):
            with pytest.raises(NotFoundError):
                ending(session, ann.id, by_id=True)
        assert keys.revoke(session, ann.id) == [named.id]


@pytest.fixture
def run(monkeypatch):
    """Runs `bartserve keys ...` on a database."""

    def run(url: str, *arguments: str) -> Result:
        monkeypatch.setenv("BARTSERVE_DATABASE_URL", url)
        return CliRunner().invoke(cli, ["keys", *arguments])

    return run


def test_the_command_line_needs_only_the_database(database, settings, run):
    """create, list, rotate and revoke work without a running service, which heeds them at once."""
    first = run(
        database.url, "create", "--name", "laptop", "--owner", "ann", "--scope", "read", "--expires", "90d"
    )
    assert first.exit_code == 0, first.stderr
    secret = first.stdout.strip()
    with (
        serving(settings.model_copy(update={"host": "0.0.0.0"})) as address,
        plain_http.Client(base_url=address, timeout=30) as client,
    ):

        def status(key: str) -> int:
            return client.get("/models", headers={"Authorization": f"Bearer {key}"}).status_code

        assert status(secret) == 200
        listed = run(database.url, "list").stdout
        assert re.search(r"laptop +ann +read +in force +\d{4}-", listed)
        assert secret.rsplit("_", 1)[1] not in listed
        second = run(database.url, "rotate", "laptop", "--overlap", "2h").stdout.strip()
        assert [status(key) for key in (secret, second)] == [200, 200]
        assert run(database.url, "revoke", "laptop").exit_code == 0
        assert [status(key) for key in (secret, second)] == [401, 401]
    refused = run(database.url, "revoke", "laptop")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no key in force" in refused.stderr
    assert run(database.url, "create", "--name", "x", "--expires", "soon").exit_code == 2


def test_the_command_line_without_tables_says_so(tmp_path, run):
    """A database without tables gives one sentence, not a traceback."""
    refused = run(f"sqlite:///{tmp_path / 'new.db'}", "list")

    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "bartserve migrate" in refused.stderr


def test_keys_of_the_last_version_stay_in_force(database):
    """A key from before keys had owners keeps its objects and rights."""
    key = make_key(database, "ann")
    with database.engine.connect() as connection:
        command.downgrade(schema.config(connection), "0005")
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE api_keys SET scopes = '[]'"))
    schema.migrate(database.url)
    authenticated = keys.authenticate(database.engine, key.secret)
    assert (authenticated.owner, authenticated.scopes) == ("ann", frozenset(keys.USUAL))
