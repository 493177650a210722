"""Definitions of the entries of `stop`: rules by which a fit ends, and its limits of time and draws."""

from __future__ import annotations

import math

from sampler.definitions.setting import FormField, Setting

TIMES_DRAWS = 24  # default of stop.max_draws, in multiples of num_draws
# Chains of more trees agree sooner; with fewer rows they predict worse, and more weren't tried
# (docs/mixing.md#more-trees).
MORE_TREES, MORE_TREES_ROWS = 800, (1_200, 10_000)
# Of the service, where a request states neither rules nor a length: the verdict, and the most seconds of so
# many cores for at most so many rows, and in proportion to more.
DEFAULT_VERDICT = "approximate"
DEFAULT_SECONDS, DEFAULT_CORES, DEFAULT_ROWS = 60.0, 2, 5_000
BY_DEFAULT = (
    "Where a request names neither rules nor a length (num_chains, num_burnin, num_draws, thin), a sum of "
    f"trees is drawn until its verdict is {DEFAULT_VERDICT} or better, or up to a bound of draws that take "
    f"about a minute of two cores for {DEFAULT_ROWS:,} rows, and in proportion to more; an estimate has it."
)

STOP: dict[str, Setting] = {
    "verdict": Setting(
        "word",
        "stop",
        "This verdict or a better one. Chains of more trees agree sooner, so num_trees is "
        f"{MORE_TREES} then unless it is given, for numbers with noise of one size and "
        f"{MORE_TREES_ROWS[0]:,} to {MORE_TREES_ROWS[1]:,} training rows.",
        choices=("converged", "approximate"),
        form=FormField(
            "Until the verdict is",
            "When to stop",
            "no such rule",
            "This verdict or a better one. Chains of more trees agree sooner, so there are "
            f"{MORE_TREES} then unless their number is given, for numbers with noise of one size and "
            f"{MORE_TREES_ROWS[0]:,} to {MORE_TREES_ROWS[1]:,} training rows.",
            choices=(("converged", "converged"), ("approximate", "approximate")),
        ),
    ),
    "max_rhat": Setting(
        "number",
        "stop",
        "Largest R-hat of f and of effects at 95% of the reference rows, of sigma and of the log-likelihood.",
        limits=(1, 10),
        ends="(]",
        form=FormField(
            "Until R-hat is at most",
            "When to stop",
            "no such rule",
            "For f and effects at 95% of the reference rows, sigma, the log-likelihood; 1 means agreement.",
        ),
    ),
    "min_ess": Setting(
        "number",
        "stop",
        "Smallest bulk and tail ESS of f and of effects at 95% of the reference rows, sigma and the "
        "log-likelihood.",
        limits=(0, 1e9),
        ends="(]",
        form=FormField(
            "Until effective draws are at least",
            "When to stop",
            "no such rule",
            "The effective sample size of the kept draws.",
        ),
    ),
    "max_seconds": Setting(
        "number",
        "stop",
        "Seconds since a worker first claimed the fit. Then chains end where they are; the model "
        "consists of the draws that all of them have, and chains without draws are dropped.",
        limits=(0, 31_536_000),
        ends="(]",
        form=FormField(
            "At most, in seconds",
            "When to stop",
            "no limit",
            "The fit ends with its present draws; the only rule that depends on the machine.",
        ),
    ),
    "max_draws": Setting(
        "whole",
        "stop",
        f"Most kept draws per chain; {TIMES_DRAWS} times num_draws by default.",
        limits=(1, math.inf),
        form=FormField(
            "At most, in draws per chain",
            "When to stop",
            f"{TIMES_DRAWS} times those above",
            "A fit that doesn't meet its rules ends here.",
        ),
    ),
}
