"""`bartserve outcomes`: report what happened, see whether intervals hold, recalibrate or fit again."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from app.cli.common import AsJson, DataDir, ModelName, print_json
from app.cli.embedded import asking
from app.cli.fit_predict import SETTING, How, Url, how_read, pairs
from app.cli.output import err, make_table, out, print_table
from sampler.host.data import number_to_text

app = typer.Typer(
    help="""Report outcomes of predicted rows, and see whether a model's intervals still hold.

\b
Examples
  bartserve outcomes report cars sold.csv --key id --at sold_on
  bartserve outcomes show cars
  bartserve outcomes show cars --check
  bartserve outcomes recalibrate cars
  bartserve outcomes policy cars weekly
  bartserve outcomes refit cars
  bartserve outcomes delete cars
""",
    no_args_is_help=True,
)
Since = Annotated[
    str | None, typer.Option(metavar="DATE", help="Use the outcomes from this date's week on: 2026-11-23.")
]
ALARM = "no_longer_hold"


@app.command()
def report(
    model: ModelName,
    rows: Annotated[list[str], typer.Argument(metavar="ROWS", help="A file, or NAME=VALUE pairs.")],
    key: Annotated[str | None, typer.Option(help="The column with a name for each row.")] = None,
    at: Annotated[str | None, typer.Option(help="The column with the rows' times. Default: now.")] = None,
    prediction: Annotated[
        str | None, typer.Option(help="The id of a background prediction whose rows these are.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(help="The column with the rows' numbers in that prediction, from 1.")
    ] = None,
    repeated: Annotated[
        Literal["refuse", "replace", "skip"] | None,
        typer.Option(help="What happens to a row whose key has an outcome. Default: refuse."),
    ] = None,
    read: How = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Report rows with the target's column: what happened."""
    is_one_row = len(rows) > 1 or (SETTING.fullmatch(rows[0]) and not Path(rows[0]).exists())
    source: Any = [pairs(rows)] if is_one_row else rows[0]
    reading = {} if is_one_row else how_read(read)
    with asking(url, data_dir, err.print) as client:
        accepted = client.report_outcomes(
            model, source, key=key, at=at, prediction=prediction, row=row, repeated=repeated, **reading
        )
    if as_json:
        print_json(accepted)
        return
    for warning in accepted["warnings"]:
        err.print(f"warning   {warning}")
    counts = [f"{accepted['rows']:,} outcomes"]
    counts += [f"{accepted[name]:,} {name}" for name in ("replaced", "skipped") if accepted[name]]
    out.print(f"stored    {', '.join(counts)}")
    out.print(f"verdict   {accepted['text']}", soft_wrap=True)


@app.command()
def show(
    model: ModelName,
    check: Annotated[
        bool, typer.Option("--check", help="End with exit code 1 if the intervals no longer hold.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Show by week what outcomes say of a model's intervals; ranges are those that chance allows."""
    with asking(url, data_dir, err.print) as client:
        outcomes = client.outcomes(model)
    if as_json:
        print_json(outcomes)
    else:
        _show(outcomes)
    if check and outcomes["verdict"] == ALARM:
        raise typer.Exit(1)


@app.command()
def recalibrate(
    model: ModelName,
    since: Since = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Calibrate a model's intervals by its outcomes; `predict --interval calibrated` gives them."""
    with asking(url, data_dir, err.print) as client:
        result = client.recalibrate(model, since=since)
    if as_json:
        print_json(result)
        return
    out.print(f"outcomes  {result['rows']:,}, {result['first'][:10]} to {result['last'][:10]}")
    for claim in result["claims"]:
        if claim["level"] in (0.5, 0.9):
            out.print(f"claim     {claim['text']}", soft_wrap=True)


@app.command()
def policy(
    model: ModelName,
    recalibrate: Annotated[
        Literal["weekly", "off"],
        typer.Argument(help="Whether outcomes of ended weeks move the calibrated intervals."),
    ],
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Let reported outcomes recalibrate a model's intervals each week, or end that."""
    with asking(url, data_dir, err.print) as client:
        result = client.outcomes_policy(model, recalibrate)
    if as_json:
        print_json(result)
        return
    out.print(f"policy    {result['policy']['recalibrate']}")
    out.print(f"promise   {result['policy']['text']}", soft_wrap=True)


@app.command()
def refit(
    model: ModelName,
    name: Annotated[
        str | None, typer.Option(help="The name of the new model. Default: the old one's.")
    ] = None,
    holdout: Annotated[
        float | None, typer.Option(help="The fraction of rows held out. Default: as of the old model.")
    ] = None,
    since: Since = None,
    as_json: AsJson = False,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Fit again, as before, to the model's rows and its outcomes; a name then means the new model."""
    from app.cli.progress import follow_fit

    with asking(url, data_dir, err.print) as client:
        fitted = client.refit_with_outcomes(model, name=name, holdout=holdout, since=since)
        fitted = follow_fit(client, fitted, err)
    if as_json:
        print_json(fitted.document)
    else:
        out.print(f"model     {fitted.id}")


@app.command()
def delete(model: ModelName, url: Url = None, data_dir: DataDir = None) -> None:
    """Delete all outcomes of a model; its calibration stays."""
    with asking(url, data_dir, err.print) as client:
        client.delete_outcomes(model)
    err.print(f"deleted   the outcomes of {model}")


def _show(outcomes: dict[str, Any]) -> None:
    table = make_table(
        "week", "outcomes", "in 90%", "chance", "in 50%", "chance", "mean PIT", "log score", "error"
    )
    for each in outcomes["weeks"]:
        figures = each["figures"]
        half, most = figures["coverage"]
        error = figures["rmse"] if figures["rmse"] is not None else figures["brier"]
        table.add_row(
            each["week"],
            f"{figures['rows']:,}",
            *(cell for share in (most, half) for cell in _share(share)),
            f"{figures['pit_mean']['observed']:.2f}",
            f"{figures['log_score']['observed']:.3f}",
            "" if error is None else number_to_text(error),
        )
    print_table(table, "")
    if outcomes["policy"]["recalibrate"] == "weekly":
        out.print(f"weekly    {outcomes['policy']['text']}", soft_wrap=True)
    out.print(f"verdict   {outcomes['text']}", soft_wrap=True)


def _share(share: dict[str, float]) -> tuple[str, str]:
    return f"{share['observed']:.1%}", f"{share['lower']:.0%} to {share['upper']:.0%}"
