"""Consoles of the commands, which show every text as it is, and tables on them."""

import sys
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 250  # characters: keeps rows on one line for other programs


def make_console(*, stderr: bool = False) -> Console:
    """Make a console for lines, which wrap nowhere; names of users with brackets are no markup."""
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)


err = make_console(stderr=True)
out = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)


def make_table(*names: str) -> Table:
    """Make a table with such columns; ids are never wrapped."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    return table


def print_table(table: Table, instead: str) -> None:
    """Print a table on stdout, or a sentence where it has no rows."""
    out.print(table if table.row_count else instead)


def ago(moment: str) -> str:
    """Return the time since a moment in one unit."""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(0, seconds):.0f} s ago"
