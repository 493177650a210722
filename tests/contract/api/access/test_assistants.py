"""The tools of `bartserve mcp`, driven by the SDK's own client over stdio and streamable HTTP."""

import asyncio
import contextlib
import sys
import threading
import time

import httpx
import pytest

from tests.support.api_calls import bearer, make_key, table
from tests.support.command_line import bartserve
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, run_units
from tests.support.processes.embedded_service import clean_environment
from tests.support.waiting import stretched

pytest.importorskip("mcp")
import httpx2
import uvicorn
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from app.assistants.server import TOOLS, asks_for_keys, http_application
from app.server import make_config

pytestmark = [only("sqlite"), pytest.mark.filterwarnings("ignore")]  # of its own dependencies
ROW = {"size": 1.0, "colour": "red"}


@contextlib.contextmanager
def offered(url, settings):
    """Serve the tools of a service over HTTP, and yield their address."""
    connections = httpx.HTTPTransport()
    app = http_application(url, connections, names=[], version="0")
    server = uvicorn.Server(make_config(app, settings, "127.0.0.1", 0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + stretched(20)
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(stretched(20))
        connections.close()


async def said(client, tool, **arguments):
    """Return the text of a tool's answer, and whether it is an error."""
    answer = await client.call_tool(tool, arguments)
    (content,) = answer.content
    assert len(content.text) < 7_000
    return content.text, answer.is_error


@pytest.mark.slow
def test_an_assistant_fits_and_predicts_over_stdio(client, settings, tmp_path):
    """Upload, fit, wait, verdict, predict, explain and compare; refusals are the tool's errors, in words."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "mine.csv").write_text(table(60))
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    (tmp_path / "tables" / "link.csv").symlink_to(tmp_path / "secret.csv")
    url = str(client.base_url)
    words = ["-P", "-m", "app.cli", "mcp", "--url", url, "--folder", str(tmp_path / "tables")]
    started = StdioServerParameters(command=sys.executable, args=words, env=clean_environment())

    async def talk():
        async with Client(started) as assistant:
            assert [tool.name for tool in (await assistant.list_tools()).tools] == list(TOOLS)
            uploaded, _ = await said(assistant, "upload", path="mine.csv")
            assert "(mine): 60 rows" in uploaded
            assert "- colour: category (" in uploaded
            for path in ("link.csv", "../secret.csv", "/etc/passwd", "none.csv"):
                refused, wrong = await said(assistant, "upload", path=path)
                assert wrong
                assert "is no workbook, CSV, JSON, Parquet or Arrow file in" in refused

            dataset = uploaded.split()[1]
            for name in ("first", "second"):
                short = SMALL | {"num_trees": len(name)}
                begun = {"dataset": dataset, "target": "y", "name": name, "settings": short}
                text, wrong = await said(assistant, "fit", **begun)
                assert not wrong, text
            both = {"dataset": dataset, "target": ["y", "size"], "name": "both", "settings": SMALL}
            assert "which predicts y, size" in (await said(assistant, "fit", **both))[0]
            still, _ = await said(assistant, "wait", model="first", seconds=0)
            assert "0% done" in still
            assert "Call wait again" in still
            await asyncio.to_thread(run_units, settings)

            verdict, _ = await said(assistant, "wait", model="first", seconds=5)
            assert "Verdict: not converged: don't use" in verdict
            assert "12 held-out rows: rmse" in verdict
            assert await said(assistant, "verdict", model="first") == (verdict, False)
            predicted, _ = await said(assistant, "predict", model="first", rows=[ROW, ROW | {"size": 1e6}])
            first, *_ = predicted.splitlines()
            assert first in verdict
            assert "row, mean, sd, lower_90, upper_90\n1, " in predicted
            assert "Row 2, size: outside the range of training: rely less on it." in predicted
            assert "size: 12 held-out rows: rmse" in (await said(assistant, "verdict", model="both"))[0]
            colour = {"rows": [{"colour": "red"}], "outcome": "size"}
            of_size, wrong = await said(assistant, "predict", model="both", **colour)
            assert not wrong, of_size
            for asked in ({}, {"feature": "size"}, {"row": ROW}):
                explained, wrong = await said(assistant, "explain", model="first", **asked)
                assert not wrong, explained
                assert explained.startswith(first)
                assert "90% intervals:" in explained
            compared, _ = await said(assistant, "compare", model="first", other="second")
            assert "12 rows that both held out; first is first, second second." in compared
            assert "with standard error" in compared
            assert "- second (mdl_" in (await said(assistant, "overview"))[0]

            refusals = [
                ("predict", {"model": "first", "rows": [ROW] * 51}, "Give 1 to 50 rows, not 51"),
                ("predict", {"model": "first", "rows": [{"x": 1}]}, "- size: the model needs this column"),
                ("predict", {"model": "first", "rows": [ROW], "level": 2}, "less than 1"),
                ("upload", {"csv": "a,b\n1,2\n3"}, "row 2: it has 1 value,"),
                ("upload", {}, "Give either csv"),
                ("fit", {"dataset": dataset, "target": "nothing"}, "nothing"),
                ("fit", {"dataset": dataset, "target": "y", "settings": {"self": 1}}, "can't have self"),
                ("explain", {"model": "first", "feature": "size", "row": ROW}, "not both"),
                ("verdict", {"model": "none"}, "There is no model"),
                ("wait", {"model": "first", "second": 9}, "wait has no argument second: it has model, sec"),
            ]
            for tool, arguments, reason in refusals:
                text, wrong = await said(assistant, tool, **arguments)
                assert wrong
                assert reason in text

    asyncio.run(talk())


def test_over_http_each_caller_has_its_own_key(team, settings, database, monkeypatch):
    """Owners see their own, scopes hold, and no request borrows a key of the server's process."""
    ann, bob = (make_key(database, name) for name in ("ann", "bob"))
    reader = make_key(database, "cat", scopes=("read",))
    monkeypatch.setenv("BARTSERVE_KEY", bearer(ann)["Authorization"].removeprefix("Bearer "))
    sent = team.post("/datasets", content=table(), headers=bearer(ann) | {"Content-Type": "text/csv"}).json()

    async def ask(address, headers, *calls):
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(address, http_client=http)) as assistant,
        ):
            return [await said(assistant, tool, **arguments) for tool, arguments in calls]

    fit = ("fit", {"dataset": sent["id"], "target": "y", "settings": SMALL})
    with offered(str(team.base_url), settings) as address:
        (_, wrong), (seen, _) = asyncio.run(ask(address, bearer(ann), fit, ("overview", {})))
        assert not wrong
        assert sent["id"] in seen
        (other, wrong), (none, _) = asyncio.run(ask(address, bearer(bob), fit, ("overview", {})))
        assert wrong
        assert "There is no dataset" in other
        assert none.startswith("There are no models.")
        ((scope, wrong),) = asyncio.run(ask(address, bearer(reader), fit))
        assert wrong
        assert "(403)" in scope
        ((files, wrong),) = asyncio.run(ask(address, bearer(ann), ("upload", {"path": "mine.csv"})))
        assert wrong
        assert "reads no files" in files

        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accept = {"Accept": "application/json, text/event-stream"}
        for refused in (
            {},
            {"Authorization": "Bearer none"},
            {"Authorization": "Bearer \u00fc".encode("latin-1")},
        ):
            assert httpx2.post(address, json=call, headers=accept | refused).status_code == 401
        keyed = accept | bearer(ann)
        assert httpx2.post(address, json=call, headers=keyed | {"Host": "evil.example"}).status_code == 421
        assert (
            httpx2.post(address, json=call, headers=keyed | {"Origin": "http://x.example"}).status_code == 403
        )
    assert asks_for_keys(str(team.base_url))


def test_beyond_loopback_the_service_must_ask_for_keys(client, tmp_path):
    """A service that trusts its machine is not offered to other machines, whose keys it would not check."""
    url = str(client.base_url)
    assert not asks_for_keys(url)
    for listens in (["--host", "0.0.0.0"], ["--name", "tools.example"]):
        refused = bartserve("mcp", "--http", "--url", url, *listens, cwd=tmp_path)
        assert refused.returncode == 1
        assert "trusts every client on its machine" in refused.stderr
