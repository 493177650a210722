"""Imported models: fitted elsewhere, stored as if their chains had ended here."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.store import draws, events
from app.store.clock import utc_now
from app.store.draws import StoredBlock
from app.store.queue import lifecycle
from app.store.tables import CHAIN, DONE, SUCCEEDED, Json, Model, new_id


@dataclass(frozen=True)
class ImportedChain:
    """A chain as read from a model file; it may have no kept draws and may lack statistics."""

    blocks: Sequence[StoredBlock]
    statistics: Json | None

    @property
    def num_draws(self) -> int:
        """Number of kept draws."""
        return sum(block.num_draws for block in self.blocks)


@dataclass(frozen=True)
class Imported:
    """All data of an imported model that its rows need."""

    name: str | None
    target: str
    settings: Json
    header: bytes
    chains: Sequence[ImportedChain]
    verdict: str
    diagnostics: Json
    calibration: Json | None
    warnings: list[str]
    iterations: int  # per chain


def add(session: Session, owner: str, imported: Imported) -> Model:
    """Store a finished model, which belongs to no dataset."""
    now = utc_now()
    model = Model(
        id=new_id("mdl"),
        owner=owner,
        name=imported.name,
        dataset_id=None,
        target=imported.target,
        settings=imported.settings,
        state=SUCCEEDED,
        header=imported.header,
        verdict=imported.verdict,
        diagnostics=imported.diagnostics,
        calibration=imported.calibration,
        warnings=imported.warnings,
        created_at=now,
        started_at=now,
        finished_at=now,
    )
    session.add(model)
    session.flush()  # the units refer to the row
    for number, chain in enumerate(imported.chains):
        unit = lifecycle.new_unit(owner, model.id, CHAIN, number, imported.iterations)
        unit.state, unit.phase = DONE, "sampling"
        unit.iteration, unit.num_draws = imported.iterations, chain.num_draws
        unit.statistics = chain.statistics
        session.add(unit)
        draws.write(session, model.id, number, chain.blocks)
    session.flush()  # fail here rather than at the commit
    events.append(session, model.id, "created", {"chains": len(imported.chains)})
    events.append(session, model.id, SUCCEEDED, {"verdict": imported.verdict})
    return model
