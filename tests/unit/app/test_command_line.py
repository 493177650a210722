"""The command line's own options, exit codes, JSON and progress, without a service."""

import io
import itertools
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import typer
from rich.console import Console
from typer.core import TyperOption
from typer.testing import CliRunner

from app.cli import MODULES, app, progress
from app.cli.common import listed
from app.cli.fit_predict import _forecast
from app.cli.progress import bars
from app.client.views import Chain
from app.store import schema
from bartserve import __version__


def run(*words: str):
    """Run the command and return its result."""
    return CliRunner().invoke(app, list(words), prog_name="bartserve", env={"COLUMNS": "160", "TERM": "dumb"})


def test_version_help_and_completion():
    """`--version` is the distribution's; `-h` works at every level; no command asks for help."""
    assert run("--version").stdout == f"bartserve {__version__}\n"
    assert run().exit_code == 0
    page = run("-h").stdout
    assert run().stdout == page == run("--help").stdout
    for words in (("fit",), ("models",), ("models", "show"), ("keys", "list")):
        assert run(*words, "-h").exit_code == 0, words
    assert "--install-completion" in page
    assert "--show-completion" in page


def test_commands_are_made_when_they_are_looked_up():
    """Every command is found in the module that is named for it, and no module has others."""
    group = typer.main.get_group(app)
    assert not any(group.commands.values())
    assert [group.get_command(None, name).name for name in MODULES] == [*MODULES]
    assert [*group.commands] == [*MODULES]


def test_a_health_check_imports_little():
    """Containers run it every few seconds: it took a second of a processor."""
    code = (
        "import sys; from app.cli import app\n"
        "app(['check', 'api', '--port', '1'], standalone_mode=False)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "The API on 127.0.0.1:1 does not respond" in asked.stderr
    heavy = {"sqlalchemy", "pydantic", "httpx", "numpy", "pyarrow", "numba", "fastapi", "rich"}
    assert not heavy & set(asked.stdout.split())


def _options(command, *path):
    """All options of a command and its own, with its words."""
    for each in command.params:
        if isinstance(each, TyperOption):
            yield " ".join([*path, each.name]), each
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from _options(command.get_command(None, name), *path, name)


def test_options_with_several_values_take_all_of_them():
    """An option that takes commas or is called repeatable keeps every value, however it is given."""
    several = re.compile("separated by commas|repeatable", re.IGNORECASE)
    found = {
        name: each for name, each in _options(typer.main.get_group(app)) if several.search(each.help or "")
    }
    assert {"fit known", "fit features", "fit season", "survival times", "forecast series"} <= found.keys()
    assert [name for name, each in found.items() if not each.multiple and each.nargs == 1] == []
    columns = [name for name, each in _options(typer.main.get_group(app)) if each.metavar == "COLUMNS"]
    assert {*columns} <= found.keys()
    assert listed(["a, b", "c", ""]) == ["a", "b", "c"]
    assert _forecast({"known": ["a,b", "c"], "season": ["7", "365"]}, None) == {
        "known": ["a", "b", "c"],
        "season": [7, 365],
    }


def test_exit_codes_are_those_of_the_help(tmp_path, monkeypatch):
    """0 done, 1 refused, 2 a wrong command line."""
    page = run("--help").stdout
    codes = dict(re.findall(r"^\W*(\d+)  +(\w+)", page, re.MULTILINE))
    assert set(codes) == {"0", "1", "2", "130"}
    assert run("config").exit_code == 0
    assert run("models", "--url", "http://127.0.0.1:9").exit_code == 1
    monkeypatch.setenv("BARTSERVE_WORKER_SLOTS", "abc")
    assert run("config").exit_code == 1
    for words in (["modles"], ["fit", "x.csv"], ["models", "--limit", "none"], ["models", "--wrong"]):
        assert run(*words).exit_code == 2, words


def test_keys_and_settings_as_json(tmp_path, monkeypatch):
    """Tables that need no service are JSON on request, secrets masked."""
    url = f"sqlite:///{tmp_path / 'keys.db'}"
    monkeypatch.setenv("BARTSERVE_DATABASE_URL", url)
    schema.migrate(url)
    made = run("keys", "create", "--name", "ann", "--expires", "90d")
    assert "--owner ann" in made.stderr, "whose objects it shares"
    (key,) = json.loads(run("keys", "list", "--json").stdout)
    assert (key["name"], key["state"], key["last_used_at"]) == ("ann", "in force", None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", key["expires_at"])
    head, row = run("keys", "list").stdout.splitlines()
    assert head.split() == ["id", "name", "owner", "scopes", "state", "ends", "used"]
    assert row.split()[1] == "ann"
    monkeypatch.setenv("BARTSERVE_DATABASE_URL", "postgresql://me:s3cret@db/x")
    settings = run("config", "--json").stdout
    assert "s3cret" not in settings
    assert {"name", "variable", "value", "default", "meaning"} <= json.loads(settings)[0].keys()


def test_every_command_with_a_table_has_json():
    """Commands that print a table or a report name --json in their help."""
    reports = [["fit"], ["predict"], ["config"], ["keys", "list"], ["models"], ["datasets"]]
    reports += [["models", name] for name in ("show", "cancel", "retry", "extend", "select")]
    reports += [["datasets", name] for name in ("show", "upload")]
    assert [words for words in reports if "--json" not in run(*words, "-h").stdout] == []


def model(phase: str | None, state: str = "running", iteration: int = 0, **more) -> SimpleNamespace:
    """A model with one chain."""
    chain = Chain(0, state, phase, iteration, 100)
    usual = {"is_open": True, "fraction": iteration / 100, "eta_seconds": None, "settings": {"holdout": 0.2}}
    usual["document"] = {"progress": {}}
    return SimpleNamespace(chains=[chain], **usual | more)


@pytest.mark.parametrize("terminal", [False, True])
def test_every_stage_of_a_fit_is_said(terminal):
    """Compiling, sampling and the time until the verdict; in a pipe as they come, each in a line."""
    sink = io.StringIO()
    console = Console(file=sink, force_terminal=terminal, width=120, _environ=dict(os.environ, TERM="xterm"))
    with bars(console) as show:
        for seen in (
            model(None, "queued"),
            model("compiling", iteration=3),
            model("sampling", iteration=40, eta_seconds=20.0),
            model("sampling", iteration=60, eta_seconds=10.0),
            model(None, "done", 100),
            model(None, "done", 100, document={"progress": {"step": "recalibrating"}}),
        ):
            show(seen)
            show._progress.refresh()
        before_the_end = sink.getvalue()
        show(model(None, "done", 100, is_open=False))
    assert "compiling, once (3 of 100)" in before_the_end
    assert "judging whether the chains agree; scoring the held-out rows" in before_the_end
    lines = [line.split("  ", 1)[1] for line in sink.getvalue().splitlines() if line.startswith("progress")]
    if terminal:
        assert lines == []
        return
    assert lines == [
        "waiting for a worker",
        "compiling, once (3 of 100)",
        "sampling (40%), about 20 s left",
        "judging whether the chains agree; scoring the held-out rows",
        "making intervals hold by held-out rows",
    ]
    assert "finish" not in sink.getvalue().partition("chain 1")[2]


def test_a_long_stage_is_said_every_few_seconds_in_a_pipe(monkeypatch):
    """While kernels compile for a minute, a pipe gets a line with their number every five seconds."""
    clock, sink = [1000.0], io.StringIO()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with bars(Console(file=sink, width=120)) as show:
        for second in range(60):
            clock[0] += 1
            show(model("compiling", iteration=second))
    counts = [int(number) for number in re.findall(r"compiling, once \((\d+) of 100\)", sink.getvalue())]
    assert max(later - earlier for earlier, later in itertools.pairwise([*counts, 60])) <= 5
