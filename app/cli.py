"""The `bartserve` command. The only module that may start both sides, the API and the worker."""

import logging
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from app.settings import Settings

app = typer.Typer(
    name="bartserve",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Predictions that carry honest intervals: a service for Bayesian additive regression trees.",
)
keys = typer.Typer(no_args_is_help=True, help="API keys: who may use a service that is not on loopback.")
check = typer.Typer(no_args_is_help=True, help="Health checks for containers: exit code 0 when well.")
app.add_typer(keys, name="keys")
app.add_typer(check, name="check")

Host = Annotated[str, typer.Option(help="The address to listen on. Beyond loopback, API keys are demanded.")]
Port = Annotated[int, typer.Option(help="The port to listen on.")]
DataDir = Annotated[Path | None, typer.Option(help="The folder that holds everything the service keeps.")]


@app.command()
def up(
    port: Port = 8000,
    data_dir: DataDir = None,
    log_file: Annotated[
        Path | None, typer.Option(help="Where the parts write; default: this terminal.")
    ] = None,
) -> None:
    """Start the embedded service: one API and one worker on this machine, on loopback."""
    from app.store import schema
    from app.supervisor import Supervisor, SupervisorError, sole_use

    settings = _settings(host="127.0.0.1", port=port, data_dir=data_dir and data_dir.resolve())
    try:
        _refuse_taken_port(settings.host, port)
        with sole_use(settings.data_dir):
            schema.migrate(settings.database_url)
            log = None if log_file is None else log_file.open("ab")
            supervisor = Supervisor(settings, log)
            _on_stop_signal(supervisor.stopping)
            _announce_when_ready(settings, supervisor.stopping)
            supervisor.run(typer.echo)
    except (SupervisorError, schema.SchemaError, OSError) as error:
        _fail(str(error))


@app.command()
def api(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Run one API process (`bartserve migrate` first)."""
    import uvicorn

    from app.api.main import create_app
    from app.supervisor import end_with_supervisor

    end_with_supervisor()
    settings = Settings(host=host, port=port)
    uvicorn.run(
        create_app(settings),
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=10,
    )


@app.command()
def worker(
    slots: Annotated[int | None, typer.Option(help="Units worked on at once; default: one per core.")] = None,
) -> None:
    """Run one worker (`bartserve migrate` first)."""
    from app.supervisor import end_with_supervisor
    from worker.main import run_worker

    end_with_supervisor()
    run_worker(_settings(worker_slots=slots))


@app.command()
def migrate() -> None:
    """Bring the database to the schema of this version."""
    from app.store import schema

    try:
        schema.migrate(Settings().database_url)
    except schema.SchemaError as error:
        _fail(str(error))
    typer.echo("The database is at the schema of this version.")


@app.command()
def demo() -> None:
    """Upload real data, train a model and predict with intervals, through HTTP, in a temporary folder."""
    from app.demo import DemoError, run_demo

    try:
        run_demo()
    except DemoError as error:
        _fail(str(error))


@check.command("api")
def check_api(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Is the API of this machine alive?"""
    import httpx

    try:
        httpx.get(f"http://{host}:{port}/health/live", timeout=4.0).raise_for_status()
    except httpx.HTTPError as error:
        _fail(f"The API on {host}:{port} does not answer: {error}")


@check.command("worker")
def check_worker() -> None:
    """Does a worker of this machine still beat in the database?"""
    from app.services.health import worker_beats_here

    if not worker_beats_here(Settings()):
        _fail("No worker of this machine has a fresh beat in the database.")


@keys.command("create")
def create_key(name: Annotated[str, typer.Option(help="Whose key it is.")]) -> None:
    """Make a key and show it, this once."""
    from app.services import keys as service
    from app.store.engine import make_engine, session_scope

    with session_scope(make_engine(Settings().database_url)) as session:
        made = service.create(session, name=name)
    typer.echo(made.secret)
    typer.echo("Keep it: it is not shown again. Send it as the header  Authorization: Bearer KEY", err=True)


@keys.command("list")
def list_keys() -> None:
    """Show the keys: id, name, state."""
    from app.services import keys as service
    from app.store.engine import make_engine, session_scope

    with session_scope(make_engine(Settings().database_url)) as session:
        for key in service.list_keys(session):
            typer.echo(f"{key.id}  {key.name}  {'revoked' if key.revoked_at else 'in force'}")


@keys.command("revoke")
def revoke_key(key_id: str) -> None:
    """End a key at once."""
    from app.services import keys as service
    from app.services.errors import ServiceError
    from app.store.engine import make_engine, session_scope

    try:
        with session_scope(make_engine(Settings().database_url)) as session:
            service.revoke(session, key_id)
    except ServiceError as error:
        _fail(str(error))
    typer.echo(f"{key_id} is revoked.")


def _settings(**given: Any) -> Settings:
    """The environment's settings, with the options that were given."""
    return Settings(**{name: value for name, value in given.items() if value is not None})


def _fail(sentence: str) -> None:
    typer.echo(sentence, err=True)
    raise typer.Exit(1)


def _refuse_taken_port(host: str, port: int) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(
                f"Port {port} of {host} is taken ({error.strerror}): choose another with --port."
            ) from None


def _on_stop_signal(stopping: threading.Event) -> None:
    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _announce_when_ready(settings: Settings, stopping: threading.Event) -> None:
    """Say once where the service is, when it can take work."""
    import httpx

    address = f"http://{settings.host}:{settings.port}"

    def wait() -> None:
        while not stopping.is_set():
            try:
                if httpx.get(f"{address}/health/ready", timeout=2.0).is_success:
                    typer.echo(
                        f"bartserve is ready on {address} (data in {settings.data_dir}); Ctrl-C stops it."
                    )
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)

    threading.Thread(target=wait, name="announce", daemon=True).start()


def main() -> None:
    """Run the command line."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    app()


if __name__ == "__main__":
    main()
