"""`bartserve mcp`: tools for assistants, by the Model Context Protocol."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import DataDir, fail, settings_with, version
from app.cli.embedded import asking
from app.cli.fit_predict import Url
from app.cli.output import err

MCP = """Offer the service to assistants by the Model Context Protocol: upload, fit, predict, explain.

Over stdio for the assistant that starts it, with BARTSERVE_KEY; with --http for several, each with a key of
its own in its requests. `pip install "bartserve[mcp]"` brings what it takes.

\b
Examples
  bartserve mcp
  bartserve mcp --folder ~/tables
  bartserve mcp --http --port 8100
"""


def register(app: typer.Typer) -> None:
    """Add the command to `bartserve`."""
    app.command("mcp", help=MCP)(offer_tools)


def offer_tools(
    folder: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Assistants may upload tables in this folder. Default: none."
        ),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve streamable HTTP, not stdio.")] = False,
    host: Annotated[str, typer.Option(help="The address for --http. Beyond loopback, keys are required.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port for --http.")] = 8100,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A name by which others reach it, as behind a proxy; repeatable."),
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Run the tools' server; the help is MCP."""
    try:
        from app.assistants.server import PATH, asks_for_keys, http_application, make_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        fail("bartserve mcp needs the official SDK: pip install 'bartserve[mcp]'")
    if http and folder is not None:
        fail("--folder is for stdio: over HTTP assistants send tables as text.")
    import httpx

    from app.server import serve_app
    from app.settings import is_loopback

    with asking(url, data_dir, err.print) as client:
        if not http:
            make_server(lambda _headers: client, folder, version()).run("stdio")
            return
        if (name or not is_loopback(host)) and not asks_for_keys(client.url):
            fail(
                f"The service at {client.url} trusts every client on its machine, so none would need a key: "
                "give --url of a service that asks for keys, or listen on loopback without --name."
            )
        err.print(f"tools     http://{host}:{port}{PATH}")
        with httpx.HTTPTransport() as connections:
            app = http_application(client.url, connections, names=name or [], version=version())
            serve_app(app, settings_with(host=host, port=port))
