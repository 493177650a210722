"""Headless Chromium that records every error and request, and takes screenshots where a folder is named."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
SHOTS = os.environ.get("BARTSERVE_SCREENSHOTS")  # a folder; without one nothing is painted for nobody
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 300  # patience with a page: the machine may be busy or compile kernels first
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium was found: the pages were not tried in a browser (apt install chromium)",
)


class Watched:
    """A browser window that records every error and request."""

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
        # Leaving a page aborts its streams and pending loads.
        if "ERR_ABORTED" not in (request.failure or ""):
            self.trouble.append(f"failed: {request.url} {request.failure}")

    def go(self, path: str) -> None:
        self.page.goto(self.base + path, wait_until="load")

    def until(self, what: Callable[[], Any]) -> None:
        """Wait for a condition while the browser works."""
        deadline = time.monotonic() + SECONDS

        def there() -> Any:
            try:
                return what()
            except PlaywrightError as error:  # the page was just reloading: try again
                if "context was destroyed" in str(error) or "not attached" in str(error):
                    return None
                raise

        while not there():
            assert time.monotonic() < deadline, (self.page.url, self.page.inner_text("main"))
            self.page.wait_for_timeout(50)

    def tab_to(self, what: str) -> None:
        """Go by the keyboard to the next element with that name."""
        for _ in range(200):
            self.page.keyboard.press("Tab")
            if self.page.locator(f"{what}:focus").count():
                return
        raise AssertionError(f"the keyboard doesn't reach {what} of {self.page.url}")

    def press(self, what: str, leads_to: str = "**") -> None:
        """Press an element by the keyboard, and wait for the address that it leads to."""
        self.tab_to(what)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(leads_to)

    def pictures(self) -> int:
        """Count the images once all of them are shown."""
        for image in self.page.query_selector_all("figure img"):
            image.scroll_into_view_if_needed()
        self.until(
            lambda: self.page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
        )
        assert self.page.query_selector("img[data-waits]") is None  # no shade is left
        return len(self.page.query_selector_all("figure img"))

    def is_accessible(self) -> None:
        """Check that axe-core finds nothing wrong with the page as it is."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        told = [(each["id"], each["help"], [node["target"] for node in each["nodes"]]) for each in found]
        assert not told, (self.page.url, told)

    def fits(self) -> None:
        """Check that nothing is wider than the window."""
        wider = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wider <= 0, f"{self.page.url} is {wider} pixels too wide"

    def lists_fit(self) -> None:
        """Check that lists on a telephone show everything without horizontal scrolling."""
        self.page.set_viewport_size({"width": 390, "height": 900})
        for box in self.page.query_selector_all(".scroll:has(> .table)"):
            assert box.evaluate("box => box.scrollWidth - box.clientWidth") <= 0, self.page.url
        self.page.set_viewport_size({"width": 1280, "height": 900})

    def shoot_one(self, name: str) -> None:
        """Take one screenshot."""
        if SHOTS is not None:
            self.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)

    def shoot(self, name: str) -> None:
        """Check the page wide and narrow, light and dark, and take screenshots of it."""
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                self.page.set_viewport_size({"width": width, "height": 900})
                self.page.emulate_media(color_scheme=scheme)
                self.pictures()
                self.fits()
                if (width == 1280) == (scheme == "light"):
                    self.is_accessible()
                self.shoot_one(f"{name}-{width}-{scheme}")
        self.page.set_viewport_size({"width": 1280, "height": 900})
        self.page.emulate_media(color_scheme="light")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    flags = ["--no-sandbox", "--disable-dev-shm-usage"] if os.geteuid() == 0 else ["--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=SECONDS * 1000)
        yield browser
        browser.close()


def watched(browser: Any, address: str) -> Iterator[Watched]:
    """Open a window on a service; at the end, check that no error was recorded."""
    # Without a graphics card every step of an animation is painted by the processor.
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    window = Watched(context, address)
    try:
        yield window
        window.page.wait_for_load_state("load")
        assert not window.trouble, window.trouble  # before closing, which cuts off whatever is still loading
    finally:
        context.close()
