"""Choice of settings by the log score or squared error of rows not seen (docs/maths.md#tuning).

Every candidate is fitted to all folds but one, and scored on that one. The units of this work, one fit each,
are independent (`score_fold`), and `compare` judges what they found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Annotated, Any, Literal, get_args

import numpy as np

from sampler.array_types import Floats
from sampler.data.censoring.outcomes import refuse_censoring
from sampler.data.rows import Rows
from sampler.data.scalars import counted, number_to_text
from sampler.data.splits.copies import copied_rows
from sampler.data.splits.split_plan import SplitPlan, without_new_groups
from sampler.data.target import guess_family
from sampler.definitions.data import COLUMN_ROLES, NAMED
from sampler.definitions.new_rows import NewRows
from sampler.definitions.setting import Setting
from sampler.definitions.several import are_several
from sampler.errors import SettingsError
from sampler.families import FAMILIES
from sampler.posterior.charts.cards import first_lines, table_card
from sampler.preparation.several import check_several, families_of
from sampler.running import tasks_of
from sampler.studies.candidates import candidates_of, merged, settings_in_words
from sampler.studies.fold_scores import FoldScores, score_fold
from sampler.studies.selection import OnProgress

Score = Literal["log_score", "rmse"]
SCORES: tuple[Score, ...] = get_args(Score)
FOLDS = Setting("whole", "model", "Parts of the rows, each scored by fits to the others.", 5, limits=(2, 20))


@dataclass(frozen=True)
class TriedSettings:
    """A candidate, and its scores over all folds; null for one that can't be fitted."""

    settings: Annotated[dict[str, Any], "Those by which it differs from the others."]
    log_score: Annotated[
        float | None, "Mean log score of the rows; of several outcomes that of all together."
    ] = None
    error: Annotated[float | None, "Standard error of the log score."] = None
    behind: Annotated[
        float | None, "By how much it is worse than the best one, by the score that is compared."
    ] = None
    behind_error: Annotated[float | None, "Standard error of that difference."] = None
    rmse: Annotated[
        float | None,
        "Root mean square error; null for classes. Of several outcomes that of their numbers, in units of "
        "their standard deviations.",
    ] = None
    coverage: Annotated[
        float | None,
        "Share of the rows inside their 90% predictive intervals, of several outcomes inside their joint "
        "regions of 90%; null for classes.",
    ] = None
    seconds: Annotated[float | None, "Mean duration of a fit."] = None
    refused: Annotated[str, "Why it can't be fitted to these rows; empty otherwise."] = ""


@dataclass(frozen=True, repr=False)
class Tuning:
    """The result of a tuning; `common` are the settings that all candidates share."""

    trials: Annotated[list[TriedSettings], "All candidates, in the order of the request."]
    chosen: int
    folds: int
    common: dict[str, Any] = field(default_factory=dict)
    score: Annotated[Score, "What is compared."] = "log_score"

    @property
    def best(self) -> dict[str, Any]:
        """Settings to fit with: the chosen candidate's and the common ones, as `fit` takes them."""
        return merged(self.common, self.trials[self.chosen].settings)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"best": self.best}

    def __repr__(self) -> str:
        return first_lines(str(self))

    def _repr_html_(self) -> str:
        heads = [
            "settings",
            "log score",
            "behind the best",
            "standard error",
            "RMSE",
            "inside 90%",
            "seconds",
        ]
        rows = []
        for trial in self.trials:
            figures = (trial.log_score, trial.behind, trial.behind_error, trial.rmse)
            inside = trial.refused or ("" if trial.coverage is None else f"{trial.coverage:.1%}")
            cells = ["" if figure is None else number_to_text(figure) for figure in figures]
            rows.append([settings_in_words(trial.settings), *cells, inside, number_to_text(trial.seconds, 2)])
        better = "higher log scores" if self.score == "log_score" else "lower RMSE"
        title = f"{counted(len(self.trials), 'candidate')} on {self.folds} folds: {better} are better"
        return table_card(title, heads, rows, chosen=self.chosen)

    def __str__(self) -> str:
        names = [settings_in_words(trial.settings) for trial in self.trials]
        width = max(map(len, names)) + 2
        lines = [f"  {'':{width}}{'log score':>12}{'behind':>9}{'+-':>8}{'rmse':>11}{'90%':>7}{'seconds':>9}"]
        for place, (name, trial) in enumerate(zip(names, self.trials, strict=True)):
            mark = "> " if place == self.chosen else "  "
            if trial.log_score is None:
                lines.append(f"{mark}{name:{width}} left out: {trial.refused}")
                continue
            rmse = "" if trial.rmse is None else number_to_text(trial.rmse)
            inside = "" if trial.coverage is None else f"{trial.coverage:.3f}"
            lines.append(
                f"{mark}{name:{width}}{trial.log_score:12.4f}{trial.behind:9.4f}{trial.behind_error:8.4f}"
                f"{rmse:>11}{inside:>7}{trial.seconds:9.1f}"
            )
        return "\n".join(lines)


def tune(
    X: Any,
    y: Any,
    weights: Any = None,
    *,
    candidates: str | Sequence[Mapping[str, Any]] = "model",
    folds: int = 5,
    new_rows: Any = None,
    score: Score = "log_score",
    parsimony: bool = False,
    seed: int = 0,
    num_threads: int | None = None,
    executor: Executor | None = None,
    progress: OnProgress | None = None,
    **settings: Any,
) -> Tuning:
    """Choose settings by K-fold cross-validation of the log score or the squared error.

    Parameters
    ----------
    X, y, weights
        Rows and outcomes, as `fit` takes them; of several outcomes the joint log score is what is compared.
    candidates
        Settings to compare, simpler ones first, or the name of a grid (`studies.tuning.candidates`): "model"
        (noise, transform, linear part) or "prior" (CGM10's grid).
    folds
        Number of folds.
    new_rows
        How new rows will differ, as for `fit`: folds are then of whole groups, or predict later rows.
    score
        What is compared: "log_score", which judges means and noise together, or "rmse" of the means alone,
        of numbers.
    parsimony
        Take the first candidate that is at most one standard error of the difference behind the best.
    seed
        Seed of the folds and of all fits.
    num_threads
        Number of fits at once; None takes one per core. The result is the same.
    executor
        A `concurrent.futures.Executor` in which the fits run instead of threads; the result is the same.
    progress
        Called with the number of fits that are done, and of all.
    settings
        Further columns of rows, and settings that all candidates share, as `fit` takes them. Fits of folds
        are short unless these say otherwise: two chains of 100 draws.

    Returns
    -------
    Tuning
        The candidates with their scores, and the chosen one.

    Raises
    ------
    DataError
        For unusable data, with column and row.
    SettingsError
        For an invalid setting, and where no candidate can be fitted.

    """
    refuse_censoring(settings, "tuning")
    folds = FOLDS.check("folds", folds)
    several = are_several(y)
    settings["weights"] = weights
    if several:
        check_several(settings)
    family = "gaussian" if several else str(settings.get("family", "gaussian"))
    check_score(score, family)
    of_data = dict(settings)
    rows = Rows.of_arguments(X, y, of_data, of_data.pop("target_name", None))
    if family == "auto":
        check_score(score, guess_family(rows.outcome, str(settings.get("method") or "bart")))
    common = {  # without values of rows
        name: value
        for name, value in settings.items()
        if name not in COLUMN_ROLES and (name not in NAMED or of_data[name] is value)
    }
    if several:
        of_data["families"] = families_of(rows.outcomes, of_data.get("family"))
    tried = candidates_of(candidates, family, [*of_data.get("families", {}).values()])
    declared = NewRows.read(new_rows, rows.table.names)
    rows = without_new_groups(rows, declared, of_data)
    copies = copied_rows(rows, of_data.get("features"))
    parts = SplitPlan.of(declared, rows.table.column, rows.num_rows, seed, copies).folds(folds)
    units = list(product(range(len(tried)), range(len(parts))))
    scores: dict[tuple[int, int], FoldScores | str] = {}
    if executor is not None:
        rows = rows.apart()
    with tasks_of(executor, num_threads) as tasks:
        waiting = {
            tasks.submit(score_fold, rows, parts[fold], seed, merged(of_data, tried[place])): (place, fold)
            for place, fold in units
        }
        for done, each in enumerate(as_completed(waiting), 1):
            try:
                scores[waiting[each]] = each.result()
            except SettingsError as error:
                scores[waiting[each]] = str(error)
            if progress is not None:
                progress(done, len(units))
    return compare(
        tried, [[scores[place, fold] for fold in range(len(parts))] for place in range(len(tried))],
        parsimony=parsimony, common=common, score=score,
    )  # fmt: skip


def check_score(score: str, family: str) -> None:
    """Raise SettingsError for a score that there isn't, or that outcomes of a family have not."""
    if score not in SCORES:
        raise SettingsError(
            f"score must be {' or '.join(SCORES)}, not {score!r}", field="score", code="not_accepted"
        )
    if score == "rmse" and family in FAMILIES and FAMILIES[family].has_classes:
        raise _no_squares()


def _no_squares() -> SettingsError:
    message = "classes have no squared error: compare them by the log score (score 'log_score')"
    return SettingsError(message, field="score", code="not_applicable")


def compare(
    tried: Sequence[Mapping[str, Any]],
    scored: Sequence[Sequence[FoldScores | str]],
    *,
    parsimony: bool = False,
    common: Mapping[str, Any] | None = None,
    score: Score = "log_score",
) -> Tuning:
    """Judge candidates by the scores of their folds.

    Parameters
    ----------
    tried
        The candidates, simpler ones first.
    scored
        For each of them what `score_fold` returned for every fold, or why it can't be fitted.
    parsimony
        Take the first candidate that is at most one standard error of the difference behind the best.
    common
        Settings that all share.
    score
        What is compared; RMSE differ by (MSE - MSE*) / (RMSE + RMSE*), whose error is that of the numerator.

    Returns
    -------
    Tuning
        The candidates with their scores, and the chosen one.

    Raises
    ------
    SettingsError
        Where no candidate could be fitted, or the outcomes are classes, which have no squared error.

    """
    refused = [next((each for each in parts if isinstance(each, str)), "") for parts in scored]
    scores = [
        None if refused[place] else _by_row([each for each in parts if isinstance(each, FoldScores)])
        for place, parts in enumerate(scored)
    ]
    squares = [
        np.array([value for each in parts if isinstance(each, FoldScores) for value in each.squares])
        for parts in scored
    ]
    by_rmse = score == "rmse"
    if by_rmse and any(own is not None and not len(each) for own, each in zip(scores, squares, strict=True)):
        raise _no_squares()
    compared = [
        own if own is None or not by_rmse else -each for own, each in zip(scores, squares, strict=True)
    ]
    means = np.array([-np.inf if each is None else each.mean() for each in compared])
    if not np.isfinite(means).any():
        raise SettingsError(
            f"no candidate can be fitted: {refused[0]}", field="candidates", code="not_applicable"
        )
    first = int(np.argmax(means))
    top = compared[first]
    assert top is not None
    trials = []
    for place, (candidate, parts, own, by_row) in enumerate(
        zip(tried, scored, scores, compared, strict=True)
    ):
        if own is None or by_row is None:
            trials.append(TriedSettings(dict(candidate), refused=refused[place]))
            continue
        folds = [each for each in parts if isinstance(each, FoldScores)]
        inside = [value for each in folds for value in each.inside]
        rmse = float(np.sqrt(np.mean(squares[place]))) if len(squares[place]) else None
        scale = 1.0
        if by_rmse:
            scale = math.sqrt(-means[place]) + math.sqrt(-means[first]) or 1.0
        trials.append(
            TriedSettings(
                dict(candidate),
                float(own.mean()),
                _error(own),
                float(np.mean(top - by_row)) / scale,
                _error(top - by_row) / scale,
                rmse,
                float(np.mean(inside)) if inside else None,
                float(np.mean([each.seconds for each in folds])),
            )
        )
    near = [
        place
        for place, trial in enumerate(trials)
        if trial.behind is not None and trial.behind_error is not None and trial.behind <= trial.behind_error
    ]
    return Tuning(trials, near[0] if parsimony else first, len(scored[0]), dict(common or {}), score)


def _by_row(folds: Sequence[FoldScores]) -> Floats:
    """Put the rows' log scores in the order of the rows."""
    rows = np.concatenate([each.rows for each in folds])
    return np.concatenate([each.log_score for each in folds])[np.argsort(rows)]


def _error(values: Floats) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
