"""The dashboard in a real Chromium: from an empty service to a prediction with its interval."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from app.client import Client
from tests.support.browser import ROOT, SECONDS, Watched, chromium, needs_chromium, watched  # noqa: F401
from tests.support.forecasts import shops
from tests.support.processes.embedded_service import Up, running_up
from tests.support.waiting import eventually
from tests.support.workbooks import letters_of, xlsx

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Up]:
    """Return an empty embedded service shared by this file's tests."""
    with running_up(tmp_path_factory.mktemp("browser") / "data") as up:
        eventually(up.ready, SECONDS, up.log.read_text())
        yield up


@pytest.fixture(scope="module")
def address(service) -> str:
    return service.address


@pytest.fixture
def window(chromium, address) -> Iterator[Watched]:  # noqa: F811  the fixture of that name
    yield from watched(chromium, address)


@pytest.mark.slow
def test_from_an_empty_service_by_a_file_to_a_prediction(window):
    """An upload leads by clicks to a fit, its verdict and a prediction, without console errors."""
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
    window.shoot("new-model-target")
    page.select_option("#target", "mpg")
    page.click("text=Continue")
    assert "Numbers from 9 to 46.6" in page.inner_text("#target-hint")
    window.shoot("new-model-questions")
    page.click("text=All settings")
    page.wait_for_selector("#num_trees", state="attached")
    assert page.input_value("#target") == "mpg"
    page.select_option("#family", "poisson")
    assert "Numbers" not in page.inner_text("#target-hint")
    page.select_option("#family", "auto")
    page.fill("#model-name", "cars")
    page.click("summary:has-text('Method, trees and chains')")
    page.fill("#num_trees", "60")
    page.fill("#num_draws", "100")
    window.until(lambda: "About" in page.inner_text("[data-estimate]"))
    window.shoot("new-model")
    page.click("text=Start the fit")
    page.wait_for_url("**/ui/models/mdl_*")
    at = page.url.removeprefix(window.base)

    # Without a reload the page follows the stream from state to state.
    page.evaluate("window.sameDocument = true")
    window.until(lambda: page.query_selector("[data-live]") is None or _fraction(page) > 0)
    window.go("/ui/models")
    window.go(at)  # a reload in the middle continues at the current state
    window.until(lambda: page.query_selector("section.verdict") is not None)
    assert page.inner_text("[data-state]") == "succeeded"
    assert "90% intervals" in page.inner_text("main")
    assert window.pictures() == 1
    window.shoot("model")

    window.go("/ui/models")
    window.lists_fit()
    window.shoot("models")
    window.go(at)
    for tab, pictures in (("Checks", 4), ("Chains", 4), ("Features", 2), ("Effects", 3), ("What if", 0)):
        page.click(f".tabs >> text={tab}")
        window.until(lambda tab=tab: page.inner_text(".tabs [aria-current]") == tab)
        window.until(lambda: page.query_selector("[data-part]") is None)
        assert window.pictures() == pictures
        window.shoot(tab.lower())
    assert "The population they are a sample of" in page.inner_text("main")
    held: list[Any] = []
    page.route("**/effects?part=dependence", lambda route: held.append(route))  # noqa: PLW0108  # it counts
    page.click(".tabs >> text=Effects")
    page.wait_for_url("**/effects")
    window.until(lambda: held and page.is_visible("[data-part] progress"))  # it says that it computes
    assert "Computing the effect" in page.inner_text("[data-part-words]")
    window.shoot("effects-waiting")
    held[0].continue_()
    page.unroute("**/effects?part=dependence")
    page.wait_for_selector("#second")
    with page.expect_navigation():
        page.select_option("#second", "weight" if page.input_value("#first") != "weight" else "year")
    window.until(lambda: page.query_selector("[data-part]") is None)
    assert window.pictures() == 2
    window.shoot("effects-two")

    page.click(".tabs >> text=Predict")
    page.wait_for_url("**/predict")
    with page.expect_navigation():
        page.click("form[method=get] button:has-text('Predict')")
    mean = float(page.inner_text(".answer"))
    low, high = (
        float(part) for part in page.inner_text("dt:has-text('A new outcome, 90%') + dd").split(" to ")
    )
    assert low < mean < high
    assert window.pictures() == 1
    window.shoot("prediction")

    page.set_input_files("#file", ROOT / "examples" / "auto_mpg.csv")  # previewed at once, in place
    page.wait_for_selector("[data-file-preview] table")
    assert "auto_mpg.csv: 397 rows" in page.inner_text("[data-file-preview] h3")
    window.shoot("file")
    with page.expect_download() as download:
        page.click("button:has-text('CSV')")
    assert download.value.suggested_filename == "auto_mpg-predicted.csv"
    assert page.query_selector("[data-file-preview] table") is not None

    # The button, which asks for ten times the fits, is pressed in the contract tests.
    with Client(window.base) as client:
        client.select_features("cars", permutations=20)
    page.click(".tabs >> text=Features")
    page.wait_for_selector("#selection table, #selection [data-progress]")
    window.until(lambda: page.query_selector("#selection table") is not None)  # the page looks by itself
    assert "weight" in page.inner_text("#selection table")
    window.shoot("selection")


COUNT = """addEventListener('click', (event) => {  // of the mouse, over all pages
    if (event.detail) sessionStorage.setItem("clicks", 1 + Number(sessionStorage.getItem("clicks")));
}, true)"""


@pytest.mark.slow
def test_a_first_trusted_prediction_takes_six_clicks(window):
    """From the start page: the file, its upload, what to predict, the start, and the prediction."""
    page = window.page
    page.add_init_script(COUNT)
    window.go("/")
    with page.expect_file_chooser() as chooser:
        page.click("#file")
    rows = b"".join(b"%d,%d.5\n" % (i % 9, 3 * (i % 9) + i % 4) for i in range(60))
    chooser.value.set_files({"name": "first.csv", "mimeType": "text/csv", "buffer": b"x,y\n" + rows})
    page.click("button:has-text('Upload')")
    page.click("a:has-text('Predict y')")
    page.wait_for_url("**target=y")
    page.click("text=Start the fit")
    page.wait_for_url("**/ui/models/mdl_*")
    window.until(lambda: page.query_selector("section.verdict") is not None)
    assert "converged" in page.inner_text("main")
    assert "90% predictive interval" in page.inner_text("main")
    page.click(".tabs >> text=Predict")
    page.click("form[method=get] button:has-text('Predict')")
    assert 0 < float(page.inner_text(".answer")) < 30
    assert page.evaluate("Number(sessionStorage.getItem('clicks'))") == 6


@pytest.mark.slow
def test_a_workbook_leads_to_predictions_beside_cells_as_they_were(window):
    """By the keyboard: a workbook, two steps, and a file of rows, whose cells come back letter by letter."""
    page = window.page
    rows = [[1067 + i % 4, f"0{i % 5}", i % 7 + 0.5, 3 * (i % 7) + 37 * i % 11] for i in range(80)]
    book = xlsx({"Notes": [["by Ann"]], "Data": [["zip", "kind", "size", "y"], *rows]}, zeros={0: "00000"})
    window.go("/ui/datasets")
    page.set_input_files("#file", {"name": "book.xlsx", "mimeType": "", "buffer": book})
    window.press("button:has-text('Upload')", "**/ui/datasets/ds_*")
    assert "01067" in page.inner_text("main")
    window.press("a:has-text('Predict y')", "**target=y")
    window.press("button:has-text('Start the fit')", "**/ui/models/mdl_*")
    window.until(lambda: page.query_selector("section.verdict") is not None)
    window.press(".tabs a:has-text('Predict')", "**/predict")
    sent = ["id;zip;when;kind;size;sum", "007;01068;28.10.2024;03;1,50;=1+1", "8;01067;1.2.2024;04;2,5;(3)"]
    page.set_input_files("#file", {"name": "new.csv", "mimeType": "", "buffer": "\n".join(sent).encode()})
    page.wait_for_selector("[data-file-preview] table")
    window.shoot("cells")
    came = {}
    for kind in ("csv", "xlsx"):
        with page.expect_download() as download:
            window.tab_to(f"button[value={kind}]")
            page.keyboard.press("Enter")
        came[kind] = download.value.path().read_bytes()
    lines = came["csv"].decode("utf-8-sig").splitlines()
    assert [line[: len(before)] for line, before in zip(lines, sent, strict=True)] == sent
    added = [line.removeprefix(before) for line, before in zip(lines, sent, strict=True)]
    assert added[0].startswith(";")
    assert all("," in each and "." not in each for each in added[1:]), added  # decimals as the file's own
    assert [row[:6] for row in letters_of(came["xlsx"], ",")] == [line.split(";") for line in sent]


@pytest.mark.slow
def test_a_set_is_made_and_followed_by_the_keyboard(window):
    """A suggestion is taken by its button; all settings keep the answers; the page lists the models."""
    page = window.page
    rows = [f"s{i // 15},{i % 7},{(i // 15 * 37) % 23 + i % 3}" for i in range(450)]
    with Client(window.base) as client:
        dataset = client.upload("\n".join(["shop,size,y", *rows, "closed,1,1"]).encode(), name="shops")
    window.go(f"/ui/models/new?dataset={dataset.id}&target=y")
    assert len(page.query_selector_all("input, select, textarea, button")) <= 40
    window.press("button:has-text('Yes: test the model on such rows')")
    assert page.evaluate("[document.activeElement.name, document.activeElement.value]") == [
        "new_rows.groups",
        "shop",
    ]
    window.until(lambda: "Will you predict" not in page.inner_text("[data-alike]"))
    window.shoot("new-model-suggestion")
    page.keyboard.press("Home")
    assert page.input_value("[name='new_rows.groups']") == ""
    window.tab_to("#by")
    page.keyboard.press("ArrowDown")
    window.until(lambda: "31 models" in page.inner_text("[data-estimate]"))
    window.press("button:has-text('All settings')", "**/ui/models/settings")
    page.wait_for_selector("#num_trees", state="attached")
    assert page.input_value("#by") == "shop"
    window.tab_to("#holdout")
    page.keyboard.press("Delete")
    window.press("summary:has-text('Method, trees and chains')")
    for field, value in (("num_trees", "2"), ("num_draws", "4"), ("num_chains", "1")):
        window.tab_to(f"#{field}")
        page.keyboard.type(value)
    window.press("button:has-text('Start the fit')", "**/ui/model-sets/set_*")
    page.wait_for_selector("section:not([data-study]) > [data-progress]")  # it follows, and ends by itself
    window.shoot("set")
    window.press("a:has-text('See which, and why')")
    page.wait_for_selector("tbody >> text=closed")
    assert "row" in page.inner_text("tbody")
    window.go("/ui/model-sets")
    window.lists_fit()
    window.shoot("sets")


def _fraction(page: Any) -> float:
    bar = page.query_selector("[data-live] progress")
    return 1.0 if bar is None else float(bar.evaluate("bar => bar.value / bar.max"))


CUT = ("failed: ", "error: Failed to load resource: net::", "status of 503")  # of requests that were cut off


@pytest.mark.slow
def test_a_page_recovers_when_the_service_or_the_network_was_away(window, service):
    """Live progress resumes without a reload after a killed API and a lost network."""
    page = window.page
    with Client(service.address) as client:
        model = client.fit(
            client.upload(ROOT / "examples" / "auto_mpg.csv"), "mpg", num_draws=500, thin=10_000
        )
        client.cancel(model)
        window.until(lambda: client.model(model).state == "cancelled")
        client.retry(model)
        window.go(f"/ui/models/{model.id}")
        page.evaluate("window.sameDocument = true")
        window.until(lambda: _iteration(page) > 0)

        (api,) = [pid for pid, line in service.descendants().items() if " api " in f"{line} "]
        os.kill(api, signal.SIGKILL)
        window.until(lambda: "was lost" in page.inner_text("[data-live-status]"))
        window.shoot_one("cut-off")
        iteration = _iteration(page)
        window.until(lambda: _iteration(page) > iteration)
        assert "was lost" not in page.inner_text("[data-live-status]")

        page.context.set_offline(True)
        window.until(lambda: "was lost" in page.inner_text("[data-live-status]"))
        page.context.set_offline(False)
        iteration = _iteration(page)
        window.until(lambda: _iteration(page) > iteration)

        assert page.evaluate("window.sameDocument")
        client.cancel(model)
        window.until(lambda: page.query_selector("text=Retry") is not None)
        window.trouble = [message for message in window.trouble if not any(word in message for word in CUT)]
        window.go("/ui/models")
        client.delete_model(model)


def _iteration(page: Any) -> float:
    return float(page.evaluate("document.querySelector('[data-chain]')?.value ?? 0"))


@pytest.mark.slow
def test_a_refused_upload_says_why_on_the_spot(window):
    """After a dropped file that is no table the page stays and names column and row."""
    page = window.page
    window.go("/ui/datasets")
    page.set_input_files("#file", {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"a,a\n1,2\n"})
    page.click("button:has-text('Upload')")
    page.wait_for_selector("[data-upload-problem] [role=alert]")
    assert "a" in page.inner_text("[data-upload-problem]")
    assert page.is_enabled("button:has-text('Upload')")
    window.trouble = [message for message in window.trouble if "422" not in message]  # the refusal


@pytest.mark.slow
def test_an_upload_shows_how_far_it_is(window):
    """Over a slow line the page shows the share sent; a stopped upload leaves nothing."""
    page = window.page
    line = page.context.new_cdp_session(page)

    def allow(speed: int) -> None:
        conditions = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": speed}
        line.send("Network.emulateNetworkConditions", conditions)

    allow(30_000)  # a minute for the whole, to stop it on its way, however busy the machine is
    table = b"x,y\n" + b"".join(b"%d,%d.25\n" % (i, 2 * i) for i in range(100_000))
    window.go("/ui/datasets")
    page.evaluate(
        """() => {  // what is told, kept for when the page was left
            const words = document.querySelector("[data-upload-words]");
            const bar = document.querySelector("[data-upload-state] progress");
            new MutationObserver(() => {
                const told = JSON.parse(sessionStorage.getItem("told") ?? "[]");
                sessionStorage.setItem("told", JSON.stringify([...told, [words.textContent, bar.value]]));
            }).observe(words, {childList: true});
        }"""
    )
    page.set_input_files("#file", {"name": "slow.csv", "mimeType": "text/csv", "buffer": table})

    page.click("button:has-text('Upload')")
    page.wait_for_selector("text=/Sending: [1-5]0%/")
    assert page.is_disabled("button:has-text('Upload')")
    window.shoot_one("uploading")
    page.click("[data-upload-stop]")
    page.wait_for_selector("[data-upload-state]", state="hidden")
    assert page.is_enabled("button:has-text('Upload')")
    assert "Reading" not in page.evaluate("sessionStorage.getItem('told')")  # it was on its way
    page.evaluate("sessionStorage.removeItem('told')")
    allow(1_000_000)

    page.click("button:has-text('Upload')")
    page.wait_for_url("**/ui/datasets/ds_*")
    assert page.inner_text("h1") == "slow"
    fractions = json.loads(page.evaluate("sessionStorage.getItem('told')"))
    assert fractions[0][0] == "Sending"
    sent = [(int(words.removeprefix("Sending: ").removesuffix("%")), bar) for words, bar in fractions[1:-1]]
    assert len(sent) >= 4
    assert sent == sorted(sent)
    assert all(abs(bar - share / 100) <= 0.1 for share, bar in sent)
    assert fractions[-1][0] == "Reading the table"
    window.go("/ui/datasets")
    assert len(page.query_selector_all("th a:has-text('slow')")) == 1  # the stopped upload left nothing


@pytest.mark.slow
def test_a_file_is_dropped(window):
    """Dropping a file uploads it as choosing one does."""
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


@pytest.mark.slow
def test_the_keyboard_reaches_everything(window):
    """From the skip link on, every link, field and button can be focused, visibly."""
    page = window.page
    window.go("/ui/datasets")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    window.go("/ui/datasets")
    reachable = page.evaluate(
        "[...document.querySelectorAll('a, button, input, select, summary')]"
        ".filter(e => e.checkVisibility() && e.type !== 'hidden').length"
    )
    reached = 0
    for _ in range(reachable + 20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        reached += 1
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline not in {"none", ""}
    assert reached >= reachable


@pytest.mark.slow
def test_without_javascript_and_without_a_mouse(chromium, address):  # noqa: F811  the fixture of that name
    """Without JavaScript the keyboard leads from a file to a prediction, by forms and refreshed pages."""
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 900})
    window = Watched(context, address)
    page = window.page
    to, press = window.tab_to, window.press
    window.go("/ui/datasets")
    rows = b"".join(b"%d,%d,%s\n" % (i, 2 * i + i % 7, b"ab"[i % 2 : i % 2 + 1]) for i in range(60))
    plain = {"name": "plain.csv", "mimeType": "text/csv", "buffer": b"x,y,kind\n" + rows}
    page.set_input_files("#file", plain)
    press("button:has-text('Upload')", "**/ui/datasets/ds_*")
    assert page.inner_text("h1") == "plain"
    press("a:has-text('Fit a model')", "**/ui/models/new?*")
    to("#target")
    page.keyboard.type("y")
    press("button:has-text('Continue')", "**target=y")
    press("button:has-text('All settings')", "**/ui/models/settings")
    to("summary:has-text('Method, trees and chains')")
    page.keyboard.press("Enter")
    for field, keys in (("num_trees", "10"), ("num_draws", "40")):
        to(f"#{field}")
        page.keyboard.type(keys)
    press("button:has-text('Estimate')", "**/ui/models/estimate")
    assert "About" in page.inner_text("[data-estimate]")
    assert page.input_value("#num_trees") == "10"
    press("button:has-text('Start the fit')", "**/ui/models/mdl_*")

    window.until(lambda: page.inner_text("[data-state]") == "succeeded")
    assert "90% intervals" in page.inner_text("main")
    for image in page.locator("figure img").all():
        image.scroll_into_view_if_needed()
        assert image.bounding_box()["width"] > 200
    window.fits()
    press(".tabs a:has-text('Effects')", "**/effects?part=all")  # sent on at once
    assert page.locator("figure img").count() == 3
    press(".tabs a:has-text('Predict')", "**/predict")
    press("form[method=get] button:has-text('Predict')", "**/predict?*")
    low, high = page.inner_text("dt:has-text('A new outcome, 90%') + dd").split(" to ")
    assert float(low) < float(page.inner_text(".answer")) < float(high)
    window.shoot_one("without-javascript")
    context.close()
    assert not window.trouble


@pytest.mark.slow
def test_the_service_and_the_reference_open(window):
    """Service page and API reference open without breaches of the content security policy."""
    window.go("/ui/service")
    assert "Ready." in window.page.inner_text("main")
    window.lists_fit()
    window.shoot("service")
    window.go("/docs")
    window.page.wait_for_selector(".opblock")
    window.go("/ui/models/mdl_none")
    assert window.page.inner_text("h1") == "Not found"
    window.shoot("not-found")
    window.trouble = [message for message in window.trouble if "404" not in message]


@pytest.mark.slow
def test_a_forecast_by_clicks(window, chromium, address, tmp_path):  # noqa: F811  the fixture of that name
    """A plan for a table of series is filled in and chosen; a fan, totals and rehearsals show."""
    columns, y = shops(2)
    rows = [",".join([*columns, "sales"])]
    rows += [",".join(map(str, row)) for row in zip(*columns.values(), y.round(2), strict=True)]
    (tmp_path / "shops.csv").write_text("\n".join(rows))
    with Client(address) as bart:
        dataset = bart.upload(tmp_path / "shops.csv")
    page = window.page
    window.go(f"/ui/models/new?dataset={dataset.id}&target=sales")
    page.click("text=Forecast the next steps, by month")
    page.wait_for_selector("#horizon")
    page.select_option("#series", "shop")
    page.select_option("#known", "promo")
    page.fill("#horizon", "4")
    page.fill("#model-name", "shops")
    window.shoot("new-forecast")
    window.until(lambda: "About" in page.inner_text("[data-estimate]"))
    assert all("422" in each for each in window.trouble)  # estimates before the series were chosen
    window.trouble.clear()
    page.click("text=Start the fit")
    page.wait_for_url("**/ui/models/mdl_*")
    window.shoot("forecaster-fitting")
    window.until(lambda: page.query_selector("#told") is not None)
    window.shoot("forecaster")
    with page.expect_download() as downloaded:
        page.click("text=Download the plan to fill in")
    plan = downloaded.value.path().read_text().splitlines()
    filled = "\n".join([plan[0], *(f"{line}false" for line in plan[1:])])
    with Client(address) as bart:
        bart.upload(filled.encode(), name="plan")
    page.click(".tabs >> text=Forecast")
    page.select_option("#known", label="plan (8 rows)")
    page.click("#asked button")
    page.wait_for_selector("#steps")
    assert window.pictures() == 2
    window.shoot("forecast")
    _move_the_lead_time(window)
    plain = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 900})
    other = Watched(plain, address)
    other.go(page.url.removeprefix(address).replace("lead=1", "lead=3"))
    other.tab_to("#lead")
    other.page.keyboard.press("Home")
    other.press("[data-hide-when-alive]", "**lead=1*")
    assert _told(other.page) == _told(page)
    other.fits()
    plain.close()
    assert not other.trouble


def _told(page: Any) -> dict[str, str]:
    """Return what a panel of totals tells, by name."""
    return {
        place.get_attribute("data-told"): place.inner_text() for place in page.locator("[data-told]").all()
    }


def _move_the_lead_time(window: Watched) -> None:
    """By arrow keys, mouse and finger the total, its end and its claim are those of the table's row."""
    page = window.page
    rows = page.locator("[data-leads] tbody tr")
    slider = page.locator("#lead")

    def shows(lead: int) -> None:
        assert slider.input_value() == str(lead)
        told, row = _told(page), rows.nth(lead - 1)
        assert told["claim"] == row.get_attribute("data-claim")
        assert told["every-claim"] == row.get_attribute("data-every-claim")
        for name in ("total", "interval", "every", "every-interval", "until"):
            assert told[name] == row.locator(f"[data-{name}]").text_content()
        assert f"the first {told['steps']}" in " ".join(page.inner_text("[data-leads] h2").split())
        assert told["total"] in slider.get_attribute("aria-valuetext")
        seen.append(told["total"])

    seen: list[str] = []
    shows(4)
    window.tab_to("#lead")
    for key, lead in (("ArrowLeft", 3), ("ArrowDown", 2), ("ArrowRight", 3), ("Home", 1)):
        page.keyboard.press(key)
        shows(lead)
    assert "lead=1" in page.url
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.65, box["y"] + box["height"] / 2, steps=4)
    shows(3)  # while it is held
    page.mouse.move(box["x"] + box["width"] * 0.34, box["y"] + box["height"] / 2)
    page.mouse.up()
    shows(2)
    touch = page.context.new_cdp_session(page)
    at = {"x": box["x"] + box["width"] - 6, "y": box["y"] + box["height"] / 2}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    shows(4)
    assert len({*seen}) == 4
    page.focus("#lead")
    page.keyboard.press("Home")
    assert '"steps": [ 1, 1 ]' in " ".join(page.locator(".snippets code").first.text_content().split())
