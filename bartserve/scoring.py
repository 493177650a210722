"""Predictions where the rows are: a function from columns to columns for Dask, Ray, Spark and the like.

>>> from bartserve.scoring import Scorer
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from sampler import DataError, Posterior, SettingsError, load, load_many
from sampler.data.row_flags import as_text
from sampler.storage.forecast_file import is_forecaster

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from app.client import Client
    from sampler.many.posteriors import ManyPosteriors

MODELS_HELD = 4  # of a process that scores with several
KEPT_BYTES = 1 << 28  # of freed memory that a scoring process keeps for its next batch
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, MOST_MMAP = -1, -3, 1 << 25  # of malloc.h, and what glibc takes at most
SPARK_TYPES = {"float64": "double", "bool": "boolean", "object": "string"}

_held: OrderedDict[str, Posterior | ManyPosteriors] = OrderedDict()
_lock = threading.Lock()


class Scorer:
    """Function that predicts the rows of a table, which engines send to their processes.

    It takes a pandas, polars or pyarrow table, or a mapping of columns, and returns one of the same kind with
    a row for each of its rows: the columns to keep, then ``mean``, ``sd``, ``lower_90``, ``upper_90``, .. as
    `Prediction.columns` names them, and ``flags``, the cells unlike the training data as text
    ("unseen_level: town; outside_range: age"). Columns that the model doesn't know are not read. Pickled it
    is the model file and these options; each process decodes the model once.

    Parameters
    ----------
    model
        A posterior, its file, or a folder of `fit_many`: rows then go to the model of their group, and those
        of other groups get missing figures and the flag "unknown_group".
    level, interval, quantiles, num_draws
        As for `Posterior.predict`.
    keep
        Columns to repeat in the answer, such as an id of the row.
    shared
        Whether every process sees the file, and reads it there; else its contents are sent along. A folder
        has to be shared.

    Raises
    ------
    SettingsError
        For a model that is none of these, such as a forecaster, and options that don't suit it.

    """

    def __init__(
        self,
        model: Posterior | str | os.PathLike[str],
        *,
        level: float | Sequence[float] | None = 0.9,
        interval: str | None = None,
        quantiles: float | Sequence[float] | None = None,
        num_draws: int | None = None,
        keep: Sequence[str] = (),
        shared: bool = False,
    ) -> None:
        self._options: dict[str, Any] = {
            "level": level, "interval": interval, "quantiles": quantiles, "num_draws": num_draws
        }  # fmt: skip
        self._keep = tuple(keep)
        self._path: str | None = None
        self._contents = b""
        if _forecasts(model):
            message = (
                "a forecaster forecasts whole series and predicts no rows: ask forecast(plan, series=[..]) "
                "of it in each process, to which it is sent as its file; each series has the same forecast"
            )
            raise SettingsError(message, field="model", code="not_applicable")
        if isinstance(model, Posterior):
            self._contents = model.to_bytes()
        elif Path(model).is_dir() or (shared and Path(model).is_file()):
            self._path = str(Path(model).resolve())
        elif Path(model).is_file():
            self._contents = Path(model).read_bytes()
        else:
            raise SettingsError(
                f"model must be a posterior, a model file or a folder of fit_many, and {model} is none",
                field="model",
                code="not_accepted",
            )
        self._name = self._path or hashlib.sha256(self._contents).hexdigest()
        self._types = {name: values.dtype for name, values in self._try().items()}

    @classmethod
    def from_service(cls, client: Client, model: str, **options: Any) -> Scorer:
        """Take a service's model, by name or id, with options as of the class."""
        with tempfile.TemporaryDirectory() as folder:
            return cls(client.download(model, Path(folder) / "model.bart"), **options)

    def __call__(self, table: Any) -> Any:
        """Predict the rows of a table; return a table of its kind, with a row for each of them.

        Raises
        ------
        DataError
            For columns that the model or `keep` names and the table lacks, and cells of the wrong type.

        """
        if isinstance(table, Mapping):
            self._check_kept(list(table))
            rows = len(next(iter(table.values()), ()))
            return {name: table[name] for name in self._keep} | self._figures(table, rows)
        frame = nw.from_native(table, eager_only=True)
        self._check_kept(frame.columns)
        figures = self._figures(table, len(frame))
        if frame.implementation.is_pandas():
            kept = {name: table[name] for name in self._keep}
            return sys.modules["pandas"].DataFrame(kept | figures, index=table.index)
        if frame.implementation.is_pyarrow():
            arrow = sys.modules["pyarrow"]
            texts = {name: arrow.string() for name, values in figures.items() if values.dtype == object}
            added = {name: arrow.array(values, texts.get(name)) for name, values in figures.items()}
            return arrow.table({name: table[name] for name in self._keep} | added)
        there = frame.implementation
        whole = {name: frame.get_column(name) for name in self._keep} | {
            name: nw.new_series(name, values.tolist(), nw.String, backend=there)
            if values.dtype == object
            else values
            for name, values in figures.items()
        }
        return nw.from_dict(whole, backend=there).to_native()

    def batches(self, tables: Iterable[Any]) -> Iterator[Any]:
        """Predict one table after another, as Spark's `mapInPandas` has them."""
        return map(self, tables)

    @property
    def schema(self) -> dict[str, str]:
        """Type of each column that is added: "float64", "bool", or "object" for text."""
        return {name: str(kind) for name, kind in self._types.items()}

    def spark_schema(self, types: Iterable[tuple[str, str]] = ()) -> str:
        """Write the schema as Spark reads it; `types` are those of the columns to keep, ``frame.dtypes``."""
        known = dict(types)
        self._check_kept(list(known))
        columns = {name: known[name] for name in self._keep}
        columns |= {name: SPARK_TYPES[kind] for name, kind in self.schema.items()}
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())

    def _check_kept(self, names: Sequence[str]) -> None:
        absent = [name for name in self._keep if name not in names]
        if absent:
            raise DataError(f"the table has no column {absent[0]!r}, which the answer is to keep")

    def _figures(self, table: Any, rows: int) -> dict[str, Any]:
        if not rows:
            return {name: np.empty(0, kind) for name, kind in self._types.items()}
        _keep_freed_memory()
        model, options = self._model(), {**self._options, "ignore_extra": True}
        if isinstance(model, Posterior):
            return _columns_of(model.predict(table, **options))
        return _columns_of(model.predict(table, unknown="flag", **options))

    def _model(self) -> Posterior | ManyPosteriors:
        """Return the model, which a process decodes once."""
        with _lock:
            if self._name not in _held:
                if self._path is None:
                    _held[self._name] = Posterior.from_bytes(self._contents)
                else:
                    _held[self._name] = (
                        load_many(self._path) if Path(self._path).is_dir() else load(self._path)
                    )
            _held.move_to_end(self._name)
            while len(_held) > MODELS_HELD:
                _held.popitem(last=False)
            return _held[self._name]

    def _try(self) -> dict[str, Any]:
        """Predict a row of missing values, by which the columns are known."""
        model = self._model()
        posterior = model if isinstance(model, Posterior) else next(iter(model.values()))
        row = {column.name: [None] for column in posterior.schema.inputs}
        return _columns_of(posterior.predict(row, **self._options))


def _forecasts(model: Any) -> bool:
    """Tell whether a model, or its file, is a forecaster."""
    if isinstance(model, Posterior) or hasattr(model, "forecast"):
        return hasattr(model, "forecast")
    if not Path(model).is_file():
        return False
    with Path(model).open("rb") as file:
        return is_forecaster(file.read(64))


def _columns_of(prediction: Any) -> dict[str, Any]:
    named = prediction.columns()
    del named["interval"]
    flags = np.array([as_text(flags) for flags in prediction.flags], dtype=object)
    return {name: np.asarray(values) for name, values in named.items()} | {"flags": flags}


@cache
def _keep_freed_memory() -> None:
    """Have glibc reuse freed blocks, which some engines have it return: that takes most of the time."""
    with suppress(OSError, AttributeError, TypeError):  # another C library
        options = ctypes.CDLL(None).mallopt
        options(M_MMAP_THRESHOLD, MOST_MMAP)
        options(M_TRIM_THRESHOLD, KEPT_BYTES)
