"""Names of groups of rows, stored as one text."""

from sampler.host.data import GroupKey

BETWEEN = "\x1f"  # values of several columns: the unit separator, which no value has


def to_text(group: GroupKey) -> str:
    """Join the values that tell a group."""
    return group if isinstance(group, str) else BETWEEN.join(group)


def values_of(text: str) -> list[str]:
    """Return the values that tell a group, by column."""
    return text.split(BETWEEN)


def in_words(text: str) -> str:
    """Return a group's name for people."""
    return ", ".join(values_of(text))
