"""A team's service in a real Chromium: sign-in, keys, workers, and missing scopes."""

import time
from collections.abc import Iterator

import pytest

from app.services.access import keys
from app.settings import Settings
from app.store import schema
from app.store.engine import make_engine, session_scope
from app.store.queue import workers
from app.store.tables import Worker
from tests.support.browser import Watched, chromium, needs_chromium, watched  # noqa: F401
from tests.support.processes.api_server import serving

pytestmark = [needs_chromium, pytest.mark.slow]
TOLD = ("status of 401", "status of 403")  # the console repeats the page's error


@pytest.fixture(scope="module")
def team(tmp_path_factory) -> Iterator[tuple[str, dict[str, str]]]:
    """Run a service that requires keys; return its URL, a key with all scopes and a read-only one."""
    url = f"sqlite:///{tmp_path_factory.mktemp('team') / 'team.db'}"
    schema.migrate(url)
    engine = make_engine(url)
    with session_scope(engine) as session:
        secrets = {
            name: keys.create(session, name=name, owner="team", scopes=scopes, lasts=None).secret
            for name, scopes in (("ann", [*keys.SCOPES]), ("bob", ["read"]))
        }
        for number, state in enumerate(("beats", "drains", "is gone")):
            worker = Worker(
                id=f"w{number}", host=f"machine-{number}", pid=number + 1, slots=4, beat_at=0.0, phase="ready"
            )
            workers.register(session, worker)
            worker.draining = state == "drains"
            worker.beat_at = time.time() - (36_000 if state == "is gone" else 0)
    with serving(Settings(database_url=url, host="0.0.0.0", dispatch_seconds=1000.0)) as address:
        yield address, secrets
    engine.dispose()


@pytest.fixture
def window(chromium, team) -> Iterator[Watched]:  # noqa: F811  the fixture of that name
    for window in watched(chromium, team[0]):
        yield window
        window.trouble = [message for message in window.trouble if not any(word in message for word in TOLD)]


def sign_in(window: Watched, key: str) -> None:
    window.page.fill("#key", key)
    window.page.click("button:has-text('Sign in')")
    window.page.wait_for_load_state()


def test_sign_in_refuses_invalid_keys_and_leads_on(window, team):
    """An invalid key is reported at its field; a valid one leads to the requested page."""
    page = window.page
    window.go("/ui/service")
    assert page.url.startswith(f"{window.base}/ui/sign-in?next=")
    assert page.evaluate("document.activeElement.id") == "key"
    window.shoot("sign-in")
    sign_in(window, team[1]["ann"][:-1])
    assert page.get_attribute("#key", "aria-invalid") == "true"
    assert "not a valid key" in page.inner_text("[role=alert]")
    window.shoot("sign-in-refused")

    sign_in(window, team[1]["ann"])

    assert page.url == f"{window.base}/ui/service"
    assert [tag.inner_text() for tag in page.query_selector_all("tbody .tag")].count("ok") == 1
    for state in ("draining", "not heard of"):
        assert page.is_visible(f"tbody >> text={state}")
    window.shoot("workers")
    page.click("text=Sign out")
    page.wait_for_url("**/ui/sign-in")
    window.go("/ui/models")
    assert "/ui/sign-in" in page.url


def test_a_key_is_made_copied_rotated_and_revoked(window, team):
    """A secret is shown once, with a copy button; the list marks rotated and revoked keys."""
    page = window.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=window.base)
    window.go("/ui/keys")
    sign_in(window, team[1]["ann"])
    page.fill("#name", "robot")
    page.fill("#days", "30")
    page.uncheck("input[value=train]")
    page.click("button:has-text('Create')")
    page.wait_for_selector("text=The new key")
    secret = page.inner_text(".note code")
    assert secret.startswith("bart_")
    page.click("[data-copy]")
    window.until(lambda: page.inner_text("[data-copy]") == "Copied")
    assert page.evaluate("navigator.clipboard.readText()") == secret
    page.evaluate("document.querySelector('.note code').textContent = 'bart_shown_once'")
    window.shoot("key-made")
    window.go("/ui/keys")
    assert secret not in page.content()

    page.click("tr:has-text('robot') >> text=Rotate")
    page.wait_for_selector("text=The new key")
    assert page.inner_text(".note code") not in {secret, ""}
    window.go("/ui/keys")
    rows = page.query_selector_all("tr:has-text('robot')")
    assert len(rows) == 2
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("tr:has-text('robot') >> text=Revoke")
    page.wait_for_selector("tr:has-text('robot') >> text=revoked")
    window.shoot("keys")


def test_missing_scopes_are_reported_with_advice(window, team):
    """With a read-only key the page of keys and an upload are refused with advice."""
    page = window.page
    window.go("/ui/datasets")
    sign_in(window, team[1]["bob"])
    window.go("/ui/keys")
    assert "scope admin" in page.inner_text("main")
    assert "a key that has the scope" in page.inner_text("main")
    assert page.is_visible("text=Sign out")
    window.shoot("forbidden")
    window.go("/ui/datasets")
    page.set_input_files("#file", {"name": "t.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    page.click("button:has-text('Upload')")
    page.wait_for_selector("[data-upload-problem] [role=alert]")
    assert "scope train" in page.inner_text("[data-upload-problem]")
