"""The document of a model card: sections of sentences, tables and pictures, in Markdown and as a page.

`ModelCard.to_html` writes a document that prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 48em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.15em; margin-top: 1.6em; border-bottom: 1px solid #c9d0d4 }
table { border-collapse: collapse; margin: .6em 0 } th { text-align: left; font-weight: 600 }
td, th { padding: .15em .9em .15em 0; vertical-align: top } tr, figure { break-inside: avoid }
h2 { break-after: avoid } figure { margin: .6em 0 } figure svg { max-width: 100%; height: auto }
.pictures { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 0 1.5em }
@page { margin: 14mm }
@media print {
  body { margin: 0; max-width: none; padding: 0; font: 10.5px/1.4 system-ui, sans-serif }
  h2 { margin-top: 1em } p { margin: .4em 0 }
}
"""


@dataclass(frozen=True)
class CardTable:
    """A table of a card: heads, and rows of cells."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Section:
    """A section of a card.

    Attributes
    ----------
    title
        Its heading.
    sentences
        Paragraphs, before the tables.
    tables
        Tables.
    pictured
        Tables whose figures the pictures show: in Markdown, and where there are no pictures.
    pictures
        Charts as SVG, in the HTML form alone.

    """

    title: str
    sentences: list[str] = field(default_factory=list)
    tables: list[CardTable] = field(default_factory=list)
    pictured: list[CardTable] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ModelCard:
    """One page about a model; notebooks show it."""

    title: str
    sections: list[Section]

    def to_markdown(self) -> str:
        """Write the card in Markdown, without its pictures."""
        parts = [f"# {_marked(self.title)}"]
        for section in self.sections:
            parts.append(f"## {_marked(section.title)}")
            parts += map(_marked, section.sentences)
            for table in (*section.tables, *section.pictured):
                lines = [table.heads, ("---",) * len(table.heads), *table.rows]
                parts.append("\n".join(f"| {' | '.join(map(_marked, line))} |" for line in lines))
        return "\n\n".join(parts) + "\n"

    def to_html(self) -> str:
        """Write the card as an HTML document that needs no other file and prints."""
        body = "".join(map(_section, self.sections))
        head = f'<meta charset="utf-8"><title>{escape(self.title)}</title><style>{STYLE}</style>'
        return (
            f'<!doctype html><html lang="en"><head>{head}</head>'
            f"<body><h1>{escape(self.title)}</h1>{body}</body></html>\n"
        )

    def _repr_html_(self) -> str:
        return f"<h1>{escape(self.title)}</h1>{''.join(map(_section, self.sections))}"

    def __str__(self) -> str:
        return self.to_markdown()


def _marked(text: str) -> str:
    """Escape what Markdown would read as marks, and keep a cell on its line."""
    text = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\`*_|<>[]#" else letter for letter in text)


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(sentence)}</p>" for sentence in section.sentences]
    parts += map(_table, section.tables)
    if section.pictures:
        parts += [
            '<div class="pictures">',
            *(f"<figure>{each}</figure>" for each in section.pictures),
            "</div>",
        ]
    else:
        parts += map(_table, section.pictured)
    return f"<section>{''.join(parts)}</section>"


def _table(table: CardTable) -> str:
    head = _row("th", table.heads) if any(table.heads) else ""
    return f"<table>{head}{''.join(_row('td', row) for row in table.rows)}</table>"


def _row(tag: str, cells: Sequence[str] | Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
