"""Draw blocks: consecutive kept draws of a chain, packed by the sampler and checksummed here."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from app.store.column_codec import checksum
from app.store.engine import binary_results
from app.store.errors import CorruptBlockError, ModelGoneError
from app.store.tables import NOBODY, DrawBlock, Model


@dataclass(frozen=True)
class StoredBlock:
    """One packed block of a chain. Block boundaries depend only on the settings, never on slices."""

    seq: int
    first_draw: int
    num_draws: int
    data: bytes


def write(session: Session, model_id: str, chain: int, blocks: Sequence[StoredBlock]) -> None:
    """Store blocks of a chain; the first may replace the last stored block, which has grown."""
    if not blocks:
        return
    table = DrawBlock
    grown = delete(table).where(
        table.model_id == model_id, table.chain == chain, table.seq >= min(block.seq for block in blocks)
    )
    session.execute(grown, execution_options={"synchronize_session": False})
    rows = [
        {
            "model_id": model_id,
            "chain": chain,
            "seq": block.seq,
            "first_draw": block.first_draw,
            "num_draws": block.num_draws,
            "data": block.data,
            "checksum": checksum(block.data),
        }
        for block in blocks
    ]
    session.execute(insert(table), rows)


def read(session: Session, model_id: str, num_draws: int | None = None) -> list[list[bytes]]:
    """Return the packed blocks of every chain that has any, in order: `[chain][block]`.

    Parameters
    ----------
    num_draws
        Omit blocks that begin at or after this draw; the last block may still extend beyond it.

    Raises
    ------
    CorruptBlockError
        Stored bytes differ from their checksum.
    ModelGoneError
        The model was deleted before or during the read.
    """
    table = DrawBlock
    query = select(table.chain, table.seq, table.data, table.checksum).where(table.model_id == model_id)
    if num_draws is not None:
        query = query.where(table.first_draw < num_draws)
    chains: dict[int, list[bytes]] = {}
    query = query.order_by(table.chain, table.seq)
    for chain, seq, data, stored in session.execute(query, execution_options=binary_results(session)):
        _verify(model_id, chain, seq, data, stored)
        chains.setdefault(chain, []).append(data)
    # Checked after the blocks, which are deleted in batches: if the model still exists now, all were read.
    if session.scalar(select(Model.owner).where(Model.id == model_id)) in {None, NOBODY}:
        raise ModelGoneError(f"Model {model_id} was deleted.")
    return list(chains.values())


def read_forecaster(session: Session, model_id: str) -> tuple[bytes | None, list[bytes]]:
    """Return the header of a forecaster and the models of its members that it goes with; raises as `read`.

    An extension changes all at once, so a header that is the same after the models is theirs.
    """
    of_model = select(Model.header).where(Model.id == model_id)
    while True:
        header = session.scalar(of_model)
        blocks = [block for (block,) in read(session, model_id)]
        if session.scalar(of_model) == header:
            return header, blocks


def last_block(session: Session, model_id: str, chain: int) -> StoredBlock | None:
    """Return the chain's last block, which may still grow, or None; raises as `read`."""
    query = select(DrawBlock).where(DrawBlock.model_id == model_id, DrawBlock.chain == chain)
    query = query.order_by(DrawBlock.seq.desc()).limit(1)
    row = session.scalar(query, execution_options=binary_results(session))
    if row is None:
        return None
    _verify(model_id, chain, row.seq, row.data, row.checksum)
    return StoredBlock(row.seq, row.first_draw, row.num_draws, row.data)


def num_bytes(session: Session, model_id: str) -> int:
    """Return the stored bytes of all draws of a model."""
    total = func.coalesce(func.sum(func.length(DrawBlock.data)), 0)
    return session.scalar(select(total).where(DrawBlock.model_id == model_id)) or 0


def _verify(model_id: str, chain: int, seq: int, data: bytes, stored: str) -> None:
    if checksum(data) != stored:
        raise CorruptBlockError(f"Model {model_id}: block {seq} of chain {chain} is damaged.")
