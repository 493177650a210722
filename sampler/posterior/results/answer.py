"""Common abilities of answers: tables by name, data frames, charts and notebook cards.

Charts and cards are named rather than imported, as engines are: an answer is plain data, and what draws it
loads when it is drawn.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import resolve_name
from typing import Any, ClassVar


def to_pandas(named: Any, labels: Any = None) -> Any:
    """Make a data frame of columns by name with these row labels; raise ImportError without pandas."""
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise ImportError("to_pandas() needs pandas, which is not installed: pip install pandas") from None
    return pandas.DataFrame(dict(named), index=labels)


def draw(place: str, *arguments: Any, **options: Any) -> Any:
    """Call a chart, "module:function" below `sampler.posterior.charts`, with an answer and its options."""
    return resolve_name(f"sampler.posterior.charts.{place}")(*arguments, **options)


def plot(place: str, ax: Any, *results: Any) -> Any:
    """Draw a chart, named as `draw` takes it, of these results on `ax`, or on a new figure for None."""
    return draw(place, draw("style:ChartStyle", ax=ax), *results)


class Answer:
    """An answer of a posterior that is a table, a chart and a card in a notebook as well.

    Attributes
    ----------
    card, text
        Functions that show it in HTML and print it in about ten lines, as `draw` takes them.

    """

    card: ClassVar[str] = "cards:answer_card"
    text: ClassVar[str] = "cards:answer_text"

    def __repr__(self) -> str:
        text: str = draw(self.text, self)
        return text

    def _repr_html_(self) -> str:
        html: str = draw(self.card, self)
        return html

    def columns(self) -> dict[str, Any]:
        """Arrange the answer as columns by name."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return the columns as a pandas data frame; raise ImportError where pandas is absent."""
        return to_pandas(self.columns())


class RowAnswer(Answer):
    """An answer of which each row belongs to a row that was asked about, whose label it keeps."""

    labels: Any

    def to_pandas(self) -> Any:
        """Return the columns as a pandas data frame with the labels of the rows, if they have any."""
        return to_pandas(self.columns(), self.labels)
