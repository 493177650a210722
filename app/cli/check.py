"""`bartserve check`: health checks for containers."""

from urllib.request import urlopen

import typer

from app.cli.common import Host, Port, fail, settings_with

app = typer.Typer(no_args_is_help=True, help="Health checks for containers: exit code 0 when healthy.")


@app.command("api")
def check_api(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Check that the API on this machine responds."""
    try:
        urlopen(f"http://{host}:{port}/health/live", timeout=4.0).close()
    except OSError as error:
        fail(f"The API on {host}:{port} does not respond: {error}")


@app.command("worker")
def check_worker() -> None:
    """Check that a worker on this machine sends heartbeats to the database."""
    from app.services.health import worker_beats_here

    if not worker_beats_here(settings_with()):
        fail("No worker on this machine has sent a recent heartbeat to the database.")
