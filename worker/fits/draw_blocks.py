"""Splitting of a chain's kept draws into blocks, whose boundaries depend only on the settings."""

from app.store.draws import StoredBlock
from sampler import Draws, pack, unpack
from sampler.host.storage import concatenate

BLOCK_BYTES = 32 * 1024  # rewritten by each slice until it is full; smaller ones pack worse (8 KB: by 2%)
TREE_BYTES = 10  # approximate size of a packed tree


def draws_per_block(num_trees: int) -> int:
    """Return the number of draws in a full block."""
    return max(1, BLOCK_BYTES // (TREE_BYTES * num_trees))


class BlockWriter:
    """Collects draws in blocks; each slice rewrites the last block until it is full.

    So the stored bytes don't depend on the slices or on interruptions of the chain.

    Parameters
    ----------
    num_trees
        Number of trees per draw.
    last
        The chain's last stored block, when it is resumed.
    """

    def __init__(self, num_trees: int, last: StoredBlock | None = None) -> None:
        self._room = draws_per_block(num_trees)
        self._seq = self._first = 0
        self._open: Draws | None = None
        if last is None:
            return
        if last.num_draws < self._room:
            self._seq, self._first, self._open = last.seq, last.first_draw, unpack(last.data)
        else:
            self._seq, self._first = last.seq + 1, last.first_draw + last.num_draws

    @property
    def num_draws(self) -> int:
        """Number of draws added so far."""
        return self._first + (self._open.num_draws if self._open is not None else 0)

    def add(self, draws: Draws | None) -> list[StoredBlock]:
        """Add draws and return the blocks to store: those that have changed."""
        if draws is None or draws.num_draws == 0:
            return []
        held = draws if self._open is None else concatenate([self._open, draws])
        blocks = []
        while held.num_draws >= self._room:
            blocks.append(StoredBlock(self._seq, self._first, self._room, pack(held[: self._room])))
            held = held[self._room :]
            self._seq, self._first = self._seq + 1, self._first + self._room
        self._open = held if held.num_draws else None
        if self._open is not None:
            blocks.append(StoredBlock(self._seq, self._first, held.num_draws, pack(held)))
        return blocks
