"""`bartserve keys`: API keys for a service that is not on loopback. It needs only the database."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.cli.common import AsJson, fail, print_json, settings_with
from app.cli.output import make_table, out
from app.services.access import keys as service
from app.services.errors import ServiceError
from app.store.engine import make_engine, session_scope

HEADS = ("id", "name", "owner", "scopes", "state", "ends", "used")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
KEEP = "Keep it: it is not shown again. Send it in the header  Authorization: Bearer KEY"

app = typer.Typer(
    no_args_is_help=True,
    help="""Manage API keys for a service that is not on loopback.

They are in the service's database (BARTSERVE_DATABASE_URL); on loopback no key is required.

\b
Examples
  bartserve keys create --name ann --owner research
  bartserve keys create --name shop --owner research --scope predict --expires 90d
  bartserve keys list
  bartserve keys rotate shop --overlap 24h
  bartserve keys revoke shop
""",
)


def _duration(text: str) -> timedelta:
    form = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip())
    if form is None:
        raise typer.BadParameter("write a number and a unit: 45s, 30m, 24h, 90d or 2w")
    return timedelta(seconds=int(form[1]) * UNITS[form[2]])


NameOrId = Annotated[str, typer.Argument(metavar="NAME", help="The key's name, or its id.")]


@app.command("create")
def create_key(
    name: Annotated[str, typer.Option(help="The name of the key.")],
    owner: Annotated[
        str | None,
        typer.Option(help="The owner: keys of one owner share all objects, no others. Default: the name."),
    ] = None,
    scope: Annotated[
        list[str],
        typer.Option(
            help="A permission of the key; repeatable. "
            + "; ".join(f"{name}: {about}" for name, about in service.SCOPES.items()),
        ),
    ] = list(service.USUAL),  # noqa: B006  typer copies it
    expires: Annotated[
        timedelta | None,
        typer.Option(parser=_duration, help="The lifetime of the key, such as 90d; default: unlimited."),
    ] = None,
) -> None:
    """Create a key and show it once."""
    with _session() as session:
        new = service.create(session, name=name, owner=owner, scopes=scope, lasts=expires)
    _show(new)
    if owner is None:
        typer.echo(
            f"Its owner is {name}, like its name: it shares datasets and models with other keys of "
            f"that owner alone (--owner {name}).",
            err=True,
        )


@app.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys: id, name, owner, scopes, state, expiry, last use (to the hour)."""
    with _session() as session:
        keys = [(key, service.state_of(key)) for key in service.list_keys(session)]
        if as_json:
            names = ("id", "name", "owner", "scopes", "expires_at", "last_used_at")
            print_json(
                [{name: getattr(key, name) for name in names} | {"state": state} for key, state in keys]
            )
            return
        table = make_table(*HEADS)
        for key, state in keys:
            ends = "" if key.expires_at is None else _minute(key.expires_at)
            used = "never" if key.last_used_at is None else _minute(key.last_used_at)
            table.add_row(key.id, key.name, key.owner, ",".join(key.scopes), state, ends, used)
    out.print(table)


@app.command("rotate")
def rotate_key(
    name: NameOrId,
    overlap: Annotated[
        timedelta, typer.Option(parser=_duration, help="How long the old key stays valid.")
    ] = "24h",  # type: ignore[assignment]  # noqa: RUF100  typer parses defaults too
) -> None:
    """Create a replacement for a key, which expires after the overlap; show the new one once."""
    with _session() as session:
        new = service.rotate(session, name, overlap)
    _show(new)


@app.command("revoke")
def revoke_key(name: NameOrId) -> None:
    """Revoke a key, or all keys with a name, at once."""
    with _session() as session:
        ended = service.revoke(session, name)
    typer.echo(f"Revoked: {', '.join(ended)}.")


@contextmanager
def _session() -> Iterator[Session]:
    """Open a session on the database of the settings; errors end the command with a message."""
    engine = make_engine(settings_with().database_url)
    try:
        with session_scope(engine) as session:
            yield session
    except ServiceError as error:
        fail(str(error))
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
        fail(f"The database can't be used ({reason}): check BARTSERVE_DATABASE_URL, or `bartserve migrate`.")
    finally:
        engine.dispose()


def _show(new: service.NewKey) -> None:
    typer.echo(new.secret)
    typer.echo(KEEP, err=True)


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
