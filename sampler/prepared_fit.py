"""A prepared fit: training data for the chains, and the contents of the model's header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sampler.data.binning import Grid
from sampler.data.schema import Schema
from sampler.data.transform import IDENTITY, Transform
from sampler.noise import NoiseChoice
from sampler.storage.file_dialect import FileDialect
from sampler.storage.model_header import REFERENCE_ROWS, Header
from sampler.training import Training


@dataclass(frozen=True)
class PreparedFit:
    """A prepared fit: training data for the chains, and the contents of the header for predictions."""

    training: Training
    schema: Schema
    grid: Grid
    warnings: list[str]
    # The following are described in `sampler.storage.model_header.Header`.
    default_grid: list[list[float]] = field(default_factory=list)
    reference_values: NDArray[np.float64] | None = None
    transform: Transform = IDENTITY  # transform T of the outcome; the training data has T(y)
    roles: dict[str, str] = field(default_factory=dict)
    dialect: FileDialect | None = None
    noise_choice: NoiseChoice | None = None
    others: tuple[bytes, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)
    reference_outcomes: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    def with_discarded(self, num_draws: int) -> PreparedFit:
        """Return the fit with that many draws per chain discarded already."""
        settings = replace(self.training.settings, discarded=num_draws)
        return replace(self, training=replace(self.training, settings=settings))

    def header(self) -> bytes:
        """Encode the header of the model; equal fits give equal bytes."""
        codes = self.training.codes
        rows = reference_rows(codes.shape[1])
        header = Header(
            constants=self.training.constants.to_json(),
            settings=self.training.settings.to_json(),
            reference=np.ascontiguousarray(codes[: len(self.grid.cuts), rows]),
            weighted=self.training.weights is not None,
            num_rows=self.training.num_counted,
            typical_weight=self.training.typical_weight,
            **{name: getattr(self, name) for name in IN_HEADER},
        )
        return header.to_bytes()


def reference_rows(num_rows: int) -> NDArray[np.int64]:
    """Choose the places of the reference rows among the training rows."""
    return np.unique(np.linspace(0, num_rows - 1, REFERENCE_ROWS).astype(np.int64))


IN_HEADER = tuple(each.name for each in fields(PreparedFit) if each.name != "training")
