"""Model files: export of a fitted model as a file that `bartserve.load` reads, and import."""

from collections.abc import Sequence
from typing import Any, BinaryIO

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.access import audit, quotas
from app.services.errors import NotFoundError, UnusableModelError
from app.services.explanations.guard import check_succeeded
from app.services.fits import models
from app.services.fits.request_checks import check_model_name
from app.services.predictions.posteriors import DamagedError, find
from app.services.readers.options import ReaderLimits
from app.services.readers.process.confined import model_readers
from app.store import draws, imported_models
from app.store import models as store
from app.store.draws import StoredBlock
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, ModelGoneError
from app.store.imported_models import Imported, ImportedChain
from app.store.tables import Unit
from sampler.host.forecasts import with_models
from sampler.host.storage import MEDIA_TYPE, write_model

__all__ = ["MAX_BYTES", "MEDIA_TYPE", "UnusableModelError", "add", "file_of", "read"]

MAX_BYTES = 128 * 1024 * 1024  # largest imported file: about forty default models
LIMITS = ReaderLimits(seconds=60)  # 512 MiB suffice for the largest accepted number of nodes


def file_of(engine: Engine, owner: str, model: str) -> tuple[str, bytes]:
    """Return the id of a finished model, and its model file.

    Parameters
    ----------
    model
        Its id, or a name, which means its newest that has succeeded.

    Raises
    ------
    NotFoundError, NotFinishedError
        The model doesn't exist, or has not finished.
    DamagedError
        The stored model can't be read back.
    """
    with session_scope(engine, read_only=True) as session:
        stored = find(session, owner, model, forecasters=True)
        check_succeeded(stored)
        chains = store.chains(session, [stored.id])[stored.id]
        try:
            if stored.settings.get("time"):
                header, models_ = draws.read_forecaster(session, stored.id)
                assert header is not None, "a model that has succeeded has its header"
                return stored.id, with_models(header, models_)
            header = store.header(session, stored.id)
            blocks = draws.read(session, stored.id)
        except CorruptBlockError as error:
            raise DamagedError(str(error)) from error
        except ModelGoneError as error:
            raise NotFoundError(str(error)) from None
    assert header is not None, "a model that has succeeded has its header"
    return stored.id, write_model(header, _of_every_chain(chains, blocks), _statistics(chains))


def _of_every_chain(chains: Sequence[Unit], blocks: Sequence[list[bytes]]) -> list[list[bytes]]:
    """Return the blocks by chain; empty for chains without draws, which the store doesn't list."""
    drawn = iter(blocks)
    return [next(drawn) if chain.num_draws else [] for chain in chains]


def _statistics(chains: Sequence[Unit]) -> list[dict[str, Any]]:
    if all(chain.statistics is None for chain in chains):
        return []
    return [chain.statistics or {} for chain in chains]


def read(file: BinaryIO, name: str | None = None) -> Imported:
    """Read a model file from its beginning in a process of its own, with limited memory and time.

    Raises
    ------
    UnusableModelError
        The file is damaged, foreign, of a newer version, or too large once unpacked.
    InvalidRequestError
        The model name is invalid.
    BusyError
        Too many files are being read.
    """
    name = None if name is None else check_model_name(name)
    report, parts = model_readers.run("model", file, LIMITS, {})
    with parts:
        return _imported(report, parts, name)


def add(session: Session, owner: str, imported: Imported) -> models.ModelView:
    """Store an imported model as a finished one and return it.

    Raises
    ------
    QuotaError
        It exceeds the owner's quota.
    """
    size = sum(len(block.data) for chain in imported.chains for block in chain.blocks)
    quotas.check_stored(session, owner, len(imported.header) + size)
    model = imported_models.add(session, owner, imported)
    audit.record(session, owner, "model.imported", model.id)
    return models.view(session, owner, model.id)


def _imported(report: dict[str, Any], parts: BinaryIO, name: str | None) -> Imported:
    header = parts.read(report["header"])
    statistics: list[dict[str, Any] | None] = report["statistics"] or [None] * len(report["chains"])
    beside = ("target", "settings", "verdict", "diagnostics", "calibration", "warnings", "iterations")
    return Imported(
        name=name,
        header=header,
        chains=[
            ImportedChain(_blocks(sizes, parts), of_chain)
            for sizes, of_chain in zip(report["chains"], statistics, strict=True)
        ],
        **{field: report[field] for field in beside},
    )


def _blocks(sizes: Sequence[tuple[int, int]], parts: BinaryIO) -> list[StoredBlock]:
    """Read a chain's blocks, given the number of draws and the length of each."""
    blocks, first = [], 0
    for seq, (num_draws, length) in enumerate(sizes):
        blocks.append(StoredBlock(seq, first, num_draws, parts.read(length)))
        first += num_draws
    return blocks
