"""Values that mean missing: texts by their spelling, numbers by their value."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from app.services.readers.options import Options
from sampler.host.data import PLAIN

# A text that has the value of a number; "01" has none, since codes of a category may have leading zeros.
_NUMBER = r"^[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?$"
_DOUBTFUL = r"^[+-]?[1-9]\d{0,2}\.\d{3}$"  # the point may separate thousands
# Words that people write for "not known", in lower case, without points at the end.
_WORDS = (
    "n.a|k.a|k. a|n. a|n/d|n.d|s/d|n.c|n.v|n/v|missing|unknown|not available|not applicable|not known|"
    "no data|no answer|keine angabe|unbekannt|fehlt|inconnu|non disponible|desconocido|sconosciuto|onbekend|"
    "brak danych"
)
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


def is_word_for_missing(text: str) -> bool:
    """Tell whether a text can only mean that a value is not known, as an error of a spreadsheet does."""
    return text.startswith("#") or text.strip(" .").lower() in _WORDS.split("|")


@dataclass(frozen=True)
class MissingValues:
    """Values of a column that mean missing.

    `spellings` are in lower case and match in any case, `codes` match as they are. Numbers among both match
    every number of their value: -999 is missing as -999.0 and -9.99e2 too.
    """

    spellings: Collection[str]
    codes: Collection[str] = ()

    @classmethod
    def of(cls, options: Options, name: str) -> "MissingValues":
        """Return the values that mean missing in the column of that name."""
        return cls(options.spellings, options.codes.get(name, ()))

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """Spellings of numbers."""
        return tuple(text for text in (*sorted(self.spellings), *self.codes) if PLAIN.fullmatch(text))

    def among(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Tell which cells mean missing."""
        if pa.types.is_string(column.type):
            return self._among_texts(column)
        if self.numbers and any(is_(column.type) for is_ in _NUMBERS):
            return self._among_numbers(column)
        return pa.scalar(value=False)

    def removed(self, column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Counter[str]]:
        """Return a column with null for cells that mean missing, and the count of each spelling of them.

        Numbers count as they are spelled here, not in the file.
        """
        gone = self.among(column)
        if not pc.any(gone, min_count=0).as_py():
            return column, Counter()
        counted = pc.value_counts(column.filter(gone)).to_pylist()
        spelling = {float(number): number for number in self.numbers}
        spelled: Counter[str] = Counter()
        for entry in counted:
            value = entry["values"]
            spelled[value if isinstance(value, str) else spelling[float(value)]] += entry["counts"]
        return pc.if_else(gone, pa.scalar(None, column.type), column), spelled

    def _among_texts(self, text: pa.ChunkedArray) -> pa.ChunkedArray:
        text = pc.utf8_trim_whitespace(text)
        gone = pc.is_in(pc.utf8_lower(text), value_set=pa.array(sorted(self.spellings), pa.string()))
        if self.codes:
            gone = pc.or_(gone, pc.is_in(text, value_set=pa.array(list(self.codes), pa.string())))
        if not self.numbers:
            return gone
        plain = pc.and_not(pc.match_substring_regex(text, _NUMBER), pc.match_substring_regex(text, _DOUBTFUL))
        values = pc.cast(pc.if_else(plain, text, pa.scalar(None, pa.string())), pa.float64())
        return pc.or_(gone, self._among_numbers(values))

    def _among_numbers(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not pa.types.is_integer(column.type):
            known = pa.array([float(number) + 0.0 for number in self.numbers], pa.float64())
            return pc.is_in(pc.add(column.cast(pa.float64()), 0.0), value_set=known)  # -0.0 is 0
        unsigned = pa.types.is_unsigned_integer(column.type)
        low, high = (0, (1 << 64) - 1) if unsigned else (-(1 << 63), (1 << 63) - 1)
        exact = (Decimal(number) for number in self.numbers)
        whole = [int(number) for number in exact if low <= number <= high and number == int(number)]
        wide = pa.uint64() if unsigned else pa.int64()
        return pc.is_in(column.cast(wide), value_set=pa.array(whole, wide))
