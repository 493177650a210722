"""Commands that run the service: up, api, worker, migrate, demo."""

import gc
import logging
import signal
import threading
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from app.cli.common import AsJson, DataDir, Host, Port, fail, print_json, settings_with
from app.described_settings import describe_settings, shown_value
from app.settings import Settings

# Help texts; tests run their examples.
UP = """Start the embedded service: one API and one worker on this machine, on loopback.

It prints the URL of its pages. Ctrl-C stops it; unfinished work continues at the next start.

\b
Examples
  bartserve up
  bartserve up --port 8001 --data-dir ~/houses
"""
API = """Run one API process (`bartserve migrate` first).

BARTSERVE_DATABASE_URL and BARTSERVE_REDIS_URL are the URLs of Postgres and Redis.

\b
Examples
  bartserve api --host 0.0.0.0 --port 8000
"""
WORKER = """Run one worker (`bartserve migrate` first); any number can run, on any machines.

BARTSERVE_DATABASE_URL and BARTSERVE_REDIS_URL are the URLs of Postgres and Redis.

\b
Examples
  bartserve worker --slots 4
"""


def register(app: typer.Typer) -> None:
    """Add the commands to `bartserve`."""
    app.command(help=UP)(up)
    app.command(help=API)(api)
    app.command(help=WORKER)(worker)
    for command in (migrate, warm, demo, config):
        app.command()(command)


def up(
    port: Port = 8000,
    data_dir: DataDir = None,
    log_file: Annotated[
        Path | None, typer.Option(help="The file for the logs; default: this terminal.")
    ] = None,
) -> None:
    """Start the embedded service; the help is UP."""
    from app.store import schema
    from app.supervisor import Supervisor, SupervisorError, sole_use

    settings = settings_with(host="127.0.0.1", port=port, data_dir=data_dir and data_dir.resolve())
    try:
        _refuse_taken_port(settings.host, port)
        with sole_use(settings.data_dir, f"http://{settings.host}:{port}"):
            schema.migrate(settings.database_url)
            log = None if log_file is None else log_file.open("ab")
            supervisor = Supervisor(settings, log)
            _on_stop_signal(supervisor.stopping)
            _announce_when_ready(settings, supervisor.stopping)
            supervisor.run(typer.echo)
    except (SupervisorError, schema.SchemaError, OSError) as error:
        fail(str(error))


def api(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Run an API process; the help is API."""
    from app import cpu_baseline
    from app import logging as logs
    from app.store import schema
    from app.supervisor import end_with_supervisor

    settings = settings_with(host=host, port=port)
    end_with_supervisor()
    logs.configure(settings)
    logging.getLogger("bartserve.audit").setLevel(logging.INFO)
    if (why := schema.mismatch(settings.database_url)) is not None:
        fail(why)
    cpu_baseline.choose(settings)
    cpu_baseline.seed(settings)
    from app.server import server  # after the choice of the processor, since it loads numba

    ready = server(settings)
    # What is loaded now stays: full collections, which stop every request, need not look at it.
    gc.collect()
    gc.freeze()
    ready.run()


def worker(
    slots: Annotated[
        int | None, typer.Option(help="Chains run at once; default: one per core with 512 MiB.")
    ] = None,
) -> None:
    """Run a worker; the help is WORKER."""
    from app import cpu_baseline
    from app import logging as logs
    from app.supervisor import end_with_supervisor
    from worker.main import run_worker

    settings = settings_with(worker_slots=slots)
    end_with_supervisor()
    logs.configure(settings)
    cpu_baseline.choose(settings)
    cpu_baseline.seed(settings)
    run_worker(settings)


def warm() -> None:
    """Compile the kernels into the cache folder, so that nobody waits for them later."""
    from app import cpu_baseline

    settings = settings_with()
    baseline = cpu_baseline.choose(settings)
    cpu_baseline.seed(settings)
    import sampler

    sampler.warm(
        progress=lambda done, total: typer.echo(f"\rkernels: {done} of {total} ", nl=False, err=True)
    )
    typer.echo(f"\nThe kernels are compiled for {baseline.name if baseline else 'this processor'}.")


def config(as_json: AsJson = False) -> None:
    """Print every setting: its variable, value, default and meaning; secrets are masked.

    BARTSERVE_<NAME>_FILE can name a file with the value instead.
    """
    settings = settings_with()
    if as_json:
        values = {setting.name: shown_value(settings, setting.name) for setting in describe_settings()}
        print_json([asdict(setting) | {"value": values[setting.name]} for setting in describe_settings()])
        return
    for setting in describe_settings():
        typer.echo(f"{setting.variable} = {shown_value(settings, setting.name)}")
        typer.echo(f"    {setting.meaning} ({setting.kind}; default: {setting.default})")


def migrate() -> None:
    """Upgrade the database to the schema of this version."""
    from app.store import schema

    try:
        schema.migrate(settings_with().database_url)
    except schema.SchemaError as error:
        fail(str(error))
    typer.echo("The database is at the schema of this version.")


def demo() -> None:
    """Upload real data, fit a model and predict with intervals, through HTTP, in a temporary folder."""
    from app.cli.demo import run_demo
    from app.client import ClientError

    try:
        run_demo()
    except ClientError as error:
        fail(str(error))


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
    """Print the URL of the service once it accepts work."""
    import httpx

    address = f"http://{settings.host}:{settings.port}"

    def wait() -> None:
        client = httpx.Client(timeout=2.0)  # one for all: to make one takes longer than to ask
        while not stopping.is_set():
            try:
                if client.get(f"{address}/health/ready").is_success:
                    typer.echo(
                        f"bartserve is ready on {address} (data in {settings.data_dir}); Ctrl-C stops it."
                    )
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)

    threading.Thread(target=wait, name="announce", daemon=True).start()
