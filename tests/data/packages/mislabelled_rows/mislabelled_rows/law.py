"""The law: probabilities are of labels, as they are given."""

from mislabelled_rows.likelihood import SHARE
from sampler.posterior.laws.by_figure import fill_by_figure
from sampler.posterior.laws.probit import ProbitLaw


class MislabelledLaw(ProbitLaw):
    """Two classes: f is the probability of the second class's label."""

    def f_of(self, coded, chosen):
        """Compute it in the chosen draws, float64 [draw, row]."""
        return SHARE + (1 - 2 * SHARE) * super().f_of(coded, chosen)

    def fill(self, figures, coded, num_draws):
        """Compute the figures of the rows; return the number of draws per chain used."""
        return fill_by_figure(self, figures, coded, num_draws)
