"""Two classes by normal latent outcomes (Albert and Chib 1993; docs/maths.md#probit)."""

from __future__ import annotations

import numpy as np

from sampler.bart.families.gaussian import Gaussian, address_of_draw
from sampler.bart.kernels.state import Outcome
from sampler.training import Training


class Probit(Gaussian):
    """P(y = 1) = Phi(offset + f(x)): a latent outcome of each row, with noise 1, takes the place of y.

    The offset is the prior's, and where rows have offsets that and the row's.
    """

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        offsets = training.by_role.get("offset", np.zeros(0))
        self._offsets = np.rint(offsets / training.constants.step).astype(np.int32)

    @staticmethod
    def _make_outcome(training: Training, num_scalars: int) -> Outcome:
        """Make room for labels and latent outcomes."""
        rows = training.padded_codes.shape[1]
        plain = Gaussian._make_outcome(training, num_scalars)  # noqa: SLF001  # its own base
        return plain._replace(
            labels=np.zeros(len(training.y), np.uint8),
            latent=np.zeros(rows, np.int32),
            draw_latent=address_of_draw(),
        )

    def measure(self) -> None:
        """Take the rows' offsets, in whole grid steps, and other parts beside the trees out of residuals."""
        residual = self.models[0].residual
        residual[: len(self._offsets)] -= self._offsets
        super().measure()

    def clear(self, training: Training) -> None:
        """Let labels be the outcomes, and latent ones 0."""
        super().clear(training)
        self.outcome.labels[:] = training.y
