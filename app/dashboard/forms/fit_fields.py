"""The settings of a fit as fields of a form: what each is called, its default, and a sentence about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.services.fits.creation import CHOICES, CUTS
from app.services.fits.stop_rules import TIMES_DRAWS

Kind = Literal["whole", "number", "word", "yes"]


@dataclass(frozen=True)
class Knob:
    """A field; `name` is that of `POST /models`, with a dot inside `prior` and `stop`.

    Left empty it stays at its default, which `default` says.
    """

    name: str
    label: str
    default: str
    hint: str
    kind: Kind = "number"
    choices: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """Of its elements: one word."""
        return self.name.replace(".", "-")


@dataclass(frozen=True)
class FieldGroup:
    """Fields that are folded away together."""

    title: str
    about: str
    knobs: tuple[Knob, ...]


def _whole(name: str, label: str, default: str, hint: str) -> Knob:
    return Knob(name, label, default, hint, "whole")


def _move_sets() -> tuple[tuple[str, str], ...]:
    told = {
        "growprune": "growprune: grow and prune alone",
        "growprunechange": "growprunechange: and new rules for small nodes",
        "cgm": "cgm: as in the first article, with swaps",
        "pg": "pg: particle Gibbs, whole trees at once",
    }
    return tuple((name, told.get(name, name)) for name in CHOICES["moves"] if name != "default")


SHOWN = (
    _whole(
        "num_chains", "Chains", "4; 8 of bcart", "Independent runs, pooled: only several can show they agree."
    ),
    _whole(
        "num_draws",
        "Kept draws per chain",
        "250; 1000 of smc, dcc-tree",
        "More make every figure steadier, and cost time.",
    ),
    _whole(
        "num_trees", "Trees", "200; 1 of a single tree", "Each explains a little; fewer are faster to fit."
    ),
)
FOLDED = (
    FieldGroup(
        "Iterations and moves",
        "How each chain goes about it. The defaults are what measured best.",
        (
            _whole(
                "num_burnin",
                "Burn-in iterations",
                "as sampling, at most 1000",
                "Thrown away: the chain is still on its way then.",
            ),
            _whole(
                "thin",
                "Iterations per kept draw",
                "8; 80 of bcart",
                "Neighbouring draws resemble each other.",
            ),
            _whole("seed", "Seed", "0", "The same data, settings and seed give the same bytes."),
            Knob(
                "moves",
                "Moves",
                "default",
                "How trees are changed; a method of one tree has sets of its own.",
                "word",
                _move_sets(),
            ),
            Knob(
                "start",
                "Chains begin from",
                CHOICES["start"][0],
                "Trees without a split; trees drawn one after the other by a particle filter; or without a "
                "split, where the data count fully only after half the burn-in.",
                "word",
                (("smc", "smc: drawn trees"), ("annealed", "annealed: the data come in slowly")),
            ),
            _whole("particles", "Particles", "10", "Of particle Gibbs: more are slower, and move further."),
        ),
    ),
    FieldGroup(
        "When to stop",
        "Draw on until all rules hold that are given here. They are looked at when the draws above are kept, "
        "then at half as many more, and so on.",
        (
            Knob(
                "stop.verdict",
                "Until the verdict is",
                "no such rule",
                "Or better than that.",
                "word",
                (("converged", "converged"), ("approximate", "approximate")),
            ),
            Knob(
                "stop.max_rhat",
                "Until R-hat is at most",
                "no such rule",
                "Of f at 95% of the reference rows, and of sigma; 1 is agreement.",
            ),
            Knob(
                "stop.min_ess",
                "Until effective draws are",
                "no such rule",
                "At least: so many independent draws the kept ones are worth.",
            ),
            Knob(
                "stop.max_seconds",
                "For at most, seconds",
                "no limit",
                "Then it ends with what it has; the only rule that depends on the machine.",
            ),
            _whole(
                "stop.max_draws",
                "For at most, draws per chain",
                f"{TIMES_DRAWS} times those above",
                "A fit that never satisfies its rules ends there.",
            ),
        ),
    ),
    FieldGroup(
        "Prior",
        "What is plausible before the data are seen. Scaled from the data, so that it suits most tables.",
        (
            Knob("prior.k", "k", "2", "Larger: f is drawn closer to its middle. With 2 it spans the data."),
            Knob("prior.alpha", "alpha", "0.95", "The probability that a tree has a first split."),
            Knob("prior.beta", "beta", "2; 1 of a single tree", "Larger: deeper nodes split less often."),
            Knob("prior.nu", "nu", "3", "Degrees of freedom of sigma's prior: larger is surer."),
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
                "What a straight line leaves unexplained, or the outcome's own spread.",
                "word",
                (("naive", "naive: the outcome's spread"),),
            ),
            Knob(
                "prior.cuts",
                "Cut points",
                "quantile; mixed of two classes",
                "Where a number may be split: at its quantiles, evenly over its range, or both.",
                "word",
                tuple((name, name) for name in CUTS),
            ),
        ),
    ),
    FieldGroup(
        "Hyperpriors",
        "Let the data say how smooth f is, and which columns matter (of bart).",
        (
            Knob(
                "prior.k_df",
                "Degrees of freedom of k",
                "k is fixed",
                "Then k is drawn too, k_scale times a chi variable.",
            ),
            Knob("prior.k_scale", "Scale of k", "k / root of k_df", "Only with degrees of freedom of k."),
            Knob(
                "prior.sparse",
                "Columns' shares",
                "all alike",
                "Sparse (DART): drawn, so that columns that say nothing are left alone.",
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
        "Of dcc-tree: how long it looks for tree shapes, and how many draws each that it finds is given.",
        (
            _whole("search.iterations", "Iterations", "100", "In each, the shape most worth it draws on."),
            _whole("search.first", "First proposals", "100", "Shapes looked at before the first iteration."),
            _whole("search.proposals", "Proposals needed", "2", "A shape proposed so often gets chains."),
            _whole("search.most", "Shapes at most", "100", "The least worth it are let go beyond."),
            _whole("search.chains", "Chains of a shape", "8", "Each from a beginning of its own."),
            _whole("search.draws", "Draws of a chain", "100", "Whenever its shape is chosen; at least 20."),
            _whole("search.samples", "Samples around a draw", "10", "For the shape's evidence."),
            Knob("search.delta", "delta", "0", "The share of exploring among what makes a shape worth it."),
            Knob("search.kappa", "kappa", "0", "Larger: a spread of the evidence counts for more."),
            Knob("search.optimism", "Optimism", "1", "Larger: shapes that were rarely chosen come sooner."),
            _whole("search.spatial", "Samples weigh", "1", "1: against their chain; 0: against their draw."),
        ),
    ),
    FieldGroup(
        "Prior in absolute figures",
        "Instead of what the data would scale, in units of the target. For who knows them.",
        (
            Knob("prior.offset", "Middle of f", "of the outcomes' range", "What f is drawn to."),
            Knob("prior.leaf_sd", "Sd of a leaf", "from k", "Of every leaf value of every tree."),
            Knob("prior.lambda", "lambda of sigma", "from nu and q", "The scale of sigma's prior."),
            Knob("prior.sigma", "Known sigma", "learnt", "The noise, when it is known; not with lambda."),
            Knob("prior.sigma_start", "First sigma", "the estimate", "Where each chain begins."),
            Knob("prior.step", "Step of the grid", "2 to the -20 of the range", "A power of two is exact."),
            Knob("prior.mean", "Mean of leaves", "of the outcomes", "Of a single tree."),
            Knob(
                "prior.precision",
                "Precision of leaves",
                "from the data",
                "Of one tree, beside the noise's.",
            ),
            Knob("prior.concentration", "Concentration", "1", "Of the class shares in a single tree's leaf."),
        ),
    ),
)


def every() -> Iterator[Knob]:
    """All of them."""
    yield from SHOWN
    for group in FOLDED:
        yield from group.knobs
