"""The dashboard in a real Chromium: from an empty service, by a file, to a prediction with its interval."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright

from tests.e2e.service import eventually, running_up

ROOT = Path(__file__).parents[2]
SHOTS = Path(os.environ.get("BARTSERVE_SCREENSHOTS", ROOT / "screenshots"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 120  # for whatever a page does: the machine may be busy
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium was found: the pages were not tried in a browser (apt install chromium)",
)


class Watched:
    """A browser window whose every complaint and every request is remembered."""

    def __init__(self, context: Any, base: str) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(SECONDS * 1000)
        self.base = base
        self.trouble: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        self.page.on("request", self._asked)
        self.page.on("requestfailed", self._failed)

    def _said(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.trouble.append(f"{message.type}: {message.text} at {self.page.url}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.base, "blob:", "data:")):
            self.trouble.append(f"asked outside: {request.url}")

    def _failed(self, request: Any) -> None:
        # A stream and what a page still loads are cut off when the page is left.
        if "ERR_ABORTED" not in (request.failure or ""):
            self.trouble.append(f"failed: {request.url} {request.failure}")

    def go(self, path: str) -> None:
        self.page.goto(self.base + path, wait_until="load")

    def until(self, what: Callable[[], Any]) -> None:
        """Wait for something, however long it takes within reason; the browser works meanwhile."""
        deadline = time.monotonic() + SECONDS

        def there() -> Any:
            try:
                return what()
            except PlaywrightError as error:  # the page loaded itself anew just then: look again
                if "context was destroyed" in str(error) or "not attached" in str(error):
                    return None
                raise

        while not there():
            assert time.monotonic() < deadline, (self.page.url, self.page.inner_text("main"))
            self.page.wait_for_timeout(50)

    def pictures(self) -> int:
        """How many there are, when all of them are shown."""
        for image in self.page.query_selector_all("figure img"):
            image.scroll_into_view_if_needed()
        self.until(
            lambda: self.page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        )
        return len(self.page.query_selector_all("figure img"))

    def fits(self) -> None:
        """Nothing is wider than the window."""
        wider = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wider <= 0, f"{self.page.url} is {wider} pixels too wide"

    def shoot(self, name: str) -> None:
        """Keep what is seen, wide and narrow, light and dark."""
        SHOTS.mkdir(exist_ok=True, parents=True)
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                self.page.set_viewport_size({"width": width, "height": 900})
                self.page.emulate_media(color_scheme=scheme)
                self.pictures()
                self.fits()
                self.page.screenshot(path=SHOTS / f"{name}-{width}-{scheme}.png", full_page=True)
        self.page.set_viewport_size({"width": 1280, "height": 900})
        self.page.emulate_media(color_scheme="light")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    flags = ["--no-sandbox", "--disable-dev-shm-usage"] if os.geteuid() == 0 else ["--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=SECONDS * 1000)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """An embedded service with nothing in it, shared by this file's tests."""
    with running_up(tmp_path_factory.mktemp("browser") / "data") as up:
        eventually(up.ready, SECONDS, up.log.read_text())
        yield up.address


@pytest.fixture
def window(chromium, address) -> Iterator[Watched]:
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    watched = Watched(context, address)
    yield watched
    context.close()
    assert not watched.trouble


def test_from_an_empty_service_by_a_file_to_a_prediction(window):
    """Upload, look, fit, watch, read the verdict, ask: nothing on the console, no request elsewhere."""
    page = window.page
    window.go("/")
    assert page.is_visible("text=Start with a table")
    window.shoot("empty")

    page.set_input_files("#file", ROOT / "examples" / "auto_mpg.csv")
    page.click("button:has-text('Upload')")
    page.wait_for_url("**/ui/datasets/ds_*")
    assert page.inner_text("h1") == "auto_mpg"
    assert len(page.query_selector_all(".mini svg")) == 8
    window.shoot("dataset")

    page.click(".buttons >> text=Fit a model")
    page.select_option("#target", "mpg")
    page.fill("#model-name", "cars")
    page.fill("#num_trees", "60")
    page.fill("#num_draws", "300")
    window.until(lambda: "About" in page.inner_text("[data-estimate]"))
    window.shoot("new-model")
    page.click("text=Start the fit")
    page.wait_for_url("**/ui/models/mdl_*")
    at = page.url.removeprefix(window.base)

    # Live without a reload: the page moves from state to state by what the stream tells.
    page.evaluate("window.sameDocument = true")
    window.until(lambda: page.query_selector("[data-live]") is None or _fraction(page) > 0)
    window.go("/ui/models")
    window.go(at)  # a reload in the middle goes on where it is
    window.until(lambda: page.query_selector("section.verdict") is not None)
    assert page.inner_text("[data-state]") == "succeeded"
    assert "intervals held" in page.inner_text("main")
    assert window.pictures() == 2
    window.shoot("model")

    for tab, pictures in (("Chains", 3), ("Features", 1), ("Effects", 1)):
        page.click(f".tabs >> text={tab}")
        window.until(lambda tab=tab: page.inner_text(".tabs [aria-current]") == tab)
        assert window.pictures() == pictures
        window.shoot(tab.lower())
    with page.expect_navigation():
        page.select_option("#second", "weight" if page.input_value("#first") != "weight" else "year")
    assert window.pictures() == 1
    window.shoot("effects-two")

    page.click(".tabs >> text=Try a prediction")
    page.wait_for_url("**/predict")
    with page.expect_navigation():
        page.click("form >> text=Predict")
    mean = float(page.inner_text(".answer"))
    low, high = (
        float(part) for part in page.inner_text("dt:has-text('A new outcome, 90%') + dd").split(" to ")
    )
    assert low < mean < high
    assert window.pictures() == 1
    window.shoot("prediction")


def _fraction(page: Any) -> float:
    bar = page.query_selector("[data-live] progress")
    return 1.0 if bar is None else float(bar.evaluate("bar => bar.value / bar.max"))


def test_a_refused_upload_says_why_on_the_spot(window):
    """A file that is no table, dropped on the box: the page stays and names column and row."""
    page = window.page
    window.go("/ui/datasets")
    page.set_input_files("#file", {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,a\n1,2\n"})
    page.click("button:has-text('Upload')")
    page.wait_for_selector("[data-upload-problem] [role=alert]")
    assert "a" in page.inner_text("[data-upload-problem]")
    assert page.is_enabled("button:has-text('Upload')")
    window.trouble = [
        told for told in window.trouble if "422" not in told
    ]  # the console tells of the refusal


def test_a_file_is_dropped(window):
    """Drag and drop does what choosing and pressing does."""
    page = window.page
    window.go("/ui/datasets")
    page.evaluate(
        """() => {
            const files = new DataTransfer();
            const rows = Array.from({length: 20}, (_, i) => `${i},${2 * i}`);
            const text = ["x,y", ...rows].join("\\n");
            files.items.add(new File([text], "dropped.csv", {type: "text/csv"}));
            const box = document.querySelector("form[data-upload]");
            const told = {dataTransfer: files, bubbles: true, cancelable: true};
            box.dispatchEvent(new DragEvent("dragenter", told));
            box.dispatchEvent(new DragEvent("drop", told));
        }"""
    )
    page.wait_for_url("**/ui/datasets/ds_*")
    assert page.inner_text("h1") == "dropped"


def test_the_keyboard_reaches_everything(window):
    """From the skip link on, every link, field and button of a page gets the focus, and it can be seen."""
    page = window.page
    window.go("/ui/datasets")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    window.go("/ui/datasets")
    wanted = page.evaluate(
        "[...document.querySelectorAll('a, button, input, select, summary')]"
        ".filter(e => e.checkVisibility() && e.type !== 'hidden').length"
    )
    reached = 0
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        reached += 1
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline not in {"none", ""}
    assert reached >= wanted


def test_the_service_and_the_reference_open(window):
    """Workers, health, and the API's own page; the policy is broken nowhere."""
    window.go("/ui/service")
    assert "Ready." in window.page.inner_text("main")
    window.shoot("service")
    window.go("/docs")
    window.page.wait_for_selector(".opblock")
    window.go("/ui/models/mdl_none")
    assert window.page.inner_text("h1") == "There is no such thing"
    window.shoot("not-found")
    window.trouble = [told for told in window.trouble if "404" not in told]
