"""`bartserve models`: list, show, continue, save or delete models of a service; `bartserve sets`: sets."""

from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli import studies
from app.cli.common import AsJson, DataDir, Limit, ModelName, OfOutcome, print_json, writing
from app.cli.embedded import asking
from app.cli.fit_predict import Url
from app.cli.output import ago, err, make_table, out, print_table
from app.client import Model, ModelSet
from app.client.views import Json
from sampler.host.data import number_to_text, range_to_text

app = typer.Typer(
    help="""List the models, newest first; or show, cancel, continue, save or delete one.

\b
Examples
  bartserve models
  bartserve models show cars
  bartserve models extend cars 250
  bartserve models extend cars --until converged
  bartserve models refit cars
  bartserve models refit cars --dataset ds_0123456789abcdef0123
  bartserve models rollback cars
  bartserve models schedule cars --every 7d --on-alarm
  bartserve models save cars cars.bart
  bartserve models card cars cars.html
  bartserve models groups scores
  bartserve models inclusion cars --by rows
  bartserve models select cars
  bartserve models tune cars
  bartserve models calibrate cars
  bartserve models delete mdl_0123456789abcdef0123
""",
    invoke_without_command=True,
)
sets = typer.Typer(
    help="""List the sets of models, newest first; or show, cancel or delete one.

\b
Examples
  bartserve sets
  bartserve sets show shops
  bartserve sets cancel shops
  bartserve sets delete shops
""",
    invoke_without_command=True,
)
SetName = Annotated[
    str, typer.Argument(metavar="SET", help="A set's id, or a name, which means the newest with a model.")
]
Promotion = Literal["auto", "always", "never"]
CARD_FORMS: dict[str, Literal["html", "markdown"]] = {".html": "html", ".md": "markdown"}


@app.callback()
def list_models(
    context: typer.Context,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the models; the help is in `app`."""
    if context.invoked_subcommand is not None:
        return
    with asking(url, data_dir, err.print) as client:
        listed = list(islice(client.models(), limit))
    if as_json:
        print_json([model.document for model in listed])
        return
    table = make_table("id", "name", "target", "state", "done", "draws", "verdict", "created")
    for model in listed:
        verdict = (model.verdict or "").replace("_", " ")
        if model.document.get("outcomes") == "no_longer_hold":
            verdict = f"{verdict}, intervals no longer hold"
        done, age = f"{model.fraction:.0%}", ago(model.document["created_at"])
        table.add_row(
            model.id, model.name or "", model.target, model.state, done, str(model.draws), verdict, age
        )
    print_table(table, "There are no models yet: bartserve fit FILE --target COLUMN creates one.")


@app.command("compare")
def compare_models(
    model: ModelName, other: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Compare two models on the rows that both held out (the same holdout and seed), with standard errors."""
    with asking(url, data_dir, err.print) as client:
        found = client.compare(model, other)
    if as_json:
        print_json(found)
        return
    out.print(f"{found['rows']:,} held-out rows; {model} less {other}, with standard errors")
    for each in found["differences"]:
        better = {"first": f"{model} is better", "second": f"{other} is better"}
        out.print(
            f"{each['score']:10} {number_to_text(each['first'])} and {number_to_text(each['second'])}: "
            f"{number_to_text(each['difference'])} ± {number_to_text(each['error'], 2)}, "
            f"{better.get(each['better'], 'no clear difference')}"
        )


@app.command("show")
def show_model(model: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show a model's progress, what can be used of it, its verdict and settings."""
    from app.cli.progress import about_use, about_verdict

    with asking(url, data_dir, err.print) as client:
        fitted = client.model(model)
    if as_json:
        print_json(fitted.document)
        return
    out.print(f"model     {fitted.id}  {fitted.name or ''}")
    out.print(f"state     {fitted.state}, {fitted.fraction:.0%} done, {fitted.draws} draws kept per chain")
    for line in [*about_use(fitted), *about_verdict(fitted)] if fitted.verdict else []:
        out.print(line, soft_wrap=True)
    if fitted.error:
        out.print(f"error     {fitted.error}")
    plain = {name: value for name, value in fitted.settings.items() if not isinstance(value, (dict, list))}
    out.print(f"settings  {_listed(plain)}")
    for name, value in fitted.settings.items():
        if isinstance(value, (dict, list)) and value:
            text = _listed(value) if isinstance(value, dict) else ", ".join(map(str, value))
            out.print(f"{name:<9} {text}")


@app.command("save")
def save_model(
    model: ModelName,
    path: Annotated[str, typer.Argument(help="The file to write.")],
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Write a model to a file that `bartserve.load` reads in a notebook."""
    with asking(url, data_dir, err.print) as client, writing(path):
        written = client.download(model, path)
    out.print(f"written   {written}")


@app.command("card")
def write_card(
    model: ModelName,
    path: Annotated[Path, typer.Argument(help="The file to write: .html or .md.")],
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Write one page about a model: data, settings, verdicts, scores, importance, effects and limits."""
    if path.suffix.lower() not in CARD_FORMS:
        raise typer.BadParameter("end the file's name in .html or .md", param_hint="PATH")
    with asking(url, data_dir, err.print) as client:
        text = client.model_card(model, CARD_FORMS[path.suffix.lower()])
    with writing(path):
        path.write_text(text, encoding="utf-8")
    out.print(f"written   {path}")


@app.command("groups")
def show_groups(
    model: ModelName,
    outcome: OfOutcome = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show the intercepts and slopes of a model's groups with 90% intervals, and how much groups differ."""
    with asking(url, data_dir, err.print) as client:
        columns = client.groups(model, outcome=outcome)
    if as_json:
        print_json(columns)
        return
    for column in columns:
        of_all = column["standard_deviation"]
        out.print(
            f"{column['column']}: standard deviation {number_to_text(of_all['mean'])} "
            f"({range_to_text(of_all['lower'], of_all['upper'])}), of {column['scale']}"
        )
        table = make_table("group", "rows", "intercept", "lower_90", "upper_90")
        for group in column["groups"]:
            figures = (number_to_text(group[name]) for name in ("mean", "lower", "upper"))
            table.add_row(group["group"], str(group["rows"]), *figures)
        print_table(table, "")
        for slope in column["slopes"]:
            of_all, with_intercept = slope["standard_deviation"], slope["correlation"]["mean"]
            out.print(
                f"{column['column']}: slope of {slope['feature']}, standard deviation "
                f"{number_to_text(of_all['mean'])} ({range_to_text(of_all['lower'], of_all['upper'])}), "
                f"correlation with the intercept {with_intercept:.2f}"
            )
            table = make_table("group", "slope", "lower_90", "upper_90")
            for group in slope["groups"]:
                figures = (number_to_text(group[name]) for name in ("mean", "lower", "upper"))
                table.add_row(group["group"], *figures)
            print_table(table, "")
    if not columns:
        out.print("The model has no groups: bartserve fit FILE --target COLUMN --groups COLUMN has.")


@app.command("inclusion")
def show_inclusion(
    model: ModelName,
    by: Annotated[
        Literal["rules", "rows"],
        typer.Option(help="Count each rule once, or as often as training rows reach it."),
    ] = "rules",
    of: Annotated[Literal["mean", "noise"], typer.Option(help="The trees whose rules count.")] = "mean",
    outcome: OfOutcome = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show each feature's share of the split rules with 90% intervals, the largest first."""
    with asking(url, data_dir, err.print) as client:
        features = client.inclusion(model, of=of, by=by, outcome=outcome)
    if as_json:
        print_json(features)
        return
    table = make_table("feature", "share", "lower_90", "upper_90")
    for each in features:
        table.add_row(each["name"], *(number_to_text(each[name], 3) for name in ("mean", "lower", "upper")))
    print_table(table, "")


@app.command("cancel")
def cancel_model(
    model: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Cancel a model at its next slice; its draws are kept."""
    with asking(url, data_dir, err.print) as client:
        cancelled = client.cancel(model)
    _say_cancelled(cancelled, as_json=as_json)


@app.command("retry")
def retry_model(model: ModelName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Continue a cancelled or failed model where its chains ended, and report its end."""
    from app.cli.progress import follow_fit

    with asking(url, data_dir, err.print) as client:
        fitted = follow_fit(client, client.retry(model), err)
    if as_json:
        print_json(fitted.document)


@app.command("extend")
def extend_model(
    model: ModelName,
    draws: Annotated[
        int | None, typer.Argument(metavar="[DRAWS]", min=1, help="More draws per chain.")
    ] = None,
    until: Annotated[
        Literal["converged", "approximate"] | None,
        typer.Option(help="Draw until this verdict, instead of a number of draws."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Draw more from the chains of a finished model: a number of draws, or --until converged."""
    from app.cli.progress import follow_fit

    if draws is None and until is None:
        raise typer.BadParameter("give DRAWS, a number, or --until converged")
    stop = None if until is None else {"verdict": until}
    with asking(url, data_dir, err.print) as client:
        fitted = follow_fit(client, client.extend(model, draws, stop=stop), err)
    if as_json:
        print_json(fitted.document)


@app.command("refit")
def refit_model(
    model: ModelName,
    dataset: Annotated[
        str | None, typer.Option(help="The id of a newer dataset; then as many rows are held out as before.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Share of the rows that are held out.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new model; default: the old one's.")] = None,
    promote: Annotated[
        Promotion | None,
        typer.Option(help="Whether the name moves to it; auto, the default with --dataset: if no worse."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Fit a new model with the settings of another, on all its rows or on a newer --dataset."""
    from app.cli.progress import follow_fit

    with asking(url, data_dir, err.print) as client:
        new = client.refit(model, dataset, holdout=holdout, name=name, promote=promote)
        fitted = follow_fit(client, new, err)
    if as_json:
        print_json(fitted.document)
        return
    out.print(f"model     {fitted.id}")
    if text := (fitted.document["refit"] or {}).get("text"):
        out.print(f"decision  {text}", soft_wrap=True)


@app.command("promote")
def promote_model(model: ModelName, url: Url = None, data_dir: DataDir = None) -> None:
    """Let a model's name mean it from now on, such as a refit that was refused."""
    with asking(url, data_dir, err.print) as client:
        found = client.promote(model)
    out.print(f"{found.name} means {found.id} now.")


@app.command("rollback")
def roll_back(model: ModelName, url: Url = None, data_dir: DataDir = None) -> None:
    """Let a name mean the model before the present one again."""
    with asking(url, data_dir, err.print) as client:
        found = client.roll_back(model)
    out.print(f"{found.name} means {found.id} now.")


@app.command("schedule")
def schedule_refits(
    model: ModelName,
    every: Annotated[str | None, typer.Option(help="How often: 12h, 7d.")] = None,
    on_alarm: Annotated[
        bool, typer.Option("--on-alarm", help="Also when outcomes say that the intervals no longer hold.")
    ] = False,
    promote: Annotated[Promotion, typer.Option(help="Whether the name moves to the new model.")] = "auto",
    holdout: Annotated[
        float | None, typer.Option(min=0, max=0.9, help="Share of the rows held out; default: as before.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Delete the schedule.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Fit the model of a name again by itself when there are new data; without options, show its schedule."""
    with asking(url, data_dir, err.print) as client:
        if off:
            client.delete_schedule(model)
            out.print(f"{model} is no longer fitted again by itself.")
            return
        if every is None and not on_alarm:
            found = client.schedule(model)
        else:
            found = client.set_schedule(
                model, every=every, on_alarm=on_alarm, promote=promote, holdout=holdout
            )
    if as_json:
        print_json(found)
        return
    when = [found["every"] and f"every {found['every']}", found["on_alarm"] and "at an alarm"]
    out.print(f"fitted    {', '.join(part for part in when if part)}, promote {found['promote']}")
    out.print(f"data      the newest dataset called {found['dataset']}, else reported outcomes")
    out.print(f"due       {found['due_at'] or 'at an alarm'}")
    if found["text"]:
        out.print(f"last      {found['text']}", soft_wrap=True)


@app.command("delete")
def delete_model(model: ModelName, url: Url = None, data_dir: DataDir = None) -> None:
    """Delete a model with its draws; requires its id if several models share the name."""
    with asking(url, data_dir, err.print) as client:
        client.delete_model(model)
    out.print(f"{model} is deleted.")


@sets.callback()
def list_sets(
    context: typer.Context,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """List the sets; the help is in `sets`."""
    if context.invoked_subcommand is not None:
        return
    with asking(url, data_dir, err.print) as client:
        listed = list(islice(client.model_sets(), limit))
    if as_json:
        print_json([each.document for each in listed])
        return
    table = make_table("id", "name", "target", "by", "groups", "state", "done", "failed", "created")
    for each in listed:
        facts = each.id, each.name or "", each.target, ", ".join(each.by), str(each.groups), each.state
        table.add_row(*facts, f"{each.fraction:.0%}", str(each.failed), ago(each.document["created_at"]))
    print_table(table, "There are no sets yet: bartserve fit FILE --target COLUMN --by COLUMN creates one.")


@sets.command("show")
def show_set(model_set: SetName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """Show the models of a set, a group a row, with the reasons of failures."""
    with asking(url, data_dir, err.print) as client:
        listed = list(client.models_of_set(model_set))
    if as_json:
        print_json([each.document for each in listed])
        return
    table = make_table("group", "model", "state", "rows", "verdict", "error")
    for each in listed:
        rows, verdict = "" if each.rows is None else str(each.rows), (each.verdict or "").replace("_", " ")
        table.add_row(", ".join(each.group), each.id, each.state, rows, verdict, each.error or "")
    print_table(table, "No model of the set is made yet.")


@sets.command("cancel")
def cancel_set(
    model_set: SetName, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """Cancel the models of a set that have not ended; the others stay, and answer for their groups."""
    with asking(url, data_dir, err.print) as client:
        cancelled = client.cancel_model_set(model_set)
    _say_cancelled(cancelled, as_json=as_json)


@sets.command("delete")
def delete_set(model_set: SetName, url: Url = None, data_dir: DataDir = None) -> None:
    """Delete a set with all of its models; requires its id if several sets share the name."""
    with asking(url, data_dir, err.print) as client:
        client.delete_model_set(model_set)
    out.print(f"{model_set} is deleted.")


def register(top: typer.Typer) -> None:
    """Add the commands to `bartserve`."""
    top.add_typer(app, name="models")
    top.add_typer(sets, name="sets")


def _say_cancelled(cancelled: Model | ModelSet, *, as_json: bool) -> None:
    if as_json:
        print_json(cancelled.document)
    else:
        out.print(f"{cancelled.id} is {'being ' if cancelled.is_open else ''}cancelled.")


def _listed(settings: Json) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)


studies.register(app)
