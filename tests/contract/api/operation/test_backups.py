"""Backups made by the commands of docs/deploy.md restore an equal service."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import make_url

from app.settings import Settings
from app.store import schema
from app.store.engine import make_engine
from tests.support.api_calls import post_csv, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted, run_units
from tests.support.models.partial_chains import give_back, take_chains
from tests.support.processes import plain_http
from tests.support.processes.api_server import serving
from tests.support.processes.servers import Postgres, postgres_program

OLDER = "0012"  # a revision whose tables those of later ones refer to
DEPLOY = Path(__file__).parents[4] / "docs" / "deploy.md"
BLOCKS = re.findall(r"^```bash\n(.*?)\n```", DEPLOY.read_text(), re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
INSIDE = "docker compose exec -T postgres "  # what the command runs in, with containers


@pytest.fixture
def restored(request, database, settings: Settings, tmp_path) -> Iterator["Backup"]:
    """Return the backup commands for the test's database, and the place of the restored one."""
    if database.dialect == "sqlite":
        yield OfSqlite(settings, tmp_path / "new")
    else:
        server: Postgres = request.getfixturevalue("postgres_server")
        url = server.create()
        yield OfPostgres(settings, tmp_path, url)
        server.drop(url)


class Backup:
    """A backup of a service's database and a new service restored from it."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder
        folder.mkdir(exist_ok=True)

    def take(self) -> None:
        raise NotImplementedError

    def restore(self) -> Settings:
        """The settings of the new service."""
        raise NotImplementedError

    def run(self, command: str, folder: Path, **environment: str) -> None:
        ran = subprocess.run(
            ["bash", "-euc", command],
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr


class OfSqlite(Backup):
    def take(self) -> None:
        if shutil.which("sqlite3") is None:
            pytest.skip("sqlite3 is not on this machine: apt-get install sqlite3")
        database = Path(str(make_url(self.settings.database_url).database))
        (line,) = (line for line in COMMANDS if line.startswith("sqlite3"))
        self.run(line, database.parent)
        shutil.move(database.parent / "copy.db", self.folder / database.name)

    def restore(self) -> Settings:
        url = f"sqlite:///{self.folder / 'bartserve.db'}"
        return self.settings.model_copy(update={"database_url": url, "data_dir": self.folder})


class OfPostgres(Backup):
    def __init__(self, settings: Settings, folder: Path, url: str) -> None:
        super().__init__(settings, folder)
        self.url = url

    def take(self) -> None:
        self._in("pg_dump", self.settings.database_url)

    def restore(self) -> Settings:
        for _ in range(2):  # the second over existing data
            for program in ("dropdb", "createdb", "pg_restore"):
                self._in(program, self.url)
        return self.settings.model_copy(update={"database_url": self.url})

    def _in(self, program: str, url: str) -> None:
        (line,) = (line for line in COMMANDS if program in line)
        assert line.startswith(INSIDE)
        server = make_url(url)
        bare = line.removeprefix(INSIDE).replace("--username bartserve", "--no-password")
        bare = re.sub(r"(?<= )bartserve(?= |$)", str(server.database), bare)
        where = {"PGHOST": server.query.get("host") or server.host, "PGUSER": server.username}
        if server.port:
            where["PGPORT"] = str(server.port)
        if server.password:
            where["PGPASSWORD"] = str(server.password)
        self.run(bare.replace(program, str(postgres_program(program)), 1), self.folder, **where)


@only("postgres")
def test_the_way_back_from_a_newer_version(database, settings, postgres_server, tmp_path):
    """A dump of an older version replaces a newer one's database, which can then be upgraded again."""
    url, newer = postgres_server.create(), postgres_server.create()
    older = OfPostgres(settings.model_copy(update={"database_url": url}), tmp_path, newer)
    migrate(url, OLDER)
    older.take()
    migrate(newer, "head")

    older.restore()

    assert f"at revision {OLDER}" in (schema.mismatch(newer) or "")
    schema.migrate(newer)
    assert schema.mismatch(newer) is None
    for made in (url, newer):
        postgres_server.drop(made)


def migrate(url: str, revision: str) -> None:
    """Upgrade an empty database to a revision."""
    engine = make_engine(url)
    with engine.connect() as connection:
        command.upgrade(schema.config(connection), revision)
        connection.commit()
    engine.dispose()


@pytest.mark.slow
def test_a_restored_service_predicts_the_same_and_continues(client, settings, database, restored):
    """A restored model predicts the same bytes; an unfinished fit ends as the original does."""
    body = {"rows": [{"size": 3.0, "colour": "red"}], "interval": "predictive", "level": [0.5, 0.9]}
    done = fitted(client, settings)["id"]
    dataset = post_csv(client, table(60)).json()["id"]
    open_ = client.post("/models", json={"dataset_id": dataset, "target": "y", "seed": 7} | SMALL).json()[
        "id"
    ]
    give_back(database.engine, take_chains(database.engine, 20, 30))

    restored.take()
    assert run_units(settings) == 3  # two chains to continue, and their end
    first = [client.post(f"/models/{id_}/predict", json=body).json() for id_ in (done, open_)]
    assert client.delete(f"/models/{done}").status_code == 204
    new = restored.restore()

    with serving(new) as address, plain_http.Client(base_url=address, timeout=30) as other:
        assert other.get(f"/models/{open_}").json()["state"] in {"queued", "running"}
        assert run_units(new) == 3
        again = [other.post(f"/models/{id_}/predict", json=body).json() for id_ in (done, open_)]
    assert again == first
