"""Folder of the models of groups: a model file each, and one line of facts in ``models.jsonl``."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sampler.data.table import Table
from sampler.errors import SettingsError
from sampler.many.grouping import GroupKey

INDEX = "models.jsonl"
SHOWN = 40  # characters of a group in the name of its file


@dataclass(frozen=True)
class GroupFacts:
    """Facts about the model of a group.

    Attributes
    ----------
    rows
        Number of training rows.
    verdict
        Verdict of the chains: "converged", "approximate" or "not_converged".
    seconds
        Wall-clock time of the fit.
    warnings
        Warnings about the rows.

    """

    rows: int
    verdict: str
    seconds: float
    warnings: list[str]


@dataclass(frozen=True)
class ModelFolder:
    """Folder with the models of the groups that `by` tells, for one target."""

    path: Path
    by: tuple[str, ...]
    target: str

    @classmethod
    def open(cls, path: str | os.PathLike[str], by: Sequence[str], target: str) -> ModelFolder:
        """Open or make a folder for these models; raise SettingsError where it has others."""
        folder = cls(Path(path), tuple(by), target)
        folder.path.mkdir(parents=True, exist_ok=True)
        if (folder.path / INDEX).exists():
            found = cls.found(path)
            if found != folder:
                raise SettingsError(
                    f"the folder {path} has models of {found.target} by {', '.join(found.by)}: give another",
                    field="folder",
                    code="contradiction",
                )
        else:
            folder._append({"by": folder.by, "target": folder.target})
        return folder

    @classmethod
    def found(cls, path: str | os.PathLike[str]) -> ModelFolder:
        """Open a folder that has models; raise SettingsError for any other."""
        try:
            with (Path(path) / INDEX).open(encoding="utf-8") as lines:
                head = json.loads(next(lines))
            return cls(Path(path), tuple(head["by"]), str(head["target"]))
        except (OSError, StopIteration, ValueError, KeyError, TypeError):
            raise SettingsError(
                f"{path} is no folder of models by group: `fit_many(..., folder=...)` makes one",
                field="folder",
                code="not_accepted",
            ) from None

    def entries(self) -> dict[GroupKey, tuple[Path, str, GroupFacts]]:
        """Return the file, fingerprint and facts of each group's model; of several, the newest.

        Groups are in the order of the table that was fitted last, and others behind.
        """
        found: dict[GroupKey, tuple[Path, str, GroupFacts]] = {}
        order: list[GroupKey] = []
        for line in (self.path / INDEX).read_text(encoding="utf-8").splitlines()[1:]:
            try:
                entry = json.loads(line)
            except ValueError:  # cut off when its writer ended
                continue
            if "order" in entry:
                order = list(map(_key, entry["order"]))
                continue
            file = self.path / entry["file"]
            if file.exists():
                found[_key(entry["group"])] = (file, entry["fingerprint"], GroupFacts(**entry["facts"]))
        return {group: found[group] for group in {**dict.fromkeys(order), **found} if group in found}

    def keep_order(self, groups: Iterable[GroupKey]) -> None:
        """Note the order in which a table has its groups."""
        self._append({"order": list(groups)})

    def keep(self, group: GroupKey, model: bytes, fingerprint: str, facts: GroupFacts) -> Path:
        """Write a model file atomically, then its line; return the file."""
        name = group if isinstance(group, str) else "-".join(group)
        tail = hashlib.sha256(json.dumps(group).encode()).hexdigest()[:12]
        file = self.path / f"{re.sub(r'[^A-Za-z0-9]+', '-', name)[:SHOWN].strip('-')}-{tail}.bart"
        partial = file.with_suffix(f".{os.getpid()}.partial")
        try:
            partial.write_bytes(model)
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
        self._append({
            "group": group, "file": file.name, "fingerprint": fingerprint, "facts": asdict(facts)
        })  # fmt: skip
        return file

    def _append(self, entry: Mapping[str, Any]) -> None:
        with (self.path / INDEX).open("a", encoding="utf-8") as lines:
            before = "\n" if lines.tell() else ""  # the last writer may have ended within its line
            lines.write(before + json.dumps(entry, ensure_ascii=False))


def _key(group: str | list[str]) -> GroupKey:
    return group if isinstance(group, str) else tuple(group)


def fingerprint_of(table: Table, settings: Mapping[str, Any]) -> str:
    """Return a digest of the rows and the settings of a fit, by which a kept model is known as theirs."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for column in map(table.column, table.names):
        digest.update(repr((column.name, column.type, column.levels, len(column))).encode())
        digest.update(repr(column.cells).encode() if column.numbers is None else column.numbers.tobytes())
    return digest.hexdigest()
