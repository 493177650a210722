"""The no-U-turn sampler (NUTS) on one topology of soft splits: nutpie with our compiled log density.

Chains run one after the other in one thread without the GIL, so that a seed determines the draws and parallel
fits don't block each other. Imported on first use, because nutpie is slow to import.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sampler.array_types import Floats
from sampler.kernels.jit import address
from sampler.soft.kernels.nuts import COPY, LOG_DENSITY, pack_model
from sampler.soft.kernels.state import SoftRows
from sampler.trees.soft.tree import shape_of

DEEPEST = 7  # doublings of a trajectory; 8 give as many effective draws in more time


@dataclass(frozen=True)
class _Place:
    """Address of a compiled function, as the library reads it."""

    address: int


def nuts(
    rows: SoftRows, is_split: Sequence[bool], width: float, starts: Floats, tune: int, draws: int, seed: int
) -> Floats:
    """Draw from the posterior on one topology.

    Parameters
    ----------
    rows
        Training rows and prior.
    is_split
        The topology, in pre-order.
    width
        Width h of the splits.
    starts
        Initial states, float64 [chain, u].
    tune
        Number of draws that tune step size and scales, discarded.
    draws
        Number of draws per chain.
    seed
        Seed of all chains.

    Returns
    -------
    array
        float64 [chain, draw, u].

    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a dependency of nutpie warns about its own next version
        import nutpie  # noqa: PLC0415
        from nutpie.compile_pymc import CompiledPyMCModel  # noqa: PLC0415

    splits = sum(is_split)
    buffer = pack_model(rows, shape_of(is_split, np.full(splits, -1, np.int64)), width)
    chains, size = starts.shape
    waiting = iter(starts)  # chains start in order

    def next_start(_seed: int) -> Floats:
        return np.array(next(waiting))

    parts = {field.name for field in fields(CompiledPyMCModel)}
    # later releases of nutpie have one part more
    later: dict[str, Any] = {"shared_var_keys": {}} if "shared_var_keys" in parts else {}
    model = CompiledPyMCModel(
        dims={},
        compiled_logp_func=_Place(address(LOG_DENSITY)),
        compiled_expand_func=_Place(address(COPY)),
        initial_point_func=next_start,
        shared_data={},
        user_data=buffer,
        n_expanded=size,
        shape_info=(["u"], [slice(0, size)], [(size,)]),
        logp_func=None,
        expand_func=None,
        _n_dim=size,
        _shapes={"u": (size,)},
        _coords={},
        **later,
    )
    trace: Any = nutpie.sample(
        model, draws=draws, tune=tune, chains=chains, cores=1, seed=seed, progress_bar=False,
        return_raw_trace=True, maxdepth=DEEPEST,
    )  # fmt: skip
    batches, _ = trace.get_arrow_trace()
    kept_draws = np.array([np.asarray(batch.column("u").to_pylist(), np.float64) for batch in batches])
    return np.ascontiguousarray(kept_draws.reshape(chains, -1, size)[:, -draws:])
