"""Verbs of the service, each a method that becomes a tool."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from app.assistants.words import (
    FEATURES,
    WARNINGS,
    dataset_words,
    forecast_words,
    joined,
    line,
    listed,
    model_words,
    prediction_words,
    problem_words,
    verdict_words,
)
from app.client import Client, ClientError, FitError, ProblemError, WaitedTooLongError
from app.client.bodies import BY_SUFFIX

ROWS = 50  # of one prediction
NEWEST = 20  # models and datasets that are listed
FORBIDDEN = 403
WAIT = 50.0  # seconds: less than clients of the protocol wait for an answer
FILES = (".csv", ".txt", *BY_SUFFIX)  # what an assistant may upload of the folder
NamedModel = Annotated[
    str, Field(description="A model's id, or a name, which means the newest that has succeeded.")
]
FewRows = Annotated[
    list[dict[str, Any]],
    Field(description=f"Rows as objects of values by column, at most {ROWS}."),
]


class Tools:
    """Tools that ask a service with the caller's key, so that they see and may do what the key does.

    Parameters
    ----------
    client
        Makes the client for the headers of a request; None on stdio.
    folder
        Files in it can be uploaded; None: none can.

    """

    def __init__(self, client: Callable[[Mapping[str, str] | None], Client], folder: Path | None) -> None:
        self._client = client
        self._folder = None if folder is None else folder.resolve()

    @contextmanager
    def _asking(self, context: Context) -> Iterator[Client]:
        """Yield the caller's client; its errors become the tool's, in words."""
        try:
            yield self._client(context.headers)
        except ProblemError as error:
            raise ToolError(problem_words(error)) from None
        except ClientError as error:
            raise ToolError(str(error)) from None

    def overview(self, context: Context) -> str:
        """List the newest models and datasets."""
        with self._asking(context) as bart:
            models = list(islice(bart.models(), NEWEST))
            datasets = list(islice(bart.datasets(), NEWEST))
        return joined(
            [
                "Models:" if models else "There are no models.",
                *(f"- {line(m.name or m.id)} ({m.id}): {m.state}, predicts {line(m.target)}" for m in models),
                "Datasets:" if datasets else "There are no datasets: call upload.",
                *(f"- {line(d.name)} ({d.id}): {d.num_rows} rows" for d in datasets),
            ]
        )

    def upload(
        self,
        context: Context,
        csv: Annotated[str | None, Field(description="The table as CSV, with a header line.")] = None,
        path: Annotated[
            str | None,
            Field(
                description="Instead: a file (Excel, CSV, JSON, Parquet, Arrow) in the folder that the "
                "server may read."
            ),
        ] = None,
        name: Annotated[str | None, Field(description="The name of the dataset.")] = None,
    ) -> str:
        """Upload a table; answers with its id, columns and warnings."""
        if (csv is None) == (path is None):
            raise ToolError("Give either csv, a table as text, or path, a file.")
        data: Any = self._file(path) if path is not None else (csv or "").encode()
        with self._asking(context) as bart:
            return dataset_words(bart.upload(data, name=name))

    def _file(self, path: str) -> Path:
        """Return a file of the folder, or refuse it in one sentence, whether or not it exists elsewhere."""
        if self._folder is None:
            raise ToolError(
                "This server reads no files: give the table as csv (`bartserve mcp --folder` allows some)."
            )
        file = (self._folder / path).resolve()
        if not file.is_relative_to(self._folder) or file.suffix.lower() not in FILES or not file.is_file():
            raise ToolError(
                f"{line(path)} is no workbook, CSV, JSON, Parquet or Arrow file in {self._folder}."
            )
        return file

    def fit(
        self,
        context: Context,
        dataset: Annotated[str, Field(description="A dataset's id.")],
        target: Annotated[
            str | list[str],
            Field(
                description="The column to predict, or several numbers whose errors may go together, then "
                "at most one of two classes."
            ),
        ],
        name: Annotated[str | None, Field(description="A name for the model.")] = None,
        features: Annotated[
            list[str] | dict[str, list[str]] | None,
            Field(
                description="Columns to learn from, of several targets the same ones or by target; default: "
                "all that are usable."
            ),
        ] = None,
        holdout: Annotated[
            float, Field(ge=0, le=0.9, description="Share of rows held out, by which intervals are checked.")
        ] = 0.2,
        settings: Annotated[
            dict[str, Any] | None,
            Field(
                description='Further fields of POST /models, such as {"groups": ["school"]}, {"new_rows": '
                '{"later": "date"}}, {"family": "count"} or {"num_chains": 4}; the defaults suit most tables.'
            ),
        ] = None,
    ) -> str:
        """Start to fit a model, by default with a fifth of the rows held out; then call wait."""
        held = None if (settings or {}).get("time") else holdout  # forecasts are judged by rehearsals
        given = {"name": name, "features": features, "holdout": held, **(settings or {})}
        if taken := sorted({"self", "dataset", "dataset_id", "target"} & (settings or {}).keys()):
            raise ToolError(f"settings can't have {taken[0]}: it is an argument of its own.")
        with self._asking(context) as bart:
            return model_words(bart.fit(dataset, target, **given))

    def wait(
        self,
        context: Context,
        model: NamedModel,
        seconds: Annotated[float, Field(ge=0, le=WAIT, description="At most so many seconds.")] = 30.0,
    ) -> str:
        """Wait for a fit; answers with its verdict, or with its progress if it takes longer."""
        with self._asking(context) as bart:
            try:
                return model_words(bart.wait(model, seconds=seconds))
            except (WaitedTooLongError, FitError):
                return model_words(bart.model(model))

    def verdict(self, context: Context, model: NamedModel) -> str:
        """Say whether a model's predictions and intervals can be used, by its chains and held-out rows."""
        with self._asking(context) as bart:
            return model_words(bart.model(model))

    def predict(
        self,
        context: Context,
        model: NamedModel,
        rows: FewRows,
        level: Annotated[float, Field(gt=0, lt=1, description="The level of the intervals.")] = 0.9,
        interval: Annotated[
            Literal["predictive", "credible", "calibrated"] | None,
            Field(description="predictive: of a new outcome; credible: of its expectation or probability."),
        ] = None,
        outcome: Annotated[
            str | None, Field(description="Which target of a model of several; default: the first.")
        ] = None,
    ) -> str:
        """Predict rows with intervals; report an interval only as its verdict allows."""
        if not 1 <= len(rows) <= ROWS:
            raise ToolError(f"Give 1 to {ROWS} rows, not {len(rows)}; `bartserve predict` takes whole files.")
        with self._asking(context) as bart:
            named: Any = {} if outcome is None else {"outcome": outcome}
            answer = bart.predict(model, rows, level=level, interval=interval, **named)
            try:
                use = bart.model(answer.model_id).use
            except ProblemError as error:
                if error.status != FORBIDDEN:
                    raise
                use = None  # the key may predict and not read
        return prediction_words(answer, use)

    def forecast(
        self,
        context: Context,
        model: NamedModel,
        known: Annotated[
            list[dict[str, Any]] | None,
            Field(
                description="The plan, where columns are known ahead: rows with them, times and series for "
                "each step. A refusal names the first row that is lacking."
            ),
        ] = None,
        series: Annotated[list[Any] | None, Field(description="Series to forecast; default: all.")] = None,
        steps: Annotated[int | None, Field(ge=1, description="Steps of the total; default: all.")] = None,
        by: Annotated[str | None, Field(description="A column whose values make a total each.")] = None,
        level: Annotated[float, Field(gt=0, lt=1, description="The level of the intervals.")] = 0.9,
    ) -> str:
        """Forecast the next steps of series, and their total over a lead time, with intervals and claims."""
        total = {name: value for name, value in (("steps", steps and [steps]), ("by", by)) if value}
        with self._asking(context) as bart:
            return forecast_words(bart.forecast(model, known, series=series, level=level, totals=[total]))

    def explain(
        self,
        context: Context,
        model: NamedModel,
        feature: Annotated[
            str | None,
            Field(description="How predictions change with this feature, among rows like the data's."),
        ] = None,
        row: Annotated[
            dict[str, Any] | None, Field(description="Instead: what moves the prediction of this row.")
        ] = None,
    ) -> str:
        """Say which features matter (without arguments), what one does, or why a row is predicted so."""
        if feature is not None and row is not None:
            raise ToolError("Give feature or row, not both.")
        with self._asking(context) as bart:
            fitted = bart.model(model)
            if row is not None:
                told = _reasons(bart.shap(fitted, [row]))
            elif feature is not None:
                told = _effect(bart.accumulated_effects(fitted, feature))
            elif fitted.holdout is None:
                told = _shares(bart.inclusion(fitted), "Shares of the split rules (nothing was held out)")
            else:
                answer = bart.importance(fitted)
                head = f"Increase of {answer['loss']} on held-out rows when a feature is shuffled"
                told = _shares(answer["features"], head)
        return joined([verdict_words(fitted.verdict, fitted.use), *told])

    def compare(self, context: Context, model: NamedModel, other: NamedModel) -> str:
        """Compare two models of a dataset by the scores of rows that both held out."""
        with self._asking(context) as bart:
            answer = bart.compare(model, other)
            both = [bart.model(answer[name]) for name in ("model_id", "other_id")]
        names = [line(each.name or each.id) for each in both]
        lines = [f"{answer['rows']} rows that both held out; first is {names[0]}, second {names[1]}."]
        for each in answer["differences"]:
            best = f"the {each['better']} is better" if each["better"] else "no difference beyond chance"
            lines.append(
                f"- {each['score']}: {line(each['first'])} and {line(each['second'])}, difference "
                f"{line(each['difference'])} with standard error {line(each['error'])}: {best}"
            )
        verdicts = [f"{name}: {verdict_words(m.verdict, m.use)}" for name, m in zip(names, both, strict=True)]
        return joined([*lines, *verdicts])


TOOLS = ("overview", "upload", "fit", "wait", "verdict", "predict", "forecast", "explain", "compare")
CHANGES = frozenset({"upload", "fit"})  # the others change nothing


def _span(mean: Any, lower: Any, upper: Any) -> str:
    return f"{line(mean)} ({line(lower)} to {line(upper)})"


def _shares(features: list[dict[str, Any]], head: str) -> list[str]:
    shown = [f"- {line(f['name'])}: {_span(f['mean'], f['lower'], f['upper'])}" for f in features[:FEATURES]]
    rest = [f"… and {len(features) - FEATURES} more"] if len(features) > FEATURES else []
    return [f"{head}, with 90% intervals:", *shown, *rest]


def _effect(answer: dict[str, Any]) -> list[str]:
    """Return up to nine points of an accumulated effect."""
    if answer["classes"] is not None and len(answer["classes"]) > 2:
        return ["Effects of several classes are on the model's page, and in the HTTP API."]
    ends, grid = answer["intervals"][0], answer["grid"]
    places = sorted({round(i * (len(grid) - 1) / 8) for i in range(9)})
    points = [
        f"- at {line(grid[i])}: {_span(answer['mean'][i], ends['lower'][i], ends['upper'][i])}"
        for i in places
    ]
    return [
        f"Predictions by {line(answer['feature'])}, as differences from their mean, with 90% intervals:",
        *points,
    ]


def _reasons(answer: dict[str, Any]) -> list[str]:
    """Return the SHAP values of one row, the largest first."""
    if answer["classes"] is not None and len(answer["classes"]) > 2:
        return ["Reasons for several classes are on the model's page, and in the HTTP API."]
    values = zip(answer["features"], answer["values"][0], answer["lower"][0], answer["upper"][0], strict=True)
    ranked = sorted(values, key=lambda each: -abs(each[1]))[:FEATURES]
    return [
        f"On the scale of {answer['scale']}: {line(answer['base'])} on average, {line(answer['f'][0])} for "
        "this row. Its features move it by, with 90% intervals:",
        *(f"- {line(name)}: {_span(*ends)}" for name, *ends in ranked),
        *listed(answer["warnings"], WARNINGS, "Warning: "),
    ]
