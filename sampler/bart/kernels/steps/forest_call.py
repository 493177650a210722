"""Sweep of one forest, called by its address for what draws more between the sweeps of its forests."""

from __future__ import annotations

from typing import Any

from sampler.bart.kernels.forest_sweep import sweep_trees
from sampler.bart.kernels.state import Forest, Work, sweep_signature
from sampler.kernels.arrays import Data, Float, Int, Longs, Model
from sampler.kernels.function_pointers import store_members
from sampler.kernels.jit import kernel, pointer_kernel


def sweep_forest(at_data: Any, at_forest: Any, at_model: Any, at_work: Any) -> Float:
    """Update every tree of a forest once; return the residual's weighted sum of squares (`settle`).

    There must be room (`room_for_trees`). Called by its address (`sampler.bart.forest_call`).
    """
    data: Data = at_data[0]
    forest: Forest = at_forest[0]
    model: Model = at_model[0]
    work: Work = at_work[0]
    return sweep_trees(data, forest, model, work)


SWEEP_FOREST = pointer_kernel(__name__, sweep_signature, sweep_forest)


@kernel(allocates=False, entry=True)
def store_arguments(data: Data, forest: Forest, model: Model, work: Work, room: Longs) -> Int:
    """Store the arguments of `SWEEP_FOREST`, their addresses first; return how long `room` has to be."""
    return store_members((data, forest, model, work), room)
