"""The chain: true labels are drawn given the trees, then everything else as for probit."""

import numpy as np
from scipy.special import ndtr

from sampler.bart.families.probit import Probit
from sampler.kernels.random import next_word

SHARE = 0.1  # of rows with the other class's label


class Mislabelled(Probit):
    """P(label = 1) = SHARE + (1 - 2 SHARE) Phi(offset + f)."""

    alone = False  # each iteration draws the labels first

    def clear(self, training):
        """Let labels be the outcomes as they were given."""
        super().clear(training)
        self.given = training.y

    def sweep(self, data, forests, work, iteration):
        """Draw the true labels, then iterate."""
        steps = (self.outcome.latent - self.models[0].residual)[: data.num_rows]
        p = ndtr(self.outcome.offset + self.outcome.step * steps)
        right, wrong = (1 - SHARE) * p, SHARE * p
        is_one = np.where(
            self.given == 1, right / (right + SHARE * (1 - p)), wrong / (wrong + (1 - SHARE) * (1 - p))
        )
        random = np.random.Generator(np.random.PCG64(int(next_word(work.random))))
        self.outcome.labels[:] = random.uniform(size=len(is_one)) < is_one
        super().sweep(data, forests, work, iteration)
