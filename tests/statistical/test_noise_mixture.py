"""Noise that is a mixture: Geweke's joint-distribution test."""

import numpy as np
import pytest

from sampler.bart.noise_mixture import CONCENTRATION, PULL
from sampler.noise import COMPONENTS
from tests.support.chain_driver import f_of
from tests.support.joint_law import Law, keeps_joint_law
from tests.support.models.precisions import figures_of_noise
from tests.support.reports.p_values import ALARM, all_above


class Mixed(Law):
    """States: f at the rows, the trees' leaves, and the noise's shares, means and sds."""

    left_out = 12

    def training(self, y, seed):
        return self.model.training(y, **self.lengths, noise="mixture", seed=seed)

    def draw(self, rng):
        f, _, leaves = self.draw_trees(rng)
        nu, lambda_ = self.model.nu, self.model.lambda_
        variance = nu * lambda_ * rng.chisquare(1) / rng.chisquare(nu, COMPONENTS)
        mean = np.sqrt(variance / PULL) * rng.normal(size=COMPONENTS)
        share = rng.dirichlet(np.full(COMPONENTS, CONCENTRATION / COMPONENTS))
        return f, leaves, np.array([share, mean, np.sqrt(variance)])

    def state_of(self, chain):
        parts = chain._likelihood.outcome.scalars[1:-1].reshape(3, COMPONENTS).copy()
        return f_of(chain), chain._forests[0].num_leaves, parts

    def outcome(self, state, rng):
        f, _, (share, mean, sd) = state
        label = rng.choice(COMPONENTS, len(f), p=share / share.sum())
        return f + rng.normal(mean[label], sd[label])

    def functions(self, state, y):
        f, leaves, (share, mean, sd) = state
        order = np.argsort(-share)
        middle = np.sum(share * mean)
        return {
            "largest share": share.max(),
            "shares squared": np.sum(share**2),
            "log sd of the largest": np.log(sd[order[0]]),
            "mean of the largest over its sd": mean[order[0]] / sd[order[0]],
            "that squared": (mean[order[0]] / sd[order[0]]) ** 2,
            "log sd of the second": np.log(sd[order[1]]),
            "log variance": np.log(np.sum(share * (sd**2 + (mean - middle) ** 2))),
            "mean": middle,
            "f at a row": f[0],
            "f at a row squared": (f[0] - self.model.offset) ** 2,
            "f x mean": (f[1] - self.model.offset) * mean[order[0]],
            "leaves": np.mean(leaves),
        }

    def figures(self, state):
        """Return figures; f alone is known less well than f and the noise's mean."""
        f, _, (share, mean, sd) = state
        middle = np.sum(share * mean)
        of_mixture = {"largest share": share.max(), "mean": middle, "expected outcome": f[0] + middle}
        return figures_of_noise(f, np.sum(share * (sd**2 + mean**2))) | of_mixture


@pytest.mark.slow
def test_joint():
    """Outcomes given the state, a sweep, and so on: functions of the state keep their prior law."""
    all_above(keeps_joint_law(Mixed("mixture", missing=0.1), 12_000, 5_000), ALARM)


@pytest.mark.long
def test_joint_long():
    """Geweke's test of a mixture with many more draws."""
    all_above(keeps_joint_law(Mixed("mixture", missing=0.1), 96_000, 50_000), ALARM)
