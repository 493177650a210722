"""The bound on the work of one explanation: how much is affordable, and the refusal of more."""

from bisect import bisect_right
from collections.abc import Callable

from app.services.errors import TooLargeError
from sampler.posterior.explanations.work import MOST

FEWEST_DRAWS = 200  # of all chains: by fewer an answer isn't given unless they are asked for


def affordable(work_of: Callable[[int], float], most: int) -> int:
    """Return the largest number up to `most` of which the work is within the bound, 0 for none."""
    return bisect_right(range(1, most + 1), MOST, key=work_of)


def check_rows(work_of: Callable[[int], float], rows: int, what: str) -> None:
    """Raise TooLargeError for more rows than are affordable by the work of so many."""
    most = affordable(work_of, rows)
    if most < rows:
        advice = (
            f"send at most {most} of these rows at once, or ask for fewer draws"
            if most
            else "ask for fewer draws"
        )
        raise TooLargeError(f"{what} of {rows} rows are more work than one request may take: {advice}.")
