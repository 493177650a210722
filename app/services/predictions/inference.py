"""Requests and answers of the Open Inference Protocol, version 2: columns as tensors, in JSON or binary."""

import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.services.errors import ENOUGH, Fault, InvalidRequestError, NotFoundError, UnusableDataError
from app.services.fits import models
from app.services.fits.models import ON_A_NAME
from app.services.predictions.answers import PredictionAnswer, finite
from app.services.predictions.options import CalibrationName, PredictionOptions
from app.services.predictions.posteriors import find
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.rows import Columns, SentRows, check_count
from app.services.request_bodies import (
    CELL,
    MAX_NAME,
    MAX_QUANTILES,
    AskedInterval,
    FirstDraws,
    Share,
    StrictBody,
)
from app.store import models as store
from app.store.engine import session_scope
from app.store.tables import SUCCEEDED
from sampler import Posterior
from sampler.host.posteriors import prediction_columns

Datatype = Literal[
    "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64",
    "BYTES",
]  # fmt: skip
BINARY = "binary_tensor_data"  # the extension
BIT_TYPES = {
    "BOOL": "u1",
    "INT": "<i",
    "UINT": "<u",
    "FP": "<f",
}  # numpy's names of what is in a binary tensor
TEXT, TRUTH, WHOLE, NUMBER = "text", "true or false", "whole numbers", "numbers"
CELLS: dict[str, set[type]] = {TEXT: {str}, TRUTH: {bool}, WHOLE: {int}, NUMBER: {int, float}}
OF_KIND = {"number": "FP64", "boolean": "BOOL"}  # other kinds of columns are BYTES
LENGTH = struct.Struct("<I")


class TensorParameters(StrictBody):
    """Parameters of an input."""

    binary_data_size: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Bytes of its data behind the JSON, in place of `data`."
    )
    content_type: str | None = Field(default=None, description="Some clients say it; ignored.")


class InputTensor(StrictBody):
    """Column of the rows; alone and of two dimensions, all features in the order of the model's inputs."""

    name: Annotated[str, Field(max_length=MAX_NAME)]
    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=2)] = Field(
        description="[rows], [rows, 1] or, of all features, [rows, features]."
    )
    datatype: Datatype
    parameters: TensorParameters | None = None
    data: (
        Annotated[
            list[Any],
            WithJsonSchema({"type": "array", "items": CELL | {"anyOf": [*CELL["anyOf"], {"type": "array"}]}}),
        ]
        | None
    ) = Field(default=None, description="The values, row by row, flat or nested; null is missing.")


class OutputParameters(StrictBody):
    """Parameters of a requested output."""

    binary_data: bool | None = Field(default=None, description="Whether it comes behind the JSON.")
    content_type: str | None = Field(default=None, description="Some clients say it; ignored.")


class RequestedOutput(StrictBody):
    """Output by its name."""

    name: Annotated[str, Field(max_length=MAX_NAME)]
    parameters: OutputParameters | None = None


class InferParameters(StrictBody):
    """Parameters of a request: the options of `predict`, and how outputs are returned."""

    level: Share = Field(default=0.9, description="The level of `lower` and `upper`.")
    interval: AskedInterval = None
    quantiles: (
        Annotated[list[Share], Field(max_length=MAX_QUANTILES)] | Annotated[str, Field(max_length=2000)]
    ) = Field(default=[], description='Of the output `quantiles`: a list, or text such as "0.1,0.5,0.9".')
    draws: FirstDraws = None
    calibration: CalibrationName = None
    binary_data_output: bool = Field(default=False, description="Whether outputs come behind the JSON.")
    content_type: str | None = Field(default=None, description="Some clients say it; ignored.")

    def options(self, outcome: str | None, *, only_mean: bool) -> PredictionOptions:
        """Return the options of `predict`; raises InvalidRequestError for quantiles that are none."""
        shares = self.quantiles
        if isinstance(shares, str):
            try:
                shares = [float(part) for part in shares.split(",") if part.strip()]
            except ValueError:
                shares = [math.nan]
            if len(shares) > MAX_QUANTILES or not all(0 < share < 1 for share in shares):
                detail = f'it is at most {MAX_QUANTILES} numbers between 0 and 1: "0.1,0.5,0.9"'
                raise InvalidRequestError(errors=[Fault("parameters.quantiles", None, detail)])
        return PredictionOptions(
            level=self.level,
            interval=self.interval,
            quantiles=shares or None,
            draws=self.draws,
            calibration=self.calibration,
            outcome=outcome,
            target="mean" if only_mean else "all",
        )


class InferBody(StrictBody):
    """Rows as tensors, and the requested outputs."""

    id: Annotated[str, Field(max_length=MAX_NAME)] | None = Field(
        None, description="Is repeated in the answer."
    )
    model_name: str | None = Field(None, description="Some clients say it; the address decides.")
    parameters: InferParameters | None = None
    inputs: Annotated[list[InputTensor], Field(fail_fast=True, min_length=1)]
    outputs: Annotated[list[RequestedOutput], Field(fail_fast=True)] | None = Field(
        None,
        description="Default: all that the model's metadata lists; `quantiles` where some are asked for.",
    )


class TensorView(BaseModel):
    """Input or output of a model; -1 is any number."""

    name: str
    datatype: Datatype
    shape: list[int]


class InferenceModelView(BaseModel):
    """Model as the protocol describes it."""

    model_config = ConfigDict(protected_namespaces=())

    name: str
    versions: list[str] = Field(
        description="Ids of the models of this name that have succeeded, newest first."
    )
    platform: str = "bartserve"
    inputs: list[TensorView] = Field(description="Columns of the rows: numbers, truth values, or text.")
    outputs: list[TensorView] = Field(
        description="Figures of each row; of more than two classes, and of several outcomes, each has its "
        "own: `mean_setosa`."
    )


class OutputView(TensorView):
    """Output with its values."""

    parameters: dict[str, int] | None = Field(None, description="`binary_data_size` of one behind the JSON.")
    data: list[float | str | bool | None] | None = Field(None, description="The values, row by row.")


class InferView(BaseModel):
    """Answer, followed by the binary outputs."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str
    model_version: str = Field(description="The model's id.")
    id: str | None = None
    parameters: dict[str, float | str | None] = Field(
        description="`interval`, `level`, `draws`, `verdict`; `class`, whose probability the figures of two "
        "classes are; `claim` of calibrated intervals; `warnings`. Of several outcomes each has its own "
        "interval, verdict, class and claim: `class_sold`."
    )
    outputs: list[OutputView]


class _Figure(NamedTuple):
    """Figure of an outcome (None: the only one), or of a class by its number."""

    figure: str
    outcome: str | None = None
    place: int | None = None


@dataclass(frozen=True)
class Inference:
    """Answer as JSON values, and the bytes behind it."""

    model_id: str
    head: dict[str, Any]
    binary: list[bytes]


def version_of(engine: Engine, owner: str, name: str, version: str | None) -> str:
    """Return the id of a version of a name, which is one of its models; without a version the name.

    Raises NotFoundError.
    """
    if version is None:
        return name
    with session_scope(engine, read_only=True) as session:
        stored = models.get(session, owner, version) if version.startswith("mdl_") else None
        if stored is None or name not in {stored.name, stored.id}:
            raise NotFoundError("The model has no such version: GET /v2/models/NAME lists those of a name.")
        return stored.id


def answering(engine: Engine, owner: str, model: str) -> str:
    """Return the id of the model that answers; raises NotFoundError and NotFinishedError."""
    with session_scope(engine, read_only=True) as session:
        return find(session, owner, model, partly=True).id


def describe(predictor: Predictor, owner: str, name: str, model: str) -> tuple[InferenceModelView, str]:
    """Describe a model, and give its id; raises NotFoundError and NotFinishedError."""
    stored, posterior, _ = predictor.lookup(owner, model)
    with session_scope(predictor.engine, read_only=True) as session:
        versions = _versions(session, owner, name) or [stored.id]
    of_inputs = {column.name: column.kind for column in posterior.inputs}
    kinds = {**of_inputs, **posterior.header.kinds_beside, **posterior.header.subgroup_kinds}
    outputs = _outputs_of(posterior)
    view = InferenceModelView(
        name=name,
        versions=versions,
        inputs=[_described(each, OF_KIND.get(kind, "BYTES"), [-1]) for each, kind in kinds.items()],
        outputs=[
            _described(
                each,
                {"flags": "BYTES", "set": "BOOL"}.get(what.figure, "FP64"),
                [-1, -1] if what.figure == "quantiles" else [-1],
            )
            for each, what in outputs.items()
        ],
    )
    return view, stored.id


def _described(name: str, datatype: Any, shape: list[int]) -> TensorView:
    return TensorView(name=name, datatype=datatype, shape=shape)


def _versions(session: Session, owner: str, name: str) -> list[str]:
    found = store.list_page(session, owner, ON_A_NAME, name=name)
    return [model.id for model in found if model.state == SUCCEEDED]


def infer(
    predictor: Predictor, owner: str, name: str, model: str, body: InferBody, binary: memoryview
) -> Inference:
    """Answer a request with the bytes behind its JSON.

    Raises
    ------
    InvalidRequestError, UnusableDataError, TooLargeError
        As `Predictor.predict`, and for tensors that aren't what they say; names input and row.
    NotFoundError, NotFinishedError
        As `Predictor.predict`.
    """
    asked = body.parameters or InferParameters()
    stored, posterior, _ = predictor.lookup(owner, model)
    known = _outputs_of(posterior)
    wanted = [each.name for each in body.outputs or ()] or list(known)
    unknown = f"the model has no such output; it has {', '.join(known)}"
    faults = [Fault(each, None, unknown) for each in wanted if each not in known]
    faults += [Fault(each, None, "ask for it once") for each, times in Counter(wanted).items() if times > 1]
    if faults:
        raise InvalidRequestError(errors=faults[:ENOUGH])
    sent = SentRows(columns=_columns(posterior, body.inputs, binary, predictor.max_rows))
    only_mean = all(known[each].figure == "mean" for each in wanted)
    answers = {
        outcome: predictor.predict(owner, stored.id, asked.options(outcome, only_mean=only_mean), sent)
        for outcome in dict.fromkeys(known[each].outcome for each in wanted)
    }
    figures = {outcome: _figures(answer) for outcome, answer in answers.items()}
    as_binary = {each.name: each.parameters.binary_data for each in body.outputs or () if each.parameters}
    outputs, behind = [], []
    for each in wanted:
        what = known[each]
        values = figures[what.outcome].get(what.figure)
        if values is None:
            if not body.outputs:
                continue
            raise InvalidRequestError(errors=[Fault(each, None, _absent(what.figure))])
        values = values if what.place is None else values[..., what.place]
        chosen = as_binary.get(each)
        head, data = _written(each, values, asked.binary_data_output if chosen is None else chosen)
        outputs.append(head)
        behind += data
    head = {
        "model_name": name,
        "model_version": stored.id,
        **({} if body.id is None else {"id": body.id}),
        "parameters": _facts(answers, asked.level),
        "outputs": outputs,
    }
    return Inference(stored.id, head, behind)


def _outputs_of(posterior: Posterior) -> dict[str, _Figure]:
    """Name the outputs of a model: figures, each of every class of more than two and of every outcome."""
    figures = ["mean", "sd", "lower", "upper", "quantiles"]
    several, classes = posterior.several, posterior.classes or ()
    if several is not None:
        named = {f"{each}_{one}": _Figure(each, one) for one in several.outcomes for each in figures}
        return named | {"flags": _Figure("flags", several.outcomes[0])}
    if posterior.conformal_table is not None and classes:
        figures.append("set")
    own = {
        each: [f"_{label}" for label in classes] if len(classes) > 2 or each == "set" else [""]
        for each in figures
    }
    named = {
        f"{each}{end}": _Figure(each, place=place if end else None)
        for each, ends in own.items()
        for place, end in enumerate(ends)
    }
    return named | {"flags": _Figure("flags")}


def _figures(answer: PredictionAnswer) -> dict[str, Any]:
    """Return the figures that an answer has, [row], of classes [row, class]; quantiles [row, quantile ..]."""
    prediction = answer.prediction
    found: dict[str, Any] = {"mean": prediction.mean}
    if answer.only_mean:
        return found
    found["sd"] = prediction.sd
    for interval in prediction.intervals:
        found |= {"lower": interval.lower, "upper": interval.upper}
    if prediction.quantiles:
        found["quantiles"] = np.stack([each.values for each in prediction.quantiles], axis=1)
    for each in prediction.sets:
        found["set"] = each.members
    return found | {"flags": prediction_columns(prediction, flags=prediction.flags)["flags"]}


def _absent(figure: str) -> str:
    if figure == "quantiles":
        return 'say which: "parameters": {"quantiles": "0.1,0.5,0.9"}'
    if figure == "set":
        return 'prediction sets are of calibrated predictions: "parameters": {"interval": "calibrated"}'
    return 'calibrated predictions of classes have sets: ask for them, or for another "interval"'


def _facts(answers: Mapping[str | None, PredictionAnswer], level: float) -> dict[str, Any]:
    first = next(iter(answers.values())).prediction
    facts: dict[str, Any] = {"level": level, "draws": first.draws}
    for outcome, answer in answers.items():
        prediction, classes = answer.prediction, answer.classes or ()
        own = {
            "interval": prediction.interval,
            "verdict": answer.verdict,
            **({"class": classes[1]} if len(classes) == 2 else {}),
            **({"claim": prediction.claims[0].text} if prediction.claims else {}),
        }
        facts |= {name if outcome is None else f"{name}_{outcome}": value for name, value in own.items()}
    warnings = dict.fromkeys(text for answer in answers.values() for text in answer.prediction.warnings)
    return facts | ({"warnings": " ".join(warnings)} if warnings else {})


def _written(name: str, values: Any, as_binary: bool) -> tuple[dict[str, Any], list[bytes]]:
    """Return an output as JSON values, and the bytes of a binary one."""
    if is_text := isinstance(values, list):
        datatype, shape = "BYTES", [len(values)]
    else:
        datatype, shape = "BOOL" if values.dtype == bool else "FP64", list(values.shape)
    head: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
    if not as_binary:
        return head | {"data": values if is_text else finite(values.ravel())}, []
    if is_text:
        texts = [text.encode() for text in values]
        data = b"".join(chain.from_iterable((LENGTH.pack(len(text)), text) for text in texts))
    else:
        data = values.astype("u1" if datatype == "BOOL" else "<f8").tobytes()
    return head | {"parameters": {"binary_data_size": len(data)}}, [data]


def _columns(
    posterior: Posterior, inputs: Sequence[InputTensor], binary: memoryview, max_rows: int
) -> Columns:
    """Return the rows of a request by column; raises as `infer`."""
    names = [column.name for column in posterior.inputs]
    (first, *others), at, columns = inputs, 0, Columns()
    wide = first.shape[1] if len(first.shape) > 1 else 1
    check_count(first.shape[0], max_rows)
    by_place = not others and len(first.shape) > 1 and (wide > 1 or first.name not in names)
    for tensor in inputs:
        width = tensor.shape[1] if len(tensor.shape) > 1 else 1
        if tensor.shape[0] != first.shape[0]:
            _refuse(tensor, f"it has {tensor.shape[0]} rows, and {first.name} has {first.shape[0]}")
        if width != (len(names) if by_place else 1):
            _refuse(
                tensor,
                f"it has {width} columns: send one for each column, or alone all {len(names)} in the order "
                "of the model's inputs",
            )
        if tensor.name in columns:
            _refuse(tensor, "the input occurs twice")
        size = tensor.parameters.binary_data_size if tensor.parameters else None
        if (size is None) == (tensor.data is None):
            _refuse(tensor, "it has either data, or binary_data_size and its bytes behind the JSON")
        if size is None:
            cells = _from_json(tensor, width)
        else:
            if at + size > len(binary):
                _refuse(tensor, f"the body ends {at + size - len(binary)} bytes before its data")
            cells = _from_binary(tensor, width, binary[at : at + size])
            at += size
        for place, name in enumerate(names if by_place else [tensor.name]):
            columns[name] = cells[place::width]
    if at < len(binary):
        detail = f"{len(binary) - at} bytes behind the JSON belong to no input; see binary_data_size"
        raise InvalidRequestError(errors=[Fault("inputs", None, detail)])
    kinds = {column.name: column.kind for column in posterior.inputs}
    return _without_empty_texts(kinds, columns)


def _without_empty_texts(kinds: Mapping[str, str], columns: Columns) -> Columns:
    """Return columns with None for empty texts unless they have levels: no other binary text is missing."""
    return {
        name: cells
        if kinds.get(name) in {"category", "encoded"}
        else [None if cell == "" else cell for cell in cells]
        for name, cells in columns.items()
    }


def _refuse(tensor: InputTensor, detail: str, row: int | None = None) -> NoReturn:
    raise UnusableDataError(errors=[Fault(tensor.name, row, detail)])


def _numpy_type(datatype: str) -> np.dtype[Any]:
    """Return the type of a binary tensor that isn't BYTES."""
    kind = datatype.rstrip("0123456789")
    size = datatype[len(kind) :]
    return np.dtype(f"{BIT_TYPES[kind]}{int(size) // 8 if size else ''}")


def _from_binary(tensor: InputTensor, width: int, data: memoryview) -> list[Any]:
    count = tensor.shape[0] * width
    if tensor.datatype == "BYTES":
        cells = list(_texts(tensor, width, data))
        if len(cells) != count:
            _refuse(tensor, f"its bytes are {len(cells)} texts, and its shape is of {count}")
        return cells
    kind = _numpy_type(tensor.datatype)
    if len(data) != count * kind.itemsize:
        _refuse(
            tensor, f"it has {len(data)} bytes, and {count} of {tensor.datatype} are {count * kind.itemsize}"
        )
    values = np.frombuffer(data, kind)
    if tensor.datatype == "BOOL":
        values = values != 0
    return _plain(values)


def _plain(values: Any) -> list[Any]:
    """Return an array as Python's values, with None for NaN."""
    cells = values.astype(object)
    if values.dtype.kind == "f":
        cells[np.isnan(values)] = None
    return list(cells.tolist())


def _texts(tensor: InputTensor, width: int, data: memoryview) -> Iterator[str]:
    at, number = 0, 0
    while at < len(data):
        row = number // width + 1
        if at + LENGTH.size > len(data):
            _refuse(tensor, "its bytes end within the length of a text", row)
        (size,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        if at + size > len(data):
            _refuse(tensor, "its bytes end within a text", row)
        try:
            text = str(data[at : at + size], "utf-8")
        except UnicodeDecodeError:
            _refuse(tensor, "the text is not UTF-8", row)
        yield text
        at, number = at + size, number + 1


def _from_json(tensor: InputTensor, width: int) -> list[Any]:
    cells, datatype = tensor.data or [], tensor.datatype
    if cells and isinstance(cells[0], list):
        for number, row in enumerate(cells, 1):
            if not isinstance(row, list) or len(row) != width:
                _refuse(tensor, f"the row is no list of {width}", number)
        cells = list(chain.from_iterable(cells))
    if len(cells) != tensor.shape[0] * width:
        _refuse(tensor, f"it has {len(cells)} values, and its shape is of {tensor.shape[0] * width}")
    what = {"BYTES": TEXT, "BOOL": TRUTH}.get(datatype, NUMBER if datatype.startswith("FP") else WHOLE)
    if not {type(cell) for cell in cells} <= CELLS[what] | {type(None)}:
        faults = [
            Fault(tensor.name, number // width + 1, f"{datatype} is {what}, or null")
            for number, cell in enumerate(cells)
            if cell is not None and type(cell) not in CELLS[what]
        ]
        raise UnusableDataError(errors=faults[:ENOUGH])
    if what in {TEXT, TRUTH}:
        return cells
    there = [place for place, cell in enumerate(cells) if cell is not None]
    try:
        with np.errstate(over="ignore"):  # becomes infinite, which is refused as such
            values = np.array([cells[place] for place in there], _numpy_type(datatype)).tolist()
    except OverflowError:
        _refuse(tensor, f"a number is beyond {datatype}")
    cells = [None] * len(cells)
    for place, value in zip(there, values, strict=True):
        cells[place] = value
    return cells
