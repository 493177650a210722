"""Progress bars for a model's chains on the terminal, and the report at the end."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from app.client import Chain, Client, Dataset, Model, ModelSet, Study
from sampler.host.data import number_to_text

COMPILING = "compiling, once"
SAMPLING = "sampling"
STEPS = {
    "compiling": COMPILING,
    "judging": "judging whether the chains agree",
    "recalibrating": "making intervals hold by held-out rows",
    "scoring": "scoring the held-out rows",
    "calibrating": "calibrating intervals by held-out rows",
}
LINE_SECONDS = 4.0  # between lines where bars can't be shown
SHOWN_FAILURES = 10  # groups without a model that are named


class Bars:
    """A bar per chain, then one of the finish; call it with the model at every poll.

    Where the output is no terminal, bars appear at the end alone: until then every new stage has a line.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: list[TaskID] = []
        self._finish: TaskID | None = None
        self._stage, self._said_at = "", 0.0

    def __call__(self, model: Model) -> None:
        """Update the bars."""
        self._say(model)
        self._show_finish(model)
        while len(self._bars) < len(model.chains):
            name = f"chain {len(self._bars) + 1}".ljust(9)
            self._bars.append(self._progress.add_task(name, total=1, phase="queued", left=""))
        left = (
            "" if model.eta_seconds is None or not model.is_open else f"{_duration(model.eta_seconds)} left"
        )
        for bar, chain in zip(self._bars, model.chains, strict=True):
            self._progress.update(
                bar,
                completed=chain.iteration,
                total=chain.iterations or 1,
                phase=_phase(chain),
                left=left if bar == self._bars[0] else "",
            )

    def _show_finish(self, model: Model) -> None:
        """Show what happens between the last chain and the verdict, while it does."""
        working = _is_finishing(model)
        if working and self._finish is None:
            self._finish = self._progress.add_task("finish".ljust(9), total=None, phase="", left="")
        if self._finish is not None:
            self._progress.update(self._finish, visible=working, phase=_finish_of(model))

    def _say(self, model: Model) -> None:
        if self._progress.console.is_terminal or not model.is_open:
            return
        stage, now = _stage_of(model), time.monotonic()
        if stage != self._stage or now - self._said_at > LINE_SECONDS:
            share = f" ({model.fraction:.0%})" if stage == SAMPLING else _compiled(model)
            left = "" if model.eta_seconds is None else f", about {_duration(model.eta_seconds)} left"
            self._progress.console.print(f"progress  {stage}{share}{left}")
            self._stage, self._said_at = stage, now


@contextmanager
def bars(console: Console) -> Iterator[Bars]:
    """Show progress bars during the block; their last state stays on the terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(32),
        TaskProgressColumn(),
        TextColumn("{task.fields[phase]}"),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=console) as progress:
        yield Bars(progress)


def about_dataset(dataset: Dataset, called: str, rows: str = "rows") -> str:
    """Return one line with the numbers of rows, columns and missing values."""
    missing = {column["name"]: column["missing"] for column in dataset.columns if column["missing"]}
    counts = ", ".join(f"{count} missing in {name}" for name, count in list(missing.items())[:5])
    return (
        f"data      {called}: {dataset.num_rows:,} {rows}, {len(dataset.columns)} columns, "
        f"{counts or 'nothing missing'}"
    )


def about_use(model: Model) -> list[str]:
    """Return what can be used, in sentences; nothing before the verdict."""
    return [f"use       {model.use['text']}"] if model.use else []


def about_verdict(model: Model) -> list[str]:
    """Return the verdict on the chains with its figures, and why the noise is what the data chose."""
    lines = [f"verdict   {(model.verdict or 'none').replace('_', ' ')}"]
    figures = model.diagnostics or {}
    if claim := figures.get("claim"):  # of a forecaster
        lines.append(f"claim     {claim}")
    if agreement := figures.get("agreement"):
        lines[0] += f". {agreement}"
    f = figures.get("f")
    # absent for classes, and for weighted draws, which have no chains to compare
    sigma, likelihood = (
        each if (each := figures.get(name)) and each["rhat"] is not None else None
        for name in ("sigma", "log_likelihood")
    )
    if f and f.get("rhat_median") is not None:
        whose = f"{sigma['rhat']:.3f} for sigma, " if sigma else ""
        whose += f"{likelihood['rhat']:.3f} for the log-likelihood, " if likelihood else ""
        lines[0] += f": R-hat {whose}{f['rhat_median']:.3f} for f (median of {f['rows']} rows)"
    if f and f.get("ess_bulk_median") is not None:
        whose = f"{sigma['ess_bulk']:.0f} for sigma, " if sigma else ""
        lines.append(f"          effective sample size {whose}{f['ess_bulk_median']:.0f} for f")
    if choice := figures.get("noise_choice"):
        lines.append(f"noise     {choice['text']}")
    return lines


def follow_fit(client: Client, model: Model, console: Console) -> Model:
    """Show bars until the model ends, then the verdict, scores and next step; Ctrl-C leaves it running.

    Returns the model at its end. Raises `typer.Exit` (130) at Ctrl-C.
    """
    try:
        with bars(console) as show:
            model = client.wait(model, progress=show)
    except KeyboardInterrupt:
        console.print(f"left      {model.id} continues while a service runs on its data: bartserve models")
        raise typer.Exit(130) from None
    for line in [
        *about_use(model), *_about_scores(model), *about_verdict(model), *_about_warnings(model),
    ]:  # fmt: skip
        console.print(line, soft_wrap=True)
    asked, named = model.settings, model.name or model.id
    if not asked.get("time"):
        console.print(f"next      bartserve predict {named} NEW_ROWS.csv")
    elif asked.get("known"):
        console.print(f"next      bartserve forecast {named} --template plan.csv")
    else:
        console.print(f"next      bartserve forecast {named}")
    return model


def follow_study(client: Client, study: Study, console: Console) -> Study:
    """Show a bar until the study ends; Ctrl-C leaves it running. Returns the study with its result."""
    columns = (TextColumn("{task.description}"), BarColumn(32), TaskProgressColumn())
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("fits".ljust(9), total=study.fits)
            return client.wait_study(
                study, progress=lambda now: progress.update(bar, completed=now.fits_done)
            )
    except KeyboardInterrupt:
        console.print(f"left      {study.id} continues while a service runs on its data")
        raise typer.Exit(130) from None


def follow_set(client: Client, model_set: ModelSet, console: Console) -> ModelSet:
    """Show a bar until all models of a set have ended, then the groups without one; Ctrl-C leaves it running.

    Returns the set at its end. Raises `typer.Exit` (130) at Ctrl-C.
    """
    columns = (TextColumn("{task.description}"), BarColumn(32), TaskProgressColumn())
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("models".ljust(9), total=1)
            ended = client.wait_many(
                model_set, progress=lambda now: progress.update(bar, completed=now.fraction)
            )
    except KeyboardInterrupt:
        console.print(f"left      {model_set.id} continues while a service runs on its data")
        raise typer.Exit(130) from None
    by = ", ".join(ended.by)
    console.print(f"models    {ended.succeeded} of {ended.groups}, one for each {by}: {ended.id}")
    for each in islice(client.models_of_set(ended, state="failed"), SHOWN_FAILURES):
        console.print(f"failed    {by} {', '.join(each.group)}: {each.error}", soft_wrap=True)
    if ended.failed > SHOWN_FAILURES:
        console.print(f"          and {ended.failed - SHOWN_FAILURES} more")
    return ended


def _about_scores(model: Model) -> list[str]:
    held = model.holdout
    if not held:
        return []
    parts = [f"held out  {held['rows']} rows it never saw"]
    if held.get("rmse") is not None:
        parts[0] += f": RMSE {number_to_text(held['rmse'])}"
        if held.get("linear_rmse") is not None:
            parts[0] += f", a linear model {number_to_text(held['linear_rmse'])}"
    if held.get("zeros"):
        zeros = held["zeros"]
        parts[0] += f", {zeros['observed']:.0%} zeros where {zeros['predicted']:.0%} were predicted"
    if held.get("integrated_brier") is not None:
        parts[0] += f", {held['censored']} censored: integrated Brier score {held['integrated_brier']:.3g}"
        if held.get("base_integrated_brier") is not None:
            parts[0] += f" (without features: {held['base_integrated_brier']:.3g})"
    if held.get("log_loss") is not None:
        first, *more = _about_classes(held)
        parts = [parts[0] + first, *more]
    if held.get("joint"):
        parts += _about_joint(model, held)
    return parts + about_intervals(held)


def about_intervals(held: Mapping[str, Any]) -> list[str]:
    """Return what held-out rows say of predictive intervals; nothing of classes."""
    judged = held.get("intervals_verdict") or {}
    said = [judged[part] for part in ("text", "others", "advice") if judged.get(part)]
    return [f"{'          ' if place else 'honest?   '}{text}" for place, text in enumerate(said)]


def _about_joint(model: Model, held: Mapping[str, Any]) -> list[str]:
    joint = held["joint"]
    errors = [
        f"{name}: RMSE {number_to_text(each['rmse'])}"
        if "rmse" in each
        else f"{name}{_about_classes(each)[0]}"
        for name, each in held.get("outcomes", {}).items()
    ]
    names = ", ".join(model.settings["outcomes"])
    score = f"log score of {names} {joint['log_score']:.3g}, correlation is worth {joint['gain']:.2g}"
    inside = [f"{row['region']:.0%} of them" for row in joint["coverage"] if round(row["level"], 2) == 0.9]
    regions = [f"          90% joint regions contain {share}" for share in inside]
    return [f"          {line}" for line in (*errors, score)] + regions


def _about_classes(held: Mapping[str, Any]) -> list[str]:
    parts = [f": {held['accuracy']:.0%} in the likeliest class"]
    if held.get("majority_rate") is not None:  # models of earlier versions have none
        parts[0] += f" ({held['majority_rate']:.0%} are of the most frequent one)"
    parts[0] += f", log loss {held['log_loss']:.3g} (class frequencies alone: {held['base_log_loss']:.3g})"
    if held.get("rps") is not None:
        parts[0] += f", ranked probability score {held['rps']:.3g} ({held['base_rps']:.3g})"
    if area := held.get("auc"):
        ends = f"{area['lower']:.3f} to {area['upper']:.3f}"
        parts.append(f"ranking   area under the ROC curve {area['value']:.3f} ({ends})")
    return parts


def _about_warnings(model: Model) -> list[str]:
    return [f"warning   {warning}" for warning in model.warnings]


def _is_finishing(model: Model) -> bool:
    """Tell whether all chains are done and the verdict is being made."""
    return model.is_open and bool(model.chains) and all(chain.state == "done" for chain in model.chains)


def _finish_of(model: Model) -> str:
    """Describe the work between the last chain and the verdict."""
    held = "; scoring the held-out rows" if model.settings.get("holdout") else ""
    return STEPS.get(model.document["progress"].get("step"), f"{STEPS['judging']}{held}")


def _stage_of(model: Model) -> str:
    """Return the stage of a fit in one phrase."""
    if _is_finishing(model):
        return _finish_of(model)
    running = [chain for chain in model.chains if chain.state == "running"]
    if any(chain.phase == "compiling" for chain in running):
        return COMPILING
    return SAMPLING if running or model.fraction > 0 else "waiting for a worker"


def _compiled(model: Model) -> str:
    """Return how many kernels are compiled, while chains wait for them, which all wait for the same."""
    compiling = [(chain.iteration, chain.iterations) for chain in model.chains if chain.phase == "compiling"]
    return " ({} of {})".format(*max(compiling)) if compiling and _stage_of(model) == COMPILING else ""


def _phase(chain: Chain) -> str:
    if chain.phase == "compiling":
        return f"{COMPILING} ({chain.iteration} of {chain.iterations})"
    phase = (chain.phase or "starting") if chain.state == "running" else chain.state
    return phase.replace("_", "-")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
