"""Settings of the model and its chains: definitions, checks across settings, resolution of defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sampler.definitions.data import CALIBRATE, HOLDOUT, MISSING_TARGET, ROLES
from sampler.definitions.forecast import FORECAST
from sampler.definitions.other_names import meant_setting
from sampler.definitions.pairs import NOTHING, Combination
from sampler.definitions.parts import PART_SETTINGS
from sampler.definitions.prior import PRIOR
from sampler.definitions.recipes import NO_RECIPE, RECIPES
from sampler.definitions.search import SEARCH
from sampler.definitions.setting import FormField, Setting, SettingGroup, SettingKind
from sampler.definitions.stop import STOP
from sampler.errors import SettingsError
from sampler.families import FAMILIES
from sampler.methods import METHODS, find_method
from sampler.moves import MOVE_TEXTS, resolve_moves
from sampler.noise import CONSTANT, NOISES
from sampler.pairs import check
from sampler.setting_checks import (
    check_absent,
    has_particles,
    resolve_monotone,
    resolve_parts,
    resolve_search,
)

NO_TRANSFORM = "none"
TRANSFORMS = (NO_TRANSFORM, "log", "yeo-johnson", "auto")
# what a setting missing in stored ones is, where that is not its default
VALUES_OF_OLD_MODELS: dict[str, Any] = {"noise": CONSTANT, "transform": NO_TRANSFORM, "linear": False}
LEFT_OPEN = ("num_burnin", "search", "monotone", "parts")  # resolved apart
STARTS = ("stumps", "smc", "annealed")
PARTICLES = 10  # default of particle Gibbs
# sections of forms
TREATMENT = "Effect of a treatment"
SIZE, ITERATIONS, NOISE = "Method, trees and chains", "Iterations and moves", "Noise, transform and line"
NAMED_MOVES = dict.fromkeys(name for method in METHODS.values() for name in method.move_sets)


def _setting(kind: SettingKind, group: SettingGroup, about: str, **more: Any) -> Any:
    return field(metadata={"setting": Setting(kind, group, about, **more)})


@dataclass(frozen=True)
class Settings:
    """All settings of a fit, resolved.

    `moves` holds the probabilities of grow, prune, change_nog (a new rule for a split above two leaves),
    change (a new rule for any split), swap, restructure (another tree with the same leaves) and pg, which sum
    to one, and of rule: the chance that a tree update is followed by an exact draw of one split rule. pg is
    the chance that an iteration updates every tree by particle Gibbs (PG) with `particles` particles; the
    other moves share the other iterations. `start` is the first state of every chain: stumps; trees drawn in
    turn by sequential Monte Carlo with 100 particles; or stumps with a likelihood that counts little at first
    and fully from the middle of burn-in. `search` holds the entries of a search over topologies
    (`sampler.trees.soft.search`), and is empty for methods without one.
    """

    family: str = _setting(
        "word",
        "model",
        "gaussian (the default) for numbers; probit (method bart) for two classes; categorical for two or "
        "more classes, by a sum of trees for each or by a single tree; ordinal (method bart) for classes in "
        "an order; hurdle (method bart) for numbers many of which are one value exactly; for counts (method "
        "bart) poisson, negative-binomial, zero-inflated-poisson or zero-inflated-negative-binomial; auto "
        "chooses gaussian, probit or categorical by the target's values.",
        default="gaussian",
        choices=tuple(FAMILIES),
        also=("auto",),
        form=FormField("Family"),
    )
    method: str = _setting(
        "word",
        "model",
        f"bart (the default), a sum of trees; or a single-tree method: {', '.join(list(METHODS)[1:])}.",
        default="bart",
        form=FormField("Method"),
    )
    num_trees: int = _setting(
        "whole",
        "model",
        "Number of trees: 200 by default for bart (more where stop asks for a verdict), 50 for each of its "
        "classes and with monotone features, 1 for single trees.",
        limits=(1, 10_000),
        form=FormField(
            "Trees",
            SIZE,
            "200; 50 for each of several classes, and with monotone features; 1 of a single tree",
            "Each explains a little; fewer are faster.",
        ),
    )
    num_chains: int = _setting(
        "whole",
        "chains",
        "Number of chains (runs for smc, dcc-tree): 8 by default for bart and the bcart methods, 4 for smc "
        "and the rjhmc methods, 2 for dcc-tree.",
        limits=(1, 256),
        form=FormField(
            "Chains",
            SIZE,
            "8; 4 of rjhmc",
            "Independent runs, pooled. Agreement needs several.",
        ),
    )
    num_burnin: int = _setting(
        "whole",
        "chains",
        "Iterations before the first kept draw; by default as many as sampling takes, within limits.",
        limits=(0, 1_000_000),
        form=FormField(
            "Burn-in iterations",
            ITERATIONS,
            "as sampling, at most 500",
            "Discarded, since the chain has not converged yet.",
        ),
    )
    num_draws: int = _setting(
        "whole",
        "chains",
        "Kept draws per chain: 125 by default for bart, 250 for bcart and rjhmc, 1000 for smc (its "
        "particles) and dcc-tree.",
        limits=(1, 1_000_000),
        form=FormField(
            "Kept draws per chain",
            SIZE,
            "125; 250 of bcart",
            "More draws make every figure more precise, and cost time.",
        ),
    )
    thin: int = _setting(
        "whole",
        "chains",
        "Iterations per kept draw: by default 8 for bart, 80 for the bcart methods, 4 for the rjhmc methods.",
        limits=(1, 100_000),
        form=FormField(
            "Iterations per kept draw",
            ITERATIONS,
            "8; 80 of bcart",
            "Thinning, since successive draws are similar.",
        ),
    )
    seed: int = _setting(
        "whole",
        "chains",
        "Seed of all random numbers; equal data, settings and seed give equal models.",
        default=0,
        limits=(0, 2**63 - 1),
        form=FormField("Seed", ITERATIONS, "0", "The same data, settings and seed give the same bytes."),
    )
    moves: dict[str, float] = _setting(  # noqa: RUF009  # a dataclass field
        "moves",
        "chains",
        "A move set (default, growprune, growprunechange, cgm, or pg for particle Gibbs), or probabilities "
        "of moves: those of grow, prune, change_nog, change, swap, restructure and pg sum to one; that of "
        "rule is separate.",
        default="default",
        form=FormField(
            "Moves",
            ITERATIONS,
            "default",
            "How trees change; single-tree methods have their own sets.",
            choices=tuple((name, MOVE_TEXTS.get(name, name)) for name in NAMED_MOVES if name != "default"),
        ),
    )
    prior_only: bool = _setting(
        "yes", "model", "Ignore the data: draw from the prior.", default=False, requested=False
    )
    particles: int = _setting(
        "whole",
        "chains",
        "Number of particles of particle Gibbs; 10 by default.",
        default=PARTICLES,
        limits=(2, 10_000),
        rare=True,
        form=FormField(
            "Particles",
            ITERATIONS,
            str(PARTICLES),
            "For particle Gibbs: more are slower, and make larger moves.",
        ),
    )
    start: str = _setting(
        "word",
        "chains",
        "First state of every chain: stumps (the default); smc, trees drawn in turn by sequential Monte "
        "Carlo; annealed, stumps with data that count little at first, fully from the middle of burn-in.",
        default=STARTS[0],
        choices=STARTS,
        rare=True,
        form=FormField(
            "Start of the chains",
            ITERATIONS,
            STARTS[0],
            "Trees without splits; trees drawn by a particle filter; or no splits, with the data weighted "
            "less in the first half of the burn-in.",
            choices=(("smc", "smc: drawn trees"), ("annealed", "annealed: gradual weight of the data")),
        ),
    )
    noise: str = _setting(
        "word",
        "model",
        "Noise of numbers: constant, normal with one size for all rows; forest, its size different from row "
        "to row, by a second sum of trees for its logarithm; t, Student's t with degrees of freedom that are "
        "drawn, for outcomes some of which are far out; t-forest, both; mixture, up to ten normals with "
        "means and sizes of their own, for noise of any shape, such as that of two kinds of outcomes; auto, "
        "one whose short fits predict left-out rows clearly best, else forest unless something speaks "
        "against it, else constant (the default of method bart for numbers, else constant).",
        choices=tuple(NOISES),
        sparing=True,
        rare=True,
        form=FormField(
            "Noise",
            NOISE,
            "auto: by the data",
            "One size for all rows; or a size for each row, learnt by a second sum of trees, so that "
            "intervals are wide where outcomes vary much; or heavy tails, so that a few outcomes far out "
            "don't count too much; or both; or any shape, such as that of two kinds of outcomes; or what the "
            "data say.",
            choices=(
                (CONSTANT, "constant: one size"),
                ("auto", "auto: by the data"),
                ("forest", "forest: differs by row"),
                ("t", "t: heavy tails"),
                ("t-forest", "t-forest: both"),
                ("mixture", "mixture: any shape"),
            ),
        ),
    )
    linear: bool | str = _setting(
        "yes",
        "model",
        "Whether the sum of trees has a linear part beside it, with a slope for every number and for every "
        "level of a category but one (method bart, numbers, and for each class of categorical): better where "
        "the truth is nearly linear. auto: if a quick regression with one predicts left-out rows clearly "
        "better, or for classes and beside groups if it costs little (the default for numbers with normal "
        "noise and for classes, else false).",
        choices=("auto",),
        sparing=True,
        rare=True,
        form=FormField(
            "Linear part",
            NOISE,
            "auto: by the data",
            "A straight line for every column beside the trees, as steep as the outcomes say: better where "
            "the truth is nearly linear.",
            choices=(("false", "none"), ("true", "beside the trees"), ("auto", "auto: by the data")),
        ),
    )
    transform: str = _setting(
        "word",
        "model",
        "What the trees learn of numbers: none, the outcome itself; log, its logarithm; yeo-johnson, a power "
        "of it, for values of either sign; auto, whichever of these predicts left-out rows best in a quick "
        "regression, none unless it is clearly worse (the default of method bart with normal noise, else "
        "none). All answers are about the outcome itself.",
        choices=TRANSFORMS,
        sparing=True,
        rare=True,
        form=FormField(
            "Transform of the outcome",
            NOISE,
            "auto: by the data",
            "For skewed outcomes, such as prices: trees learn their logarithm, or a power of them; answers "
            "are about the outcomes themselves.",
            choices=(
                (NO_TRANSFORM, "none: the outcome itself"),
                ("log", "log: the logarithm"),
                ("yeo-johnson", "yeo-johnson: a power"),
                ("auto", "auto: by the data"),
            ),
        ),
    )
    categories: str = _setting(
        "word",
        "model",
        "How rules of trees part the levels of a category of more than two: indicators (the default), one "
        "level from all others; sets, any set of levels from the others, each as likely, and each feature as "
        "likely as any other (method bart).",
        default="indicators",
        choices=("indicators", "sets"),
        sparing=True,
        rare=True,
        form=FormField(
            "Rules of categories",
            "Prior",
            "indicators: one level from the others",
            "Whether a rule parts one level of a category from all others, or any set of levels.",
            choices=(("indicators", "indicators: one level"), ("sets", "sets: any set of levels")),
        ),
    )
    effects: str = _setting(
        "word",
        "model",
        "How the trees of a fit with a treatment learn its effect: bcf (the default), by a forest of its "
        "own, whose prior is about the effect, beside one of the mean, which has the probability of being "
        "treated as a column (Bayesian causal forest); ps-bart, by one forest with the treatment and that "
        "probability as columns; plain, by one forest with the treatment.",
        default="bcf",
        choices=("bcf", "ps-bart", "plain"),
        sparing=True,
        rare=True,
        form=FormField(
            "Effect of the treatment",
            TREATMENT,
            "bcf: a forest of its own",
            "A prior about the effect itself; or the treatment as one more column.",
            choices=(
                ("bcf", "bcf: a forest of its own"),
                ("ps-bart", "ps-bart: one forest, with the propensity"),
                ("plain", "plain: one forest"),
            ),
        ),
    )
    assignment: str = _setting(
        "word",
        "model",
        "How rows came to be treated: observed (the default), for reasons that the features may tell of; "
        "random, by chance, as in an experiment: then the probability of being treated is no column.",
        default="observed",
        choices=("observed", "random"),
        sparing=True,
        rare=True,
        form=FormField(
            "Assignment of the treatment",
            TREATMENT,
            "observed: for reasons",
            "Whether it was left to chance, as in an experiment.",
            choices=(("observed", "observed: for reasons"), ("random", "random: by chance")),
        ),
    )
    recalibrate: str = _setting(
        "word",
        "model",
        "Whether the law of outcomes, after the fit to numbers by a sum of trees, is changed to what 90 or "
        "more held-out rows say of it: auto (the default), so that predictive intervals of every level, "
        "means, samples and totals hold for rows like these; off, it is as the draws make it. The "
        "regression function and its credible intervals stay.",
        default="auto",
        choices=("auto", "off"),
        sparing=True,
        rare=True,
        form=FormField(
            "Recalibrated intervals",
            NOISE,
            "auto: by held-out rows",
            "Held-out rows tell where predictive intervals are too wide or too narrow, and make them hold.",
            choices=(("auto", "auto: by held-out rows"), ("off", "off: as the draws make them")),
        ),
    )
    search: dict[str, float] = _setting(  # noqa: RUF009
        "entries",
        "chains",
        f"Entries for dcc-tree: {', '.join(SEARCH)}; those not given have defaults.",
        sparing=True,
    )
    recipe: str = _setting(
        "word",
        "model",
        "The settings and the prior of a publication, where they are not given: cgm10, the default of "
        "Chipman, George and McCulloch (2010): 200 trees, k 2, nu 3, q .9, their moves, constant noise, no "
        "transform and no line; pg-bart, that with particle Gibbs (Lakshminarayanan, Roy and Teh 2015). "
        "Chains are as long and as many as by default.",
        default=NO_RECIPE,
        choices=(NO_RECIPE, *RECIPES),
        sparing=True,
        rare=True,
        form=FormField(
            "Recipe",
            SIZE,
            "none: the defaults here",
            "The settings of a publication in one word, for comparisons; what you fill in below goes before.",
            choices=tuple((name, recipe.text) for name, recipe in RECIPES.items()),
        ),
    )
    monotone: dict[str, str] = _setting(  # noqa: RUF009
        "directions",
        "model",
        "Features with which the mean (of two classes the probability of the second, of ordered ones that of "
        'higher classes) rises, "increasing", or falls, "decreasing", in every draw while the others stay: '
        "numbers, dates and booleans, by name. Method bart, families gaussian, probit and ordinal; without a "
        "linear part and without a treatment.",
        sparing=True,
        rare=True,
        form=FormField(
            "Monotone features",
            "Prior",
            "None",
            "Columns with which the outcome can only rise, or only fall, while the others stay. Intervals "
            "are narrower where that is true; where it is false, held-out scores show it.",
            kinds=("number", "date", "boolean"),
        ),
    )
    parts: dict[str, Any] = _setting(  # noqa: RUF009
        "parts",
        "model",
        "Further parts beside the trees, by name, with what each is told (method bart, families "
        f"gaussian, probit and ordinal). Installed: {', '.join(PART_SETTINGS) or 'none'}.",
        sparing=True,
        rare=True,
    )
    # Draws per chain between the burn-in and the kept ones (`Posterior.discard`); no setting of a request.
    discarded: int = field(default=0, kw_only=True)

    @classmethod
    def resolve(cls, beside: Combination = NOTHING, /, **arguments: Any) -> Settings:
        """Resolve given settings; None stands for the method's default (`sampler.methods`).

        `beside` is what else a fit is asked to have, which may not go with them. The default of `num_burnin`
        is the number of sampling iterations, at least 100 and at most the method's `most_burnin`.

        Returns
        -------
        Settings
            All settings, checked.

        Raises
        ------
        SettingsError
            For a value that is not accepted; the message lists what is.
        TypeError
            For a keyword that is not a setting.

        """
        unknown = sorted(arguments.keys() - SETTINGS.keys())
        if unknown:
            known = ", ".join(SETTINGS)
            hint = meant_setting(unknown[0], {*SETTINGS, "prior"})
            raise TypeError(f"unexpected keyword argument {unknown[0]!r}: settings are {known}{hint}")
        given = {name: arguments.get(name) for name in ("moves", "noise", "transform", "linear")}
        recipe = SETTINGS["recipe"].check("recipe", arguments.get("recipe") or NO_RECIPE)
        if recipe != NO_RECIPE:
            arguments = RECIPES[recipe].fill(arguments)
        method = arguments.get("method", SETTINGS["method"].default)
        kind = find_method(method)
        defaults = {name: setting.default for name, setting in SETTINGS.items()}
        values = {name: arguments.get(name, default) for name, default in defaults.items()}
        values |= {
            name: kind.num_trees_of(str(values["family"])) if name == "num_trees" else getattr(kind, name)
            for name, value in values.items()
            if value is None and defaults[name] is None and name not in LEFT_OPEN
        }
        for name, value in VALUES_OF_OLD_MODELS.items():
            if arguments.get(name) is None and not may_be_chosen_by_data(name, values):
                values[name] = value
        for name in ("family", "num_trees", "num_chains", "num_draws", "thin"):
            values[name] = SETTINGS[name].check(name, values[name])
        named = ("monotone", "start", "effects", "assignment", "parts")
        early = given | {name: arguments.get(name) for name in named}
        check(beside.but(early | {"method": method, "family": values["family"], "recipe": recipe}))
        if not isinstance(values["search"] or {}, Mapping):
            message = "search must be a dict of entries by name"
            raise SettingsError(message, field="search", code="not_accepted")
        absent = {"num_burnin": values["num_burnin"] or 0, "search": dict(values["search"] or {})}
        check_absent(values | absent, kind, defaults)
        values["monotone"] = resolve_monotone(values, arguments, kind)
        if values["num_burnin"] is None:
            values["num_burnin"] = min(kind.most_burnin, max(100, values["num_draws"] * values["thin"]))
        values["parts"] = resolve_parts(values)
        values["search"] = resolve_search(values["search"], kind.search, values["num_draws"])
        values["moves"] = resolve_moves(values["moves"], kind.move_sets, kind.moves)
        if has_particles(values):
            usual = {name: VALUES_OF_OLD_MODELS[name] for name in ("noise", "linear")}
            values |= {name: value for name, value in usual.items() if arguments.get(name) is None}
        settings = cls(**{name: setting.check(name, values[name]) for name, setting in SETTINGS.items()})
        check(beside.but(asdict(settings) | given))
        return settings

    @property
    def iterations(self) -> int:
        """Number of iterations of one chain, burn-in and sampling, or of a search over topologies."""
        if self.search:
            return int(self.search["iterations"])
        return self.num_burnin + (self.discarded + self.num_draws) * self.thin

    @property
    def kernel_groups(self) -> tuple[str, ...]:
        """Groups of `sampler.kernels.groups.GROUPS` that this fit and its predictions need."""
        engine, family = find_method(self.method).engine, FAMILIES[self.family]
        sources = (engine.kernels_of, family.kernels_of) if engine.forests else (engine.kernels_of,)
        own = family.kernels if engine.forests else ()
        extra = [source[name] for source in sources for name in (*self.moves, self.start) if name in source]
        return (*engine.kernels, *own, *extra, "prediction")

    @property
    def chain_identity(self) -> list[tuple[str, Any]]:
        """Settings that determine a chain's draws: all but the numbers of chains and draws."""
        values = self.to_json() | {"moves": sorted(self.moves.items())}
        lengths = ("num_chains", "num_draws", "discarded")
        return sorted((name, value) for name, value in values.items() if name not in lengths)

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in NOT_STORED_AT_DEFAULT or value not in (NOT_STORED_AT_DEFAULT[name], {})
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Read and check settings from the dict that `to_json` returned."""
        unknown = sorted(set(values) - {each.name for each in fields(cls)})
        if unknown:
            raise SettingsError(f"unknown setting {unknown[0]!r}", field=unknown[0], code="unknown")
        given = dict(values)
        discarded = given.pop("discarded", 0)
        if type(discarded) is not int or discarded < 0:
            message = f"discarded must be a whole number from 0 up, not {discarded!r}"
            raise SettingsError(message, field="discarded", code="out_of_range")
        return replace(cls.resolve(**VALUES_OF_OLD_MODELS | given), discarded=discarded)


def may_be_chosen_by_data(name: str, values: Mapping[str, Any]) -> bool:
    """Whether a default may be chosen by the data: of numbers with normal noise; the line also of classes."""
    noise = NOISES.get(str(values["noise"]))
    normal = noise is not None and noise.is_normal
    family = FAMILIES.get(str(values["family"]))
    chosen = family is not None and (family.noise or (name == "linear" and values["family"] == "categorical"))
    return chosen and normal and values["prior_only"] is not True


SETTINGS: dict[str, Setting] = {
    each.name: each.metadata["setting"] for each in fields(Settings) if "setting" in each.metadata
}
NOT_STORED_AT_DEFAULT = {
    "discarded": 0,
    **{name: VALUES_OF_OLD_MODELS.get(name, each.default) for name, each in SETTINGS.items() if each.sparing},
}
LIMITS = {
    name: (int(setting.limits[0]), int(setting.limits[1]))
    for name, setting in SETTINGS.items()
    if setting.limits is not None
}
ALL_SETTINGS: dict[str, Setting] = {  # by name; entries of prior, search and stop with a dot
    **ROLES,
    **FORECAST,
    **SETTINGS,
    **{f"prior.{name}": entry for name, entry in PRIOR.items()},
    **{f"search.{name}": entry for name, entry in SEARCH.items()},
    **{f"parts.{name}": entry for name, entry in PART_SETTINGS.items()},
    **{f"stop.{name}": rule for name, rule in STOP.items()},
    "holdout": HOLDOUT,
    "calibrate": CALIBRATE,
    "missing_target": MISSING_TARGET,
}
LABELS = {name: setting.form.label for name, setting in ALL_SETTINGS.items() if setting.form is not None}
_FOR_PROGRAMS = re.compile(r" [(](?:new_rows|propensity_overfits|unsupported|[a-z]+[.][a-z_]+|of=\w+)[)]")
IN_WORDS = LABELS | {"partial_dependence": "the partial dependence"}


def labelled(text: str) -> str:
    """Replace settings as programs write them, ``num_chains=8`` or its name alone, by labels of form fields.

    Words in parentheses that are for programs alone are left out.
    """
    text = re.sub(
        r"\b([a-z_]+)=\"?([\w-]+(?:\.\d+)?)\"?",
        lambda found: f"{LABELS[found[1]]}: {found[2]}" if found[1] in LABELS else found[0],
        _FOR_PROGRAMS.sub("", text),
    )
    return re.sub(r"(?<![\w'])[a-z]+_[a-z_]+(?![\w'(])", lambda found: IN_WORDS.get(found[0], found[0]), text)
