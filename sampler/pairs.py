"""Refusals of fits: one table of pairs that don't go together, asked before anything is computed.

A fit may have two things together unless an entry says otherwise; settings that a method has no use for are
in `sampler.methods.Method.absent`, and entries of the prior that a family doesn't have in its `prior`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from sampler.definitions.data import CENSORING, COLUMN_ROLES
from sampler.definitions.pairs import OF_OTHERS, Combination, Pair
from sampler.definitions.parts import PART_SETTINGS, PARTS
from sampler.definitions.prior import ABSOLUTE
from sampler.definitions.recipes import NO_RECIPE, RECIPES
from sampler.definitions.tree_laws import DEPTH, TREE_LAWS
from sampler.errors import SettingsCode, SettingsError
from sampler.families import FAMILIES, Family, takes
from sampler.methods import METHODS
from sampler.moves import MOVE_SETS, PARTICLE_GIBBS
from sampler.noise import CONSTANT, NOISES
from sampler.noise import KINDS as NOISE_KINDS

CHOICES = {  # values that a way may set
    "method": tuple(METHODS),
    "family": tuple(FAMILIES),
    "noise": NOISE_KINDS,
    "transform": ("none", "log", "yeo-johnson"),
    "effects": ("bcf", "ps-bart", "plain"),
    "calibrate": ("holdout", "folds"),
}
ALONE = "outcomes=1"  # the way of a fit to each outcome
AT_REST = (None, (), "bcf", "observed")  # values of what is of use beside others
CONTRADICTION: SettingsCode = "contradiction"
OF_PRIORS = tuple(dict.fromkeys(name for family in FAMILIES.values() for name in family.prior))
NOT_OF_FORECASTS = (
    *COLUMN_ROLES,
    *(
        "levels",
        "propensity",
        "groups",
        "adoption",
        "period",
        "slopes",
        "parts",
        "monotone",
        "columns",
        "holdout",
        "subgroups",
    ),
)
NOT_OF_SEVERAL = (
    *(name for name in COLUMN_ROLES if name != "weights"),
    *("levels", "propensity", "adoption", "period", "slopes", "parts", "holdout", "new_rows"),
    "subgroups",
)
ONLY_OF_SEVERAL: dict[str, tuple[Any, ...]] = {  # settings that several outcomes have one value of
    "family": ("gaussian", "auto"),
    "method": ("bart",),
    "start": ("stumps",),
    "noise": (CONSTANT, "forest"),
    "transform": ("none",),
    "recipe": (NO_RECIPE, "cgm10", "pg-bart"),
    "calibrate": ("none",),
}


def _name_of_family(asked: Combination) -> str:
    name = str(asked["family"])
    return name if name in FAMILIES else "gaussian"


def _family(asked: Combination) -> Family:
    return FAMILIES[_name_of_family(asked)]


def _has_trees(asked: Combination) -> bool:
    """Tell whether the method is a sum of trees; an unknown one is refused elsewhere."""
    name = str(asked["method"])
    return name not in METHODS or METHODS[name].engine.forests


def _moves(asked: Combination) -> Collection[str]:
    """Return the moves that have a probability."""
    moves = asked["moves"] or "default"
    if moves == "default" and str(asked["recipe"]) in RECIPES:
        moves = RECIPES[asked["recipe"]].settings["moves"]
    if isinstance(moves, Mapping):
        return [name for name, share in moves.items() if share]
    return MOVE_SETS.get(str(moves), {}) if moves != "default" else ()


def _lacking(asked: Combination) -> list[str]:
    """List the moves that trees of the family don't know."""
    known = _family(asked).moves if _has_trees(asked) else ()
    return [name for name in _moves(asked) if known and name not in known]


def _is_of_recipe(asked: Combination) -> bool:
    recipe = RECIPES.get(str(asked["recipe"]))
    return recipe is None or recipe.is_for(asked["method"], asked["family"])


def _without(role: str) -> Callable[[Combination], bool]:
    return lambda asked: not takes(_name_of_family(asked), role)


def _without_entry(name: str) -> Callable[[Combination], bool]:
    return lambda asked: _has_trees(asked) and name not in (_family(asked).prior or OF_PRIORS)


def _another(name: str) -> Callable[[Combination], bool]:
    return lambda asked: asked[name] not in (None, *ONLY_OF_SEVERAL[name])


KINDS: dict[str, Callable[[Combination], bool]] = {
    "several outcomes": lambda asked: (asked["outcomes"] or 1) > 1,
    "one outcome": lambda asked: (asked["outcomes"] or 1) == 1,
    "a class beside numbers": lambda asked: "probit" in (asked["families"] or ()),
    "features by outcome": lambda asked: isinstance(asked["features"], Mapping),
    "single trees": lambda asked: not _has_trees(asked),
    "a method without the family": lambda asked: (
        _name_of_family(asked) not in METHODS.get(str(asked["method"]), METHODS["bart"]).families
    ),
    "a recipe": lambda asked: asked["recipe"] not in (None, NO_RECIPE),
    "what the recipe isn't for": lambda asked: not _is_of_recipe(asked),
    "censored outcomes": lambda asked: any(asked[role] is not None for role in CENSORING),
    "limits": lambda asked: asked["lower"] is not None or asked["upper"] is not None,
    "no treatment": lambda asked: asked.values.get("treatment", "unknown") is None,
    "a dose": lambda asked: asked["treatment"] is not None and asked["arms"] == (),
    "no adoption": lambda asked: asked["adoption"] is None,
    "no period": lambda asked: asked["period"] is None,
    "no groups": lambda asked: not asked["groups"],
    "no calibration": lambda asked: asked["calibrate"] == "none",
    "no rows held out": lambda asked: asked["calibrate"] in ("none", "folds"),
    "declared new rows": lambda asked: asked["new_rows"] not in (None, "like_these"),
    "a family without groups": lambda asked: _has_trees(asked) and not _family(asked).groups,
    "a family without directions": lambda asked: (
        _has_trees(asked) and ("log-linear-trees" in _family(asked).kernels or _family(asked).point)
    ),
    "a family without order": lambda asked: not _family(asked).has_order,
    "a family without noise": lambda asked: not _family(asked).noise,
    "a family without transform": lambda asked: not _family(asked).noise,
    "a family without linear": lambda asked: not (_family(asked).noise or _family(asked).line),
    "a family of more than numbers": lambda asked: _family(asked).target != "numbers" or _family(asked).point,
    "counts": lambda asked: _family(asked).target == "counts" and not _family(asked).zeros,
    "counts with more zeros": lambda asked: _family(asked).zeros,
    "noise that isn't constant": lambda asked: asked["noise"] not in (None, CONSTANT),
    "noise that isn't normal": lambda asked: (
        _family(asked).noise and not NOISES.get(str(asked["noise"]), NOISES[CONSTANT]).is_normal
    ),
    "a transform": lambda asked: asked["transform"] not in (None, "none"),
    "yeo-johnson": lambda asked: asked["transform"] not in (None, "none", "log", "auto"),
    "particle Gibbs": lambda asked: PARTICLE_GIBBS in _moves(asked),
    "local moves": lambda asked: _has_trees(asked) and {*_moves(asked)} != {PARTICLE_GIBBS},
    "trees without a density": lambda asked: (
        not TREE_LAWS.get(str(asked["prior.trees"]), TREE_LAWS[DEPTH]).density
    ),
    "moves that the family lacks": lambda asked: bool(_lacking(asked)),
    "a start that the family lacks": lambda asked: (
        _has_trees(asked)
        and asked["start"] == "smc"
        and PARTICLE_GIBBS not in (_family(asked).moves or (PARTICLE_GIBBS,))
    ),
    "moves that don't keep order": lambda asked: bool({*_moves(asked)} - {"grow", "prune"}),
    "a family that isn't forecast": lambda asked: (
        asked["family"] not in (None, "gaussian", "auto") and _family(asked).target != "counts"
    ),
    "effects of another kind": lambda asked: asked["effects"] not in (None, "bcf"),
    **{f"a family without {role}": _without(role) for role in COLUMN_ROLES if role not in CENSORING},
    **{f"a family without prior {name}": _without_entry(name) for name in OF_PRIORS},
    **{f"another {name}": _another(name) for name in ONLY_OF_SEVERAL},
}
TREATED = "is about a treatment, whose column treatment names"
MONOTONE = "monotone features go with sums of trees of numbers, two classes and ordered ones"
GROUPS = "groups have intercepts beside a sum of trees, of numbers, two classes or ordered ones"
PANEL = "adoption is of panels of numbers, by a sum of trees"
CENSORED = "with event, lower or upper outcomes are censored"

# In the order in which they are asked: the first that refuses is told.
TABLE: tuple[Pair, ...] = (
    Pair("features by outcome", "one outcome", "features by outcome are of several outcomes", "features",
         ("features",)),
    *(Pair("several outcomes", name, f"several outcomes take no {name}", name, (name, ALONE))
      for name in NOT_OF_SEVERAL),
    *(Pair("several outcomes", f"another {name}",
           f"several outcomes need {name} {' or '.join(only)}, not {{{name}!r}}", name,
           ({"family": "family=auto", "noise": "noise="}.get(name, name), ALONE))
      for name, only in ONLY_OF_SEVERAL.items()),
    Pair("a class beside numbers", "noise=forest", "noise by row is of outcomes that are all numbers",
         "noise", ("noise", ALONE)),
    *(Pair("several outcomes", f"prior.{name}", f"prior entry {name} is in units of one outcome",
           f"prior.{name}", (f"prior.{name}", ALONE))
      for name in ABSOLUTE),
    *(Pair("time", kind, f"forecasts {reason}", field, (way,))
      for kind, reason, field, way in (
          ("several outcomes", "are of one outcome", "time", ALONE),
          ("declared new rows", "are of the next steps, which new rows are then", "new_rows", "new_rows"),
          ("calibrate=holdout", "are calibrated by rehearsals", "calibrate", "calibrate=folds"),
          ("single trees", "are by sums of trees", "method", "method="),
          ("a family that isn't forecast", "are of numbers and counts, not {family}", "family", "family="),
          ("noise that isn't constant", "have constant noise", "noise", "noise"),
          ("a transform", "have members with and without the logarithm", "transform", "transform"),
          ("a recipe", "have settings of their own", "recipe", "recipe"),
          ("categories=sets", "have rules by indicators of levels", "categories", "categories"),
          *((name, f"take no {name}", name, name) for name in NOT_OF_FORECASTS))),
    Pair("holdout", "no rows held out",
         'holdout is the share of the rows by which calibrate="holdout" calibrates (for rows to score a fit '
         "by, choose them with `holdout_rows`, and fit to the others)", "holdout",
         ("calibrate=holdout", "holdout")),
    Pair("declared new rows", "no calibration", "new_rows tells by which rows intervals are calibrated",
         "new_rows", ("calibrate=", "new_rows")),
    Pair("subgroups", "no calibration", "subgroups are those in which calibrated intervals hold", "subgroups",
         ("calibrate=", "subgroups")),
    Pair("a recipe", "what the recipe isn't for",
         "recipe {recipe} is for method bart with family {families_of_recipe}", "recipe",
         ("recipe", "family=")),
    Pair("family", "a method without the family",
         "family {family} goes with method {methods_of_family}; method {method} takes family "
         "{families_of_method}", "family", ("method=", "family="), CONTRADICTION),
    Pair("event", "limits", "event is for times, each seen or censored, lower and upper for limits",
         "event", ("event", "lower+upper"), CONTRADICTION),
    *(Pair("adoption", kind, f"{PANEL}; {why}", field, ways)
      for kind, why, field, ways in (
          ("a family of more than numbers", "family {family} has others", "adoption", ("family=", "groups")),
          ("censored outcomes", "all of them are known", "adoption", ("event+lower+upper", "adoption")))),
    Pair("groups", "single trees", f"{GROUPS}; method {{method}} has no place for them beside its tree",
         "groups", ("method=", "groups")),
    Pair("groups", "a family without groups", f"{GROUPS}; family {{family}} has none", "groups",
         ("family=", "groups")),
    Pair("groups", "noise that isn't normal",
         f"{GROUPS}; they don't go with noise={{noise}}, which is not normal", "groups",
         ("noise=", "groups")),
    Pair("period", "no adoption", "period is that of a panel, whose adoptions adoption names", "period",
         ("period",), CONTRADICTION),
    Pair("adoption", "treatment", "adoption makes the treatment of a panel", "treatment",
         ("treatment", "adoption"), CONTRADICTION),
    *(Pair("adoption", f"no {beside}", f"adoption needs {what}", "adoption", ("adoption",), CONTRADICTION)
      for beside, what in (("period", "the feature that is a row's period (period)"),
                           ("groups", "the column of units (groups)"))),
    *(Pair("adoption", kind, f"{field} {of}", field, (field,))
      for kind, field, of in (
          ("propensity", "propensity", "is of treatments: cohorts of a panel have intercepts in its place"),
          ("effects of another kind", "effects", "is of treatments: a lag in a panel has a forest"),
          ("assignment=random", "assignment", "is of treatments: a panel compares trends"),
          ("monotone", "monotone", "is refused in a panel, whose lags have trees without order"))),
    *(Pair(f"parts.{name}", kind,
           f"{name} stands beside a sum of trees of numbers, two classes or ordered ones", f"parts.{name}",
           (way, f"parts.{name}"))
      for name in PART_SETTINGS
      for kind, way in (("single trees", "method="), ("a family without groups", "family="))),
    Pair("slopes", "no groups", "slopes differ by group, so name the columns of groups too (groups)",
         "slopes", ("slopes",), CONTRADICTION),
    Pair("censored outcomes", "single trees", f"{CENSORED}, which method {{method}} doesn't take", "method",
         ("method=",)),
    Pair("censored outcomes", "a family of more than numbers", f"{CENSORED} numbers, not {{family}}",
         "family", ("family=", "event+lower+upper")),
    Pair("censored outcomes", "noise that isn't normal", f"{CENSORED}: their noise is normal", "noise",
         ("noise=",)),
    Pair("censored outcomes", "yeo-johnson",
         f"{CENSORED}: the power of yeo-johnson would be chosen by outcomes that are not known", "transform",
         ("transform=",)),
    Pair("censored outcomes", "weights", "censored outcomes take no weights", "weights", ("weights",)),
    *(Pair(name, f"a family without {name}", role.refusal, name, ("family=", name))
      for name, role in COLUMN_ROLES.items() if not role.of_outcome),
    Pair("no treatment", "propensity", f"propensity {TREATED}", "propensity", ("propensity",)),
    Pair("no treatment", "effects of another kind", f"effects {TREATED}", "effects", ("effects",)),
    Pair("no treatment", "assignment=random", f"assignment {TREATED}", "assignment", ("assignment",)),
    Pair("treatment", "single trees", "treatment needs method bart, not {method}", "method",
         ("method=", "treatment"), CONTRADICTION),
    Pair("treatment", "counts with more zeros", "{family} has zeros that a treatment might change too",
         "family", ("family=", "treatment"), CONTRADICTION),
    Pair("a dose", "counts", "a dose is for numbers and two classes (arms are 0 and 1, or names)", "family",
         ("family=", "treatment"), CONTRADICTION),
    *(Pair(f"{name}={value}", "propensity", f"{name} {value} uses no propensity", "propensity",
           ("propensity", name), CONTRADICTION)
      for name, value in (("effects", "plain"), ("assignment", "random"))),
    Pair("weights", "noise=mixture", "weights don't go with noise=mixture", "weights", ("weights", "noise=")),
    Pair("levels", "a family without order", "levels are the order of classes", "levels",
         ("family=", "levels")),
    Pair("monotone", "single trees", MONOTONE, "monotone", ("method=", "monotone")),
    Pair("monotone", "a family without directions", MONOTONE, "monotone", ("family=", "monotone")),
    Pair("monotone", "treatment", "a treatment's effect has trees of its own, whose leaves have no order",
         "monotone", ("monotone",)),
    *(Pair("monotone", kind, f"{field} with {value} doesn't keep leaves of monotone features in order", field,
           (field, "recipe", "monotone"), CONTRADICTION)
      for field, kind, value in (
          ("linear", "linear", "true"), ("start", "start=smc", "smc"),
          ("moves", "moves that don't keep order", "{moves_without_order}"))),
    *(Pair("categories=sets", kind, f"categories=sets {reason}", "categories", ways)
      for kind, reason, ways in (
          ("single trees", "is of sums of trees, whose features have shares in rules",
           ("method=", "categories")),
          ("treatment", "doesn't go with a treatment, whose effect has trees of its own", ("categories",)),
          ("adoption", "doesn't go with a panel, whose lags have trees of their own", ("categories",)),
          ("monotone", "doesn't go with monotone features, whose trees have another update",
           ("categories", "monotone")),
          ("prior.sparse", "gives all features one share in rules, and sparse draws shares",
           ("categories", "prior.sparse")))),
    *(Pair(f"a family without {field}", kind,
           f"{field} must be {default} with family {{family}}, since {why}", field,
           (field, "family="), CONTRADICTION)
      for field, kind, default, why in (
          ("noise", "noise that isn't constant", "constant", "only numbers have noise of their own"),
          ("linear", "linear", "false", "only numbers and classes (categorical) have a linear part"),
          ("transform", "a transform", "none", "only numbers are transformed"))),
    Pair("a transform", "noise that isn't normal",
         "transform must be none with noise={noise}: a mean of transformed outcomes is known for normal "
         "noise alone", "transform", ("transform", "noise="), CONTRADICTION),
    *(Pair("family", kind, f"{field} with {value} has no meaning for family {{family}}, whose trees have "
           "{moves_of_family} alone", field, (field,))
      for field, kind, value in (("moves", "moves that the family lacks", "{moves_lacking}"),
                                 ("start", "a start that the family lacks", "smc"))),
    *(Pair(f"prior.{name}", f"a family without prior {name}",
           f"prior {name} has no meaning for {{family}}; accepted are {{prior_of_family}}", f"prior.{name}",
           (f"prior.{name}", "family="))
      for name in OF_PRIORS),
    *(Pair("trees without a density", kind,
           f"prior trees {{trees}} can be drawn, but their density isn't known: {why}", field, ways)
      for kind, why, field, ways in (
          ("local moves", "all trees are drawn by particle Gibbs, and other moves ask for it", "moves",
           ("moves=pg", "prior.trees")),
          ("prior.sparse", "the draw of shares of columns asks for it", "prior.sparse",
           ("prior.sparse", "prior.trees")))),
    *(Pair("prior.num_trees", kind,
           f"the number of trees is drawn (prior num_trees) by moves of single trees, and {why}",
           "prior.num_trees", ways)
      for kind, why, ways in (
          ("several outcomes", "several outcomes have trees of one number", ("prior.num_trees", ALONE)),
          ("particle Gibbs", "particle Gibbs (pg) makes others", ("moves", "prior.num_trees")),
          ("start=smc", "a start by particles (smc) makes others", ("start", "prior.num_trees")),
          ("monotone", "monotone features have others", ("prior.num_trees", "monotone")),
          ("treatment", "a treatment's effect has trees of a fixed number", ("prior.num_trees",)),
          ("adoption", "lags of a panel have trees of a fixed number", ("prior.num_trees",)))),
    Pair("prior.sigma", "prior.lambda", "prior takes sigma (known noise) or lambda (its scale), not both",
         "prior.sigma", ("prior.sigma", "prior.lambda"), CONTRADICTION),
    Pair("prior.sigma", "noise=mixture",
         "prior sigma has no meaning with noise=mixture, whose components have sds of their own (lambda is "
         "their scale)", "prior.sigma", ("prior.sigma", "noise="), CONTRADICTION),
    *(pair for part in PARTS.values() for pair in part.refuses),
    *(Pair(name, lambda _: True, f"the sampler is installed without {name}", name, (name,))
      for name in ("treatment", "groups", "monotone") if name not in PARTS),
)  # fmt: skip
FACTS: dict[str, Callable[[Combination], str]] = {  # further words of reasons
    "families_of_recipe": lambda asked: _joined(RECIPES[str(asked["recipe"])].prior, "and"),
    "families_of_method": lambda asked: _joined(METHODS[str(asked["method"])].families),
    "methods_of_family": lambda asked: _joined(
        name for name, method in METHODS.items() if asked["family"] in method.families
    ),
    "trees": lambda asked: str(asked["prior.trees"]),
    "prior_of_family": lambda asked: ", ".join(_family(asked).prior),
    "moves_of_family": lambda asked: ", ".join(_family(asked).moves),
    "moves_lacking": lambda asked: _lacking(asked)[0],
    "moves_without_order": lambda asked: min({*_moves(asked)} - {"grow", "prune"}),
}


def refusals_of(asked: Combination) -> Iterator[Pair]:
    """Yield the entries by which what is asked doesn't go together."""
    known: dict[str | Callable[[Combination], bool], bool] = {}  # most kinds are of several entries

    def is_of(kind: str | Callable[[Combination], bool]) -> bool:
        if kind not in known:
            known[kind] = _is(kind, asked)
        return known[kind]

    return (pair for pair in TABLE if is_of(pair.one) and is_of(pair.other))


def check(asked: Combination) -> None:
    """Raise SettingsError for the first two things that don't go together, with the ways that work."""
    pair = next(refusals_of(asked), None)
    if pair is None:
        return
    ways = [*ways_of(pair, asked)]
    raise SettingsError(
        sentence(pair, asked, ways),
        field=pair.field,
        code=pair.code,
        ways=[changes for _, changes in ways],
    )


def sentence(pair: Pair, asked: Combination, ways: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    """Compose what is said of a refusal: why, and the ways that work."""
    facts = {name: fact(asked) for name, fact in FACTS.items() if f"{{{name}}}" in pair.reason}
    by_words: dict[str, list[str]] = {}
    for words, changes in ways:
        by_words.setdefault(words, []).extend(map(str, changes.values()))
    said = ", or ".join(words.format(_joined(values)) for words, values in by_words.items())
    return pair.reason.format_map({**asked.values, **facts}) + (f": {said}" if said else "")


def ways_of(pair: Pair, asked: Combination) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the ways out of a refusal that no entry refuses next: in words, and as changed values."""
    before = {*map(id, refusals_of(asked))} - {id(pair)}
    for way in pair.ways:
        for words, changes in _changes(way, asked):
            other = asked.but(changes)
            suits = "family" not in changes or asked.suits(str(changes["family"]))
            if suits and all(id(each) in before for each in refusals_of(other)):
                yield words, changes


def _changes(way: str, asked: Combination) -> Iterator[tuple[str, dict[str, Any]]]:
    name, sets, value = way.partition("=")
    if way == ALONE:
        yield "fit each outcome by itself", {name: 1}
    elif sets:
        for each in (value,) if value else CHOICES[name]:
            if each != asked[name]:
                yield f"set {name}={{}}", {name: each}
    else:
        names = [each for each in name.split("+") if _is(each, asked)]
        names += [each for one in names for each in OF_OTHERS.get(one, ()) if asked[each] not in AT_REST]
        if names:
            yield f"leave out {_joined(names, 'and')}", dict.fromkeys(names)


def _is(kind: str | Callable[[Combination], bool], asked: Combination) -> bool:
    """Tell whether what is asked is of a kind."""
    if not isinstance(kind, str):
        return kind(asked)
    if kind in KINDS:
        return KINDS[kind](asked)
    if "=" in kind:
        name, _, value = kind.partition("=")
        return bool(asked[name] == value)
    given = asked[kind]
    return (
        given is not None
        and given is not False
        and not (isinstance(given, str | tuple | list | dict) and not given)
    )


def _joined(names: Iterable[str], word: str = "or") -> str:
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last
