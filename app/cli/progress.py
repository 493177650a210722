"""A model's chains as bars on the terminal, and what is said of it at the end."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from app.client import Chain, Dataset, Model


class Bars:
    """A bar per chain; call it with the model at every look."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: list[TaskID] = []

    def __call__(self, model: Model) -> None:
        """Show how far it is."""
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


@contextmanager
def bars(console: Console) -> Iterator[Bars]:
    """Bars as long as the block lasts; what they showed last stays on the terminal."""
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
    """One line: how many rows and columns, what is missing."""
    missing = {column["name"]: column["missing"] for column in dataset.columns if column["missing"]}
    told = ", ".join(f"{count} missing in {name}" for name, count in list(missing.items())[:5])
    return (
        f"data      {called}: {dataset.num_rows:,} {rows}, {len(dataset.columns)} columns, "
        f"{told or 'nothing missing'}"
    )


def about_verdict(model: Model) -> list[str]:
    """The verdict with the figures that it rests on."""
    told = [f"verdict   {(model.verdict or 'none').replace('_', ' ')}"]
    figures = model.diagnostics or {}
    sigma, f = figures.get("sigma"), figures.get("f")
    if f and f.get("rhat_median") is not None:
        whose = f"{sigma['rhat']:.3f} for sigma and " if sigma else ""
        told[0] += f": R-hat {whose}{f['rhat_median']:.3f} for f (median of {f['rows']} rows)"
    if f and f.get("ess_bulk_median") is not None:
        whose = f"{sigma['ess_bulk']:.0f} for sigma, " if sigma else ""
        told.append(f"          effective sample size {whose}{f['ess_bulk_median']:.0f} for f")
    return told


def _phase(chain: Chain) -> str:
    if chain.phase == "compiling":
        return f"compiling, first run only ({chain.iteration} of {chain.iterations})"
    phase = (chain.phase or "starting") if chain.state == "running" else chain.state
    return phase.replace("_", "-")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
