"""Latent outcomes of a forest of normal leaves: of two classes (probit), and of censored rows."""

from __future__ import annotations

from typing import Any

from numba import types

from sampler.bart.kernels.leaf_models.normal import LIKELIHOOD, SIGMA2, UNIT, Normal
from sampler.bart.kernels.leaf_models.residual_bound import measure_bound
from sampler.bart.kernels.probit import draw_latent
from sampler.bart.kernels.row_latents.censored import draw_censored
from sampler.bart.kernels.state import Outcome
from sampler.kernels.arrays import Int, Words, i8, numba_type
from sampler.kernels.jit import kernel, pointer_kernel


@kernel(allocates=False, entry=True)
def draw_latent_outcomes(outcome: Outcome, model: Normal, random: Words) -> None:
    """Draw the latent outcomes given the forest and the noise, and bound the residual anew."""
    if model.noise[LIKELIHOOD] == 0.0:
        return
    if len(outcome.labels) > 0:
        draw_latent(outcome.labels, model.residual, outcome.latent, outcome.offset, outcome.step, random)
    if len(outcome.censored) > 0:
        draw_censored(
            outcome.censored, outcome.limits, model.residual, outcome.latent, model.weights,
            model.noise[SIGMA2], model.noise[UNIT], random,
        )  # fmt: skip
    measure_bound(model.residual, model.bound)


def _draw_at(at_outcome: Any, at_model: Any, at_random: Any) -> Int:
    """Draw as above, called by its address: so that the compiled sweep need not contain it."""
    draw_latent_outcomes(at_outcome[0], at_model[0], at_random[0])
    return 0


_pointer: Any = types.CPointer
DRAW_LATENT = pointer_kernel(
    __name__, i8(*(_pointer(numba_type(kind)) for kind in (Outcome, Normal, Words))), _draw_at
)
