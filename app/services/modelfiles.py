"""Models that travel: a fitted one as the file that `sampler.load` reads, and such a file as a model."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services import audit, models, quotas
from app.services.errors import InvalidRequestError, NotFoundError
from app.services.explanations import check_succeeded
from app.services.fits import MAX_SAID, check_model_name
from app.services.predictions import DamagedError, find
from app.store import draws, imports
from app.store import models as store
from app.store.draws import Block
from app.store.engine import session_scope
from app.store.errors import CorruptBlockError, ModelGoneError
from app.store.tables import Unit
from sampler import PackedError, warm
from sampler.contents import Contents, read_contents
from sampler.modelfile import MEDIA_TYPE, write_model
from sampler.settings import Settings

__all__ = ["MAX_BYTES", "MEDIA_TYPE", "UnusableModelError", "accept", "file_of"]

MAX_BYTES = 128 * 1024 * 1024  # of a file that is taken: some forty default models


class UnusableModelError(InvalidRequestError):
    """What was sent is no model file, or one that this version can't use."""

    slug, title = "unusable-model", "The model file can't be used"


def file_of(engine: Engine, owner: str, model: str) -> tuple[str, bytes]:
    """The id of a finished model, and its file.

    Parameters
    ----------
    model
        Its id, or a name: then the newest succeeded one of it.

    Raises
    ------
    NotFoundError, NotFinishedError
        There is no such model; it has not finished.
    DamagedError
        What was stored can't be read back.
    """
    with session_scope(engine, read_only=True) as session:
        found = find(session, owner, model)
        check_succeeded(found)
        header = store.header(session, found.id)
        chains = store.chains(session, [found.id])[found.id]
        try:
            blocks = draws.read(session, found.id)
        except CorruptBlockError as error:
            raise DamagedError(str(error)) from error
        except ModelGoneError as error:
            raise NotFoundError(str(error)) from None
    assert header is not None, "a model that has succeeded has its header"
    return found.id, write_model(header, _of_every_chain(chains, blocks), _statistics(chains))


def _of_every_chain(chains: Sequence[Unit], blocks: Sequence[list[bytes]]) -> list[list[bytes]]:
    """The blocks by chain, none for one that kept no draw, which the store doesn't list."""
    drawn = iter(blocks)
    return [next(drawn) if chain.num_draws else [] for chain in chains]


def _statistics(chains: Sequence[Unit]) -> list[dict[str, Any]]:
    if all(chain.statistics is None for chain in chains):
        return []
    return [chain.statistics or {} for chain in chains]


def accept(
    engine: Engine,
    owner: str,
    data: bytes,
    name: str | None = None,
    also: Callable[[Session, dict[str, Any]], None] = lambda _session, _shown: None,
) -> dict[str, Any]:
    """Make a model file a finished model; gives it as `models.view` shows it.

    The verdict is not believed but found anew. `also` is done in the transaction of the new model.

    Raises
    ------
    UnusableModelError
        The file is damaged, foreign, newer, or too large once it is unpacked.
    InvalidRequestError
        No model can have that name.
    """
    name = None if name is None else check_model_name(name)
    warm("prediction")
    try:
        contents = read_contents(data)
    except PackedError as error:
        raise UnusableModelError(f"{str(error)[:MAX_SAID]}.".capitalize()) from None
    imported = _imported(contents, name)
    with session_scope(engine) as session:
        size = sum(len(block.data) for chain in imported.chains for block in chain.blocks)
        quotas.check_stored(session, owner, size)
        model = imports.add(session, owner, imported)
        audit.record(session, owner, "model.imported", model.id)
        shown = models.view(session, owner, model.id)
        also(session, shown)
    return shown


def _imported(contents: Contents, name: str | None) -> imports.Imported:
    posterior = contents.posterior
    settings = Settings.from_json(posterior.settings)
    summary = posterior.summary()
    columns = posterior.schema.columns
    statistics: list[dict[str, Any] | None] = [*contents.statistics] or [None] * len(contents.chains)
    return imports.Imported(
        name=name,
        target=posterior.schema.target.name,
        settings=settings.to_json()
        | {
            "features": [column.name for column in columns],
            "columns": {column.name: column.kind for column in columns},
            "constants": posterior.constants,
        },
        header=contents.header,
        chains=[
            imports.Chain(_numbered(chain), of_chain)
            for chain, of_chain in zip(contents.chains, statistics, strict=True)
        ],
        verdict=summary.verdict,
        diagnostics=summary.to_json(),
        warnings=posterior.warnings,
        iterations=settings.iterations,
    )


def _numbered(chain: Sequence[Any]) -> list[Block]:
    found, first = [], 0
    for seq, block in enumerate(chain):
        found.append(Block(seq, first, block.num_draws, block.data))
        first += block.num_draws
    return found
