"""Every kind of model answers each question, or refuses it as the table says; rows at rules are recounted."""

import warnings
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import get_args

import numpy as np
import pytest

from sampler import DataWarning, Posterior, SettingsError, fit
from sampler.posterior.assessment.row_diagnostics import model_verdict
from sampler.posterior.explanations import aggregates
from sampler.posterior.explanations.set_sums import SetSums
from sampler.posterior.refusals import KINDS, REFUSALS, AskedOfLaw, refusal_of
from sampler.posterior.several.stored import outcomes_of
from sampler.posterior.stop_rules import check_rules
from sampler.posterior.untrusted import read_contents
from sampler.posterior.verdict.effects import CREDIBLE
from tests.support import answer_digests, fit_digests

ROWS = 60
ARMS = ["none", "low", "high"]
QUICK = {
    "poisson bcf two", "probit ps-bart two", "gaussian plain dose", "hurdle", "noise-forest", "times",
    "classes", "ordered", "bcart-mean-variance", "rjhmc-df",
}  # fmt: skip
TREATED = [
    f"{family} {effects} {treatment}"
    for family in ("gaussian", "probit", "poisson", "negative-binomial")
    for effects in ("bcf", "ps-bart", "plain")
    for treatment in ("two", "arms", *(["dose"] if family in ("gaussian", "probit") else []))
]
MODELS = [*TREATED, *answer_digests.CASES, "noise-mixture", "monotone", "several one", "several two"]


def rows_of(name: str) -> dict:
    """Return rows of a kind of model, with their treatments."""
    outcome = fit_digests.CASES[name][0] if name in fit_digests.CASES else "number"
    columns = fit_digests.data(outcome)[0]
    if name not in TREATED:
        return columns
    dice = np.random.default_rng(5)
    drawn = {"two": [0, 1], "arms": ARMS, "dose": np.round(dice.uniform(0, 5, ROWS), 2)}[name.split()[2]]
    return columns | {"treatment": dice.choice(drawn, ROWS).tolist()}


@cache
def fitted(name: str) -> Posterior:
    """Fit a kind of model with short chains."""
    short = {"num_trees": 6, "num_chains": 2, "num_burnin": 20, "num_draws": 8, "thin": 1, "seed": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        if name == "monotone":
            X, y, _ = fit_digests.data("number")
            return fit(
                X,
                y,
                monotone={"last": "decreasing"},
                noise="constant",
                transform="none",
                progress=False,
                **short,
            )
        if name.startswith("several "):  # as the file of all outcomes has it
            X, y, _ = fit_digests.data("number")
            joint = fit(X, {"one": y, "two": y[::-1]}, progress=False, **short)
            outcomes = outcomes_of(read_contents(joint.to_bytes()).posterior)
            return next(each for each in outcomes if each.header.schema.target.name == name.split()[1])
        if name not in TREATED:
            return fit_digests.fitted(name)
        family, effects, _ = name.split()
        X = rows_of(name)
        z = X.pop("treatment")
        y = fit_digests.data({"gaussian": "number", "probit": "two"}.get(family, "count"))[1]
        return fit(X, y, treatment=z, family=family, effects=effects, progress=False, **short)


def questions(posterior: Posterior, rows: dict) -> list[tuple[tuple[AskedOfLaw, ...], object]]:
    """Return what is asked, each with the questions of the table that it is, none for what all answer."""
    some = {name: values[:5] for name, values in rows.items()}
    many = {name: values[:30] for name, values in rows.items()}
    y = [posterior.classes[0]] * 5 if posterior.classes else [1.0] * 5
    if posterior.censoring:
        some, many = some | {"event": [True] * 5}, many | {"event": [True] * 30}
    of_five, of_30 = ([1.0] * number if posterior.header.weighted else None for number in (5, 30))
    new = {name: values for name, values in some.items() if name in rows}
    refused: dict[AskedOfLaw, object] = {  # whose answers have tests of their own
        "placebo": posterior.placebo,
        "roc": lambda: posterior.plot.roc(new, y),
        "residuals": lambda: posterior.plot.residuals(new, y),
    }
    return [
        (("shap",), lambda: posterior.shap(new, new)),
        (("shap",), lambda: posterior.shap(game="path-dependent", max_draws=3)),
        (("interactions",), lambda: posterior.interactions(["last", "kind"], max_draws=3)),
        (("usage by rows",), lambda: posterior.inclusion(by="rows")),
        (("parts of noise",), lambda: posterior.inclusion(of="noise")),
        (("parts of noise",), lambda: posterior.partial_dependence("last", of="noise")),
        (("parts of noise", "usage of noise by rows"), lambda: posterior.inclusion(of="noise", by="rows")),
        (("effects",), lambda: posterior.effects(new)),
        (("effects",), lambda: posterior.partial_dependence("last", of="effect")),
        (("survival",), lambda: posterior.survival(new, [0.5, 1.0])),
        (("counts",), lambda: posterior.pmf(new, 3)),
        (("distribution",), lambda: posterior.distribution(new).quantile([0.1, 0.9])),
        (("distribution", "crps"), lambda: posterior.distribution(new).crps(y)),
        (("density",), lambda: posterior.density({name: values[1:2] for name, values in new.items()})),
        (("squared error",), lambda: posterior.compare(posterior, some, y, of_five)),
        (("calibration",), lambda: posterior.calibrate(many, y * 6, of_30).header.calibration.draws),
        (("quantiles of sets",), lambda: posterior.aggregate(new, of="quantile", q=0.5)),
        (("known outcomes of sets",), lambda: posterior.aggregate(new, observed=[1.0, *[None] * 4])),
        (("weights",), lambda: posterior.sample_predictive(new, weights=[1.0] * 5)),
        *(((each,), ask) for each, ask in refused.items() if refusal_of(each, posterior.law)),
        ((), posterior.inclusion),
        ((), lambda: posterior.partial_dependence(["last", "kind"], new)),
        ((), lambda: posterior.accumulated_effects("last", new)),
        ((), lambda: posterior.contrast(new, {"last": 0.2}, {"last": 0.9})),
        ((), lambda: posterior.importance(some, y, of_five, permutations=2)),
        ((), lambda: posterior.aggregate(new, interval="credible")),
        ((), lambda: [posterior.groups(), posterior.linear_part(), posterior.topologies()]),
    ]


def check(name: str) -> None:
    """Ask a kind of model everything, as its file has it: answers are finite, refusals those of the table."""
    posterior = fitted(name)
    if posterior.several is None:
        posterior = Posterior.from_bytes(posterior.to_bytes())
    for of, ask in questions(posterior, rows_of(name)):
        refused = next(filter(None, (refusal_of(each, posterior.law) for each in of)), None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            if refused is None:
                assert all(map(finite, leaves(ask()))), (name, of)
                continue
            with pytest.raises(SettingsError) as error:
                ask()
        found = (str(error.value), error.value.field, error.value.code)
        assert found == (refused.sentence, refused.field, "not_applicable"), (name, of)
    recompute(posterior, {name: values[:5] for name, values in rows_of(name).items()})
    if not refusal_of("usage by rows", posterior.law):
        assert posterior.inclusion(by="rows").mean == pytest.approx(recounted(posterior), abs=1e-12)


def recompute(posterior: Posterior, rows: dict) -> None:
    """Compute explanations again by predictions, or by leaves that plain Python goes to."""

    def mean(**columns):
        changed = rows | {name: [value] * 5 for name, value in columns.items()}
        return posterior.predict(changed, ignore_extra=True).mean

    if posterior.settings["method"] in ("smc", "dcc-tree"):
        return  # whose explanations repeat draws in proportion to their weights, and predictions weigh them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        point = posterior.partial_dependence("last", rows, {"last": [0.3]}).mean[0]
        assert point == pytest.approx(mean(last=0.3).mean(axis=0), abs=1e-6)
        contrast = posterior.contrast(rows, {"last": 0.2}, {"last": 0.9})
        assert contrast.mean == pytest.approx(mean(last=0.2) - mean(last=0.9), abs=1e-6)
        assert contrast.average.mean == pytest.approx(contrast.mean.mean(axis=0))
        if posterior.law.effects is not None:
            effects, column = posterior.effects(rows), posterior.header.beside["treatment"]
            named = [arm if arm in ARMS else float(arm) for arm in (effects.arm, effects.against)]
            one, other = (mean(**{column: arm}) for arm in named)
            by_unit = effects.dose is not None and effects.dose.by_unit
            unit = np.subtract(*named) if by_unit else 1.0
            assert effects.mean == pytest.approx((one - other) / unit, abs=1e-4)
        if refusal_of("shap", posterior.law):
            return
        shap = posterior.shap(rows, rows)
    total = np.reshape(shap.base_values + shap.values.sum(axis=1), (5, -1))
    assert total == pytest.approx(walked(posterior, posterior.encode(rows)), abs=1e-9)


def walked(posterior: Posterior, coded) -> np.ndarray:
    """Average what the forests to explain say of rows, [row, forest], over draws, in plain Python."""
    law, totals = posterior.law, []
    for forest in law.forests_to_explain()[1]:
        trees, sums = forest.draws, np.zeros((forest.draws.num_draws, coded.num_rows))
        for number, start in enumerate(trees.tree_start[:-1].tolist()):
            for place, row in enumerate(coded.codes.T):
                sums[number // trees.num_trees, place] += forest.leaf[reached(trees, start, row)]
        if forest.slopes is not None:
            sums += forest.slopes.values @ forest.slopes.terms_of(coded)
        alike = law.weights.spaced(posterior.num_draws, len(sums))
        totals.append(forest.offset + sums[alike].mean(axis=0))
    return np.array(totals).T


def reached(trees, node: int, row) -> int:
    """Return the leaf that a row comes to."""
    while (feature := int(trees.feature[node])) >= 0:
        code = int(row[feature])
        left = bool(trees.missing_left[node]) if code == 255 else code <= int(trees.cut[node])
        node = node + 1 if left else below(trees, node + 1, row, (), (), follows=False)
    return node


def leaves(value) -> list:
    """List the numbers and arrays of an answer."""
    if is_dataclass(value):
        return [
            leaf
            for field in fields(value)
            for leaf in leaves(getattr(value, field.name))
            if field.name != "data"
        ]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list | tuple):
        return [leaf for each in value for leaf in leaves(each)]
    return [value] if isinstance(value, float | np.ndarray) else []


def finite(value) -> bool:
    """Tell whether an answer is no infinite number, nor a missing one besides single figures."""
    return bool(np.all(np.isfinite(value))) if getattr(value, "dtype", np.dtype(float)).kind == "f" else True


def recounted(posterior: Posterior) -> np.ndarray:
    """Count the rows at the rules on each feature in plain Python, as shares of all of a draw."""
    law, header = posterior.law, posterior.header
    coded = law.draws.reference
    codes = coded.codes if law.effects is None else law.effects.with_columns(coded).codes
    own = [column for column, _ in header.schema.coded]
    counts = np.zeros((posterior.num_chains * posterior.num_draws, len(header.schema.columns)))
    for forest in law.forests_to_explain()[1]:
        trees = forest.draws
        for number in range(len(trees.tree_start) - 1):
            for row in codes.T:
                below(trees, int(trees.tree_start[number]), row, own, counts[number // trees.num_trees])
    counts = counts[law.weights.spaced(posterior.num_draws, len(counts))]
    there = counts.sum(axis=1) > 0
    return (counts[there] / counts[there].sum(axis=1)[:, None]).mean(axis=0)


def below(trees, node: int, row, own, count, *, follows=True) -> int:
    """Count a row at the rules below a node where it comes there; return the node after the subtree."""
    feature = int(trees.feature[node])
    if feature < 0:
        return node + 1
    if follows and feature < len(own):
        count[own[feature]] += 1
    code, cut = int(row[feature]), int(trees.cut[node])
    left = bool(trees.missing_left[node]) if code == 255 else code <= cut
    right = below(trees, node + 1, row, own, count, follows=follows and left)
    return below(trees, right, row, own, count, follows=follows and not left)


@pytest.fixture(autouse=True)
def _few_totals(monkeypatch):
    """Simulate few totals, of which nothing is asked but that there are some."""
    monkeypatch.setattr(aggregates, "SetSums", partial(SetSums, outcomes=200))


@pytest.mark.parametrize("name", [name for name in MODELS if name in QUICK])
def test_questions(name):
    """Kinds of models answer or refuse each question, and rows at rules are as many as a plain count."""
    check(name)
    check_effects(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name not in QUICK])
@pytest.mark.sampled(slow=20)
def test_every_kind(name):
    """Every kind of model answers or refuses each question."""
    check(name)
    check_effects(name)


def check_effects(name: str) -> None:
    """Check that a verdict looks at effects: those of the reference rows, as an answer about them does."""
    posterior = fitted(name)
    summary, use = posterior.summary(), posterior.use()
    assert (summary.effects is None) == (use.effects is None) == (name not in TREATED)
    if name not in TREATED:
        assert "effect" not in use.text
        return
    answers = [posterior.effects(arm=arm) for arm in posterior.header.arms[1:]] or [posterior.effects()]
    for figure in ("average_rhat", "average_error", "rows_error"):
        largest = max(getattr(each.use, figure) for each in answers)
        if " arms" not in name or figure != "rows_error":
            assert getattr(summary.effects, figure) == pytest.approx(largest), figure
    assert summary.effects.text in use.text in str(summary)
    order = ["usable", "roughly", "not_yet"]
    verdicts = [*map(CREDIBLE.get, (summary.verdict, summary.without_effects))]
    worst = max((verdicts[1], use.effects.average, use.effects.rows), key=order.index)
    assert verdicts[0] == worst
    answer = answers[0]
    assert answer.average.use == answer.use.average
    assert answer.average.mcse > 0
    assert answer.use.text in str(answer)
    held = check_rules(posterior, {"max_rhat": 10.0, "min_ess": 1e9}).figures
    assert held["rhat"] >= max(summary.effects.average_rhat, summary.effects.rows_rhat)
    assert held["ess"] <= min(summary.effects.average_ess, summary.effects.rows_ess)
    assert model_verdict(posterior.law, posterior.num_draws) == summary.verdict
    check_flags(posterior, rows_of(name))


def check_flags(posterior: Posterior, rows: dict) -> None:
    """Check that flags of rows are the same whatever they are sent with, and that absurd rows have them."""
    whole, loaded = posterior.effects(rows), Posterior.from_bytes(posterior.to_bytes())
    np.testing.assert_array_equal(whole.unsupported, posterior.effects().unsupported)
    for some in ([0], [7], [*range(3, ROWS, 9)]):
        part = {column: [values[row] for row in some] for column, values in rows.items()}
        np.testing.assert_array_equal(loaded.effects(part).unsupported, whole.unsupported[some])
    far = {column: list(values[:3]) for column, values in rows.items()} | {"last": [1e6, -1e6, 1e6]}
    assert posterior.effects(far).unsupported.all()
    header = loaded.law.draws.header
    loaded.law.draws.header = replace(header, parts={k: v for k, v in header.parts.items() if k != "support"})
    unknown = loaded.effects(rows)
    assert unknown.unsupported is None is unknown.overlap.unsupported is unknown.overlap.supported
    assert "isn't known" in str(unknown.warnings)
    assert "unsupported" not in unknown.columns()


def test_the_table_is_whole():
    """Each question of the table has an entry, each entry a known kind, and quick models exist."""
    assert {each for entry in REFUSALS for each in entry.questions} == {*get_args(AskedOfLaw)}
    assert {entry.kind for entry in REFUSALS} == {*KINDS}
    assert {*QUICK} <= {*MODELS}
