"""`bartserve check`: health checks for containers."""

import typer

from app.cli.common import Host, Port, fail, settings_with

app = typer.Typer(no_args_is_help=True, help="Health checks for containers: exit code 0 when well.")


@app.command("api")
def check_api(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Is the API of this machine alive?"""
    import httpx

    try:
        httpx.get(f"http://{host}:{port}/health/live", timeout=4.0).raise_for_status()
    except httpx.HTTPError as error:
        fail(f"The API on {host}:{port} does not answer: {error}")


@app.command("worker")
def check_worker() -> None:
    """Does a worker of this machine still beat in the database?"""
    from app.services.health import worker_beats_here

    if not worker_beats_here(settings_with()):
        fail("No worker of this machine has a fresh beat in the database.")
