"""`bartserve keys`: who may use a service that is not on loopback. Needs only the database."""

from typing import Annotated

import typer

from app.cli.common import fail
from app.settings import Settings

app = typer.Typer(no_args_is_help=True, help="API keys: who may use a service that is not on loopback.")


@app.command("create")
def create_key(name: Annotated[str, typer.Option(help="Whose key it is.")]) -> None:
    """Make a key and show it, this once."""
    from app.services import keys as service
    from app.store.engine import make_engine, session_scope

    with session_scope(make_engine(Settings().database_url)) as session:
        made = service.create(session, name=name)
    typer.echo(made.secret)
    typer.echo("Keep it: it is not shown again. Send it as the header  Authorization: Bearer KEY", err=True)


@app.command("list")
def list_keys() -> None:
    """Show the keys: id, name, state."""
    from app.services import keys as service
    from app.store.engine import make_engine, session_scope

    with session_scope(make_engine(Settings().database_url)) as session:
        for key in service.list_keys(session):
            typer.echo(f"{key.id}  {key.name}  {'revoked' if key.revoked_at else 'in force'}")


@app.command("revoke")
def revoke_key(key_id: str) -> None:
    """End a key at once."""
    from app.services import keys as service
    from app.services.errors import ServiceError
    from app.store.engine import make_engine, session_scope

    try:
        with session_scope(make_engine(Settings().database_url)) as session:
            service.revoke(session, key_id)
    except ServiceError as error:
        fail(str(error))
    typer.echo(f"{key_id} is revoked.")
