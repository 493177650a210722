"""Model files as MLflow models: `mlflow.pyfunc` gives the numbers of `Posterior.predict`.

A model is stored as its file, which holds numbers and text alone: to load it runs nothing that it contains.
Needs ``pip install 'bartserve[mlflow]'``.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import mlflow.pyfunc
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from mlflow.models.signature import ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec
from mlflow.types import Schema as MlflowSchema
from mlflow.types.schema import AnyType

from sampler import Posterior, load
from sampler.posterior.results.columns import by_class
from sampler.posterior.results.prediction import prediction_columns

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from mlflow.models.model import ModelInfo

    from sampler.data.schema import Column
    from sampler.posterior.results.prediction import Prediction

Stored: TypeAlias = "Posterior | str | os.PathLike[str]"
__all__ = ["load_model", "log_model", "save_model"]

FILE = "model.bart"
MILLISECONDS_A_DAY = 86_400_000
REQUIREMENTS = ["bartserve", "pandas"]


def save_model(model: Stored, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a model as an MLflow model of the `pyfunc` flavour.

    Parameters
    ----------
    model
        A posterior, or the path of a model file.
    path
        The folder to write.
    **options
        Of `mlflow.pyfunc.save_model`, such as ``pip_requirements``; signature and input example come from the
        model's schema unless given.
    """
    _packed(mlflow.pyfunc.save_model, model, path=str(path), **options)


def log_model(model: Stored, name: str = "model", **options: Any) -> ModelInfo:
    """Log a model to the active MLflow run, as `save_model` writes it; returns what MLflow says of it.

    Options are of `mlflow.pyfunc.log_model`, such as ``registered_model_name``.
    """
    return _packed(mlflow.pyfunc.log_model, model, name=name, **options)


def load_model(model_uri: str) -> Posterior:
    """Load a posterior that `save_model` or `log_model` stored, from a folder or an address of MLflow."""
    found: Posterior = mlflow.pyfunc.load_model(model_uri).get_raw_model()
    return found


def _packed(write: Any, model: Stored, **options: Any) -> Any:
    posterior = model if isinstance(model, Posterior) else load(model)
    with TemporaryDirectory() as folder:
        file = Path(folder) / FILE
        posterior.save(file)
        told = {"verdict": posterior.summary().verdict, "target": posterior.schema.target.name}
        known = {
            "pip_requirements": REQUIREMENTS,
            "signature": signature_of(posterior),
            "input_example": example_of(posterior),
            "metadata": {"bartserve": told},
        }
        return write(loader_module="bartserve.mlflow", data_path=str(file), **known | options)


class _Predictor:
    """The model as MLflow calls it: rows as a data frame in, figures as a data frame out."""

    def __init__(self, posterior: Posterior) -> None:
        self._posterior = posterior

    def get_raw_model(self) -> Posterior:
        """Return the posterior itself, which `load_model` gives."""
        return self._posterior

    def predict(self, rows: pd.DataFrame, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Predict rows; `params` are ``level`` and ``interval`` of `Posterior.predict`, and ``quantiles``."""
        asked = dict(params or {})
        prediction = self._posterior.predict(
            rows,
            level=asked.get("level", 0.9),
            interval=asked.get("interval") or None,
            quantiles=list(asked.get("quantiles") or []) or None,
            ignore_extra=True,
        )
        return pd.DataFrame(_figures(prediction), index=rows.index)


def _figures(prediction: Prediction) -> dict[str, Any]:
    """Arrange a prediction by name, with the unusual cells of each row as text."""
    named = by_class(prediction_columns(prediction, flags=prediction.flags), prediction.classes)
    return named | {"interval": [prediction.interval] * len(prediction)}


def _load_pyfunc(path: str) -> _Predictor:
    """Load the flavour; MLflow calls it with the model file, or the folder that has it."""
    found = Path(path)
    return _Predictor(load(found / FILE if found.is_dir() else found))


def signature_of(posterior: Posterior) -> ModelSignature:
    """Return the columns that new rows need, the figures of an answer, and its parameters.

    Numbers and categories may be of any type, since MLflow takes no integers for a number else: they are
    checked by the model, cell by cell.
    """
    inputs = [
        ColSpec(DataType.datetime if column.kind == "date" else AnyType(), column.name, required=False)
        for column in posterior.schema.inputs
    ]
    beside = [ColSpec(AnyType(), name, required=False) for name in posterior.beside.values()]
    answer = pd.DataFrame(_figures(posterior.predict(example_of(posterior))))
    outputs = [ColSpec(_type_of(answer[name]), name) for name in answer.columns]
    params = ParamSchema([
        ParamSpec("level", DataType.double, 0.9),
        ParamSpec("interval", DataType.string, ""),
        ParamSpec("quantiles", DataType.double, [], shape=(-1,)),
    ])  # fmt: skip
    return ModelSignature(MlflowSchema([*inputs, *beside]), MlflowSchema(outputs), params)


def example_of(posterior: Posterior) -> pd.DataFrame:
    """Return a row in the middle of the training data: of each column the middle of its range, or a level."""
    row = {column.name: [_middle(column)] for column in posterior.schema.inputs}
    return pd.DataFrame(row | {name: [1.0] for name in posterior.beside.values()})


def _middle(column: Column) -> Any:
    if column.kind == "category":
        return column.levels[0] if column.levels else None
    if column.min is None or column.max is None:
        return np.nan
    middle = (column.min + column.max) / 2
    if column.kind == "date":
        return pd.Timestamp(round(middle) * MILLISECONDS_A_DAY, unit="ms")
    return bool(round(middle)) if column.kind == "boolean" else middle


def _type_of(values: pd.Series[Any]) -> DataType:
    kinds = {"f": DataType.double, "b": DataType.boolean}
    return kinds.get(values.dtype.kind, DataType.string)
