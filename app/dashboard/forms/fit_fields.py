"""Form fields for the settings of a fit: label, default and hint of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.services.fits.creation import CHOICES, CUTS
from app.services.fits.stop_rules import TIMES_DRAWS

Kind = Literal["whole", "number", "word", "yes"]


@dataclass(frozen=True)
class Knob:
    """A field; `name` is the field of `POST /models`, with a dot inside `prior`, `search` and `stop`.

    An empty field keeps its default, which `default` describes.
    """

    name: str
    label: str
    default: str
    hint: str
    kind: Kind = "number"
    choices: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Id of the HTML element, one word."""
        return self.name.replace(".", "-")


@dataclass(frozen=True)
class FieldGroup:
    """Fields that are folded together."""

    title: str
    about: str
    knobs: tuple[Knob, ...]


def _whole(name: str, label: str, default: str, hint: str) -> Knob:
    return Knob(name, label, default, hint, "whole")


def _move_sets() -> tuple[tuple[str, str], ...]:
    told = {
        "growprune": "growprune: only grow and prune",
        "growprunechange": "growprunechange: also new rules for small nodes",
        "cgm": "cgm: as in CGM10, with swaps",
        "pg": "pg: particle Gibbs, whole trees at once",
    }
    return tuple((name, told.get(name, name)) for name in CHOICES["moves"] if name != "default")


SHOWN = (
    _whole("num_chains", "Chains", "4; 8 of bcart", "Independent runs, pooled. Agreement needs several."),
    _whole(
        "num_draws",
        "Kept draws per chain",
        "250; 1000 of smc, dcc-tree",
        "More draws make every figure more precise, and cost time.",
    ),
    _whole("num_trees", "Trees", "200; 1 of a single tree", "Each explains a little; fewer are faster."),
)
FOLDED = (
    FieldGroup(
        "Iterations and moves",
        "How each chain samples. The defaults did best in benchmarks.",
        (
            _whole(
                "num_burnin",
                "Burn-in iterations",
                "as sampling, at most 1000",
                "Discarded, since the chain has not converged yet.",
            ),
            _whole(
                "thin",
                "Iterations per kept draw",
                "8; 80 of bcart",
                "Thinning, since successive draws are similar.",
            ),
            _whole("seed", "Seed", "0", "The same data, settings and seed give the same bytes."),
            Knob(
                "moves",
                "Moves",
                "default",
                "How trees change; single-tree methods have their own sets.",
                "word",
                _move_sets(),
            ),
            Knob(
                "start",
                "Start of the chains",
                CHOICES["start"][0],
                "Trees without splits; trees drawn by a particle filter; or no splits, with the data "
                "weighted less in the first half of the burn-in.",
                "word",
                (("smc", "smc: drawn trees"), ("annealed", "annealed: gradual weight of the data")),
            ),
            _whole(
                "particles", "Particles", "10", "For particle Gibbs: more are slower, and make larger moves."
            ),
        ),
    ),
    FieldGroup(
        "When to stop",
        "Draw until all given rules are met. They are checked when the draws above are kept, then at half as "
        "many more, and so on.",
        (
            Knob(
                "stop.verdict",
                "Until the verdict is",
                "no such rule",
                "This verdict or a better one.",
                "word",
                (("converged", "converged"), ("approximate", "approximate")),
            ),
            Knob(
                "stop.max_rhat",
                "Until R-hat is at most",
                "no such rule",
                "For f at 95% of the reference rows, and for sigma; 1 means agreement.",
            ),
            Knob(
                "stop.min_ess",
                "Until effective draws are at least",
                "no such rule",
                "The effective sample size of the kept draws.",
            ),
            Knob(
                "stop.max_seconds",
                "At most, in seconds",
                "no limit",
                "The fit ends with its present draws; the only rule that depends on the machine.",
            ),
            _whole(
                "stop.max_draws",
                "At most, in draws per chain",
                f"{TIMES_DRAWS} times those above",
                "A fit that doesn't meet its rules ends here.",
            ),
        ),
    ),
    FieldGroup(
        "Prior",
        "What is plausible before seeing the data. Scaled by the data, so it suits most tables.",
        (
            Knob(
                "prior.k", "k", "2", "Larger: f shrinks more to its middle. With 2 the prior spans the data."
            ),
            Knob("prior.alpha", "alpha", "0.95", "The probability that a tree has a first split."),
            Knob("prior.beta", "beta", "2; 1 of a single tree", "Larger: deeper nodes split less often."),
            Knob("prior.nu", "nu", "3", "Degrees of freedom of sigma's prior: larger is more certain."),
            Knob(
                "prior.q",
                "q",
                "0.9; 0.95 of a single tree",
                "The probability that sigma is below its rough estimate.",
            ),
            Knob(
                "prior.sigma_estimate",
                "Rough estimate of sigma",
                "linear",
                "The residual sd of a linear model, or the sd of the outcome.",
                "word",
                (("naive", "naive: the outcome's sd"),),
            ),
            Knob(
                "prior.cuts",
                "Cut points",
                "quantile; mixed for two classes",
                "Where numbers may be split: at quantiles, evenly over the range, or both.",
                "word",
                tuple((name, name) for name in CUTS),
            ),
        ),
    ),
    FieldGroup(
        "Hyperpriors",
        "Let the data determine how smooth f is, and which columns matter (bart only).",
        (
            Knob(
                "prior.k_df",
                "Degrees of freedom of k",
                "k is fixed",
                "If given, k is drawn too: k_scale times a chi variable.",
            ),
            Knob("prior.k_scale", "Scale of k", "k / root of k_df", "Only with degrees of freedom of k."),
            Knob(
                "prior.sparse",
                "Columns' shares",
                "all alike",
                "Sparse (DART): drawn, so that irrelevant columns are rarely used.",
                "yes",
                (("true", "sparse"),),
            ),
            Knob("prior.sparse_a", "a of the shares", "0.5", "Smaller: fewer columns. Only when sparse."),
            Knob("prior.sparse_b", "b of the shares", "1", "Larger: fewer columns. Only when sparse."),
            Knob("prior.sparse_rho", "rho of the shares", "the number of columns", "Only when sparse."),
            Knob(
                "prior.sparse_theta",
                "Known theta of the shares",
                "drawn",
                "Instead of a, b and rho. Only when sparse.",
            ),
        ),
    ),
    FieldGroup(
        "Search over topologies",
        "For dcc-tree: the length of the search for topologies, and the draws for each.",
        (
            _whole("search.iterations", "Iterations", "100", "Each draws from the most promising topology."),
            _whole(
                "search.first", "First proposals", "100", "Topologies considered before the first iteration."
            ),
            _whole(
                "search.proposals", "Proposals needed", "2", "A topology proposed this often gets chains."
            ),
            _whole("search.most", "Most topologies", "100", "Beyond, the least promising are dropped."),
            _whole("search.chains", "Chains per topology", "8", "Each from its own starting point."),
            _whole(
                "search.draws", "Draws of a chain", "100", "Each time its topology is chosen; at least 20."
            ),
            _whole("search.samples", "Samples around a draw", "10", "For the evidence of the topology."),
            Knob("search.delta", "delta", "0", "Weight of exploration in choosing a topology."),
            Knob("search.kappa", "kappa", "0", "Larger: the spread of the evidence counts more."),
            Knob("search.optimism", "Optimism", "1", "Larger: rarely chosen topologies come sooner."),
            _whole(
                "search.spatial",
                "Samples weigh",
                "1",
                "1: relative to their chain; 0: relative to their draw.",
            ),
        ),
    ),
    FieldGroup(
        "Prior in absolute figures",
        "In units of the target, instead of scaling by the data. For experts.",
        (
            Knob("prior.offset", "Middle of f", "of the outcomes' range", "The value to which f shrinks."),
            Knob("prior.leaf_sd", "Sd of a leaf", "from k", "Prior sd of every leaf value."),
            Knob("prior.lambda", "lambda of sigma", "from nu and q", "The scale of sigma's prior."),
            Knob("prior.sigma", "Known sigma", "learnt", "The noise sd, if known; not with lambda."),
            Knob("prior.sigma_start", "First sigma", "the estimate", "Start of each chain."),
            Knob("prior.step", "Step of the grid", "2 to the -20 of the range", "A power of two is exact."),
            Knob("prior.mean", "Mean of leaves", "of the outcomes", "For a single tree."),
            Knob(
                "prior.precision",
                "Precision of leaves",
                "from the data",
                "For a single tree, relative to the noise.",
            ),
            Knob(
                "prior.concentration",
                "Concentration",
                "1",
                "For the class shares in the leaves of a single tree.",
            ),
        ),
    ),
)


def every() -> Iterator[Knob]:
    """Yield all fields."""
    yield from SHOWN
    for group in FOLDED:
        yield from group.knobs
