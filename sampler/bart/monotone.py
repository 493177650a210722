"""Monotone features of a chain, with which leaves are in order (docs/maths.md#monotone-features)."""

from __future__ import annotations

from sampler.bart.part import ChainPart
from sampler.training import Training

GROUP = "monotone"  # group of compiled kernels, see `sampler.kernels.groups`


class MonotoneFeatures(ChainPart):
    """Order of leaves, which updates of trees keep: nothing else is drawn."""

    is_compiled = True

    @classmethod
    def kernels(cls, training: Training) -> tuple[str, ...]:  # noqa: ARG003
        """Name the groups of compiled kernels."""
        return (GROUP,)
