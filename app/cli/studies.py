"""`bartserve models select`, `tune`, `calibrate` and so on: studies of a model by further fits."""

import json
from typing import Annotated, Any

import typer

from app.cli.common import AsJson, DataDir, ModelName, print_json
from app.cli.embedded import asking
from app.cli.fit_predict import Url
from app.cli.output import err, make_table, out, print_table
from sampler.host.data import number_to_text


def register(models: typer.Typer) -> None:
    """Add the commands to those of models."""
    models.command("select")(select_features)
    models.command("tune")(tune_settings)
    models.command("calibrate")(calibrate)
    models.command("placebo")(placebo)
    models.command("inclusion-by-trees")(inclusion_by_trees)


def select_features(
    model: ModelName,
    permutations: Annotated[
        int | None, typer.Option(help="Permutations of the outcomes. Default: 100.")
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(help="Probability of selecting anything if nothing matters. Default: 0.05."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same result.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Find the features that matter beyond chance, by fits to permuted outcomes."""
    from app.cli.progress import follow_study

    with asking(url, data_dir, err.print) as client:
        study = client.select_features(model, permutations=permutations, level=level, seed=seed)
        ended = follow_study(client, study, err)
        fitted = client.model(ended.model_id)
    if as_json:
        print_json(ended.document)
        return
    first = fitted.document["target"]
    for outcome, features in {first: ended.features or [], **ended.others}.items():
        if ended.others:
            out.print(outcome)
        _print_selected(features)


def _print_selected(features: list[dict[str, Any]]) -> None:
    rules = list(features[0]["thresholds"]) if features else []
    table = make_table("feature", "share", *rules, "selected by")
    for feature in features:
        shares = [feature["share"], *(feature["thresholds"][rule] for rule in rules)]
        by = ", ".join(feature["selected_by"]) or "-"
        table.add_row(feature["name"], *(f"{share:.4f}" for share in shares), by)
    print_table(table, "The model has no features.")


def tune_settings(
    model: ModelName,
    candidates: Annotated[
        str | None,
        typer.Option(help="model, prior, or a JSON list of settings, simpler ones first. Default: model."),
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Parts of the rows. Default: 5.")] = None,
    score: Annotated[
        str | None, typer.Option(help="What is compared: log_score, or rmse of numbers. Default: log_score.")
    ] = None,
    parsimony: Annotated[
        bool, typer.Option("--parsimony", help="Choose the first within one standard error of the best.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same scores.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Compare settings by the log score, or the error, of rows that the fits have not seen."""
    from app.cli.progress import follow_study

    tried: Any = candidates
    if candidates is not None and candidates.lstrip().startswith("["):
        try:
            tried = json.loads(candidates)
        except ValueError:
            raise typer.BadParameter("this is not JSON", param_hint="--candidates") from None
    with asking(url, data_dir, err.print) as client:
        study = client.tune(model, candidates=tried, folds=folds, score=score, parsimony=parsimony, seed=seed)
        ended = follow_study(client, study, err)
    if as_json:
        print_json(ended.document)
        return
    result = ended.tuning or {"trials": [], "chosen": None}
    _print_trials(result)
    if ended.tuning and ended.tuning["best"] is not None:
        err.print(f"best      {json.dumps(ended.tuning['best'])}")


def _print_trials(result: dict[str, Any]) -> None:
    table = make_table("", "settings", "log score", "behind", "+-", "rmse", "90%", "seconds")
    for place, trial in enumerate(result["trials"]):
        settings = json.dumps(trial["settings"])
        mark = ">" if place == result["chosen"] else ""
        figures = [
            trial[name] for name in ("log_score", "behind", "behind_error", "rmse", "coverage", "seconds")
        ]
        cells = ["" if each is None else number_to_text(each) for each in figures]
        outcome = f"{settings}: {trial['refused']}" if trial["refused"] else settings
        table.add_row(mark, outcome, *cells)
    print_table(table, "There are no candidates.")


def calibrate(model: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Calibrate a model's intervals by five fits, each to four fifths of its rows, and print the claims.

    Then `bartserve predict --interval calibrated` answers with them.
    """
    from app.cli.progress import follow_study

    with asking(url, data_dir, err.print) as client:
        study = follow_study(client, client.calibrate(model), err)
        fitted = client.model(study.model_id)
    if as_json:
        print_json(fitted.document["calibration"])
        return
    table = make_table("level", "what it claims")
    for claim in (fitted.document["calibration"] or {"claims": []})["claims"]:
        table.add_row(f"{100 * claim['level']:g}%", claim["text"])
    print_table(table, "The model has changed meanwhile, and is not calibrated.")


def placebo(
    model: ModelName,
    periods_earlier: Annotated[
        int | None, typer.Option(help="Of a panel, by how many periods earlier units adopted. Default: 2.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Probability of the intervals. Default: 0.9.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of treatments drawn by chance.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Fit a model again to treatments that did nothing, and print their effects, which should be none."""
    from app.cli.progress import follow_study

    with asking(url, data_dir, err.print) as client:
        study = client.placebo(model, periods_earlier=periods_earlier, level=level, seed=seed)
        ended = follow_study(client, study, err)
    if as_json:
        print_json(ended.document)
        return
    found = ended.document["placebo"]
    out.print(found["difference"])
    table = make_table("", "rows", "mean", "lower", "upper")
    for name, each in {"average": found["average"], **found["groups"]}.items():
        figures = (number_to_text(each[figure]) for figure in ("mean", "lower", "upper"))
        table.add_row(name, str(each["rows"]), *figures)
    print_table(table, "It has no effects.")
    for sentence in found["warnings"]:
        err.print(sentence)


def inclusion_by_trees(
    model: ModelName,
    num_trees: Annotated[
        list[int] | None, typer.Option(help="A number of trees; repeatable. Default: 10, 20, 50, 100, 200.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Compare them by rows left out, too, with that many folds.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Probability of the intervals. Default: 0.9.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Fit a model again with few trees and with many, and print the features' shares of the split rules."""
    from app.cli.progress import follow_study

    with asking(url, data_dir, err.print) as client:
        study = client.inclusion_by_trees(model, num_trees=num_trees or None, folds=folds, level=level)
        ended = follow_study(client, study, err)
    if as_json:
        print_json(ended.document)
        return
    for outcome, found in ended.document["inclusion_by_trees"].items():
        table = make_table(outcome, *(f"{number} trees" for number in found["num_trees"]))
        lines = zip(found["names"], *found["mean"], strict=True)
        for name, *shares in sorted(lines, key=lambda line: -line[1]):
            table.add_row(name, *(f"{share:.4f}" for share in shares))
        print_table(table, "The model has no features.")
        err.print(found["reading"])
        scores = found["scores"]
    if scores is not None:
        _print_trials(scores)
