"""Parts of an answer about effects as tables, for data frames and papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampler.data.scalars import number_to_text
from sampler.posterior.results.answer import Answer


@dataclass(frozen=True, repr=False)
class EffectsTable(Answer):
    """Part of an answer about effects, a line each: a data frame by `to_pandas`, or text for a paper."""

    named: dict[str, list[Any]]

    def columns(self) -> dict[str, Any]:
        """Arrange it by name."""
        return self.named

    def _lines(self) -> list[list[str]]:
        """Return the heads and the cells of each line as text: figures with three digits."""
        cells = zip(*self.named.values(), strict=True)
        heads = [name.replace("_", " ") for name in self.named]
        return [heads, *([_cell(value) for value in line] for line in cells)]

    def _places(self, words: str, figures: str) -> list[str]:
        """Return how each column is set: as words or as figures."""
        return [
            words if any(isinstance(each, str) for each in own) else figures for own in self.named.values()
        ]

    def to_markdown(self) -> str:
        """Write it as a table of Markdown."""
        heads, *lines = ([cell.replace("|", "\\|") for cell in line] for line in self._lines())
        rule = self._places("---", "---:")
        return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))

    def to_latex(self) -> str:
        """Write it as a tabular of LaTeX with the rules of booktabs."""
        heads, *lines = (" & ".join(map(_escaped, line)) + r" \\" for line in self._lines())
        places = "".join(self._places("l", "r"))
        top, end = rf"\begin{{tabular}}{{{places}}}" + "\n\\toprule", "\\bottomrule\n\\end{tabular}"
        return "\n".join([top, heads, r"\midrule", *lines, end])


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return "not yet" if value == "not_yet" else value
    return "" if value is None else str(value) if isinstance(value, int) else number_to_text(value, 3)


LATEX = {each: f"\\{each}" for each in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\u2212": "$-$",
    "\u202f": r"\,",
}  # fmt: skip


def _escaped(text: str) -> str:
    """Escape what is special to LaTeX."""
    return "".join(LATEX.get(each, each) for each in text)
