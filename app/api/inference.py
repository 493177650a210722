"""The Open Inference Protocol, version 2: health, metadata and predictions by its paths."""

from importlib.metadata import version as version_of_package
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from app.services.access.keys import PREDICT, READ
from app.services.errors import InvalidRequestError, UnavailableError
from app.services.predictions.inference import (
    BINARY,
    InferBody,
    InferenceModelView,
    InferView,
    answering,
    describe,
    infer,
    version_of,
)
from app.services.predictions.predict_rows import Predictor
from app.services.readers.unpack import GZIP
from app.web.dependencies import Owner, TheGate, ThePredictor, TheReadiness
from app.web.errors import RETRY_SECONDS, responses
from app.web.json_body import parse
from app.web.json_pieces import written
from app.web.negotiation import JSON
from app.web.read_options import BINARY as BINARY_CONTENT
from app.web.scopes import MAX_JSON_BYTES, GuardedRoute, keyless, needs
from app.web.uploads import check_coding

router = APIRouter(prefix="/v2", tags=["inference"], route_class=GuardedRoute)
LENGTH = "Inference-Header-Content-Length"  # of the JSON, where binary tensors follow it
MAX_DIGITS = 19  # of a length: Python refuses to read thousands
OCTETS = "application/octet-stream"
BODY: dict[str, Any] = {
    "parameters": [
        {
            "name": LENGTH,
            "in": "header",
            "required": False,
            "schema": {"type": "integer", "minimum": 0},
            "description": "Bytes of the JSON, where binary tensors follow it.",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/InferBody"}}, OCTETS: BINARY_CONTENT},
    },
}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON, followed by the outputs that were asked for in binary.",
        "content": {OCTETS: BINARY_CONTENT},
    }
}


class Live(BaseModel):
    """The process responds."""

    live: Literal[True] = True


class ServerReady(BaseModel):
    """Work is accepted."""

    ready: Literal[True] = True


class ModelReady(BaseModel):
    """The model answers."""

    name: str
    ready: Literal[True] = True


class ServerMetadata(BaseModel):
    """The server by name, and the extensions of the protocol that it has."""

    name: Literal["bartserve"] = "bartserve"
    version: str
    extensions: list[str]


@router.get("/health/live", responses=responses())
@keyless
async def server_live() -> Live:
    """Report that this process responds, as `/health/live`."""
    return Live()


@router.get("/health/ready", responses=responses())
@keyless
def server_ready(readiness: TheReadiness) -> ServerReady:
    """Report whether work is accepted, as `/health/ready`."""
    if missing := readiness.missing():
        raise UnavailableError(errors=missing, retry_after=RETRY_SECONDS)
    return ServerReady()


@router.get("", responses=responses())
@needs(READ, PREDICT)
async def server_metadata() -> ServerMetadata:
    """Describe the server."""
    return ServerMetadata(version=version_of_package("bartserve"), extensions=[BINARY])


@router.get("/models/{model_id}", responses=responses(409))
@needs(READ, PREDICT)
def model_metadata(
    model_id: str, predictor: ThePredictor, owner: Owner, response: Response
) -> InferenceModelView:
    """Describe inputs and outputs of a model; its versions are the models of its name."""
    return _described(predictor, owner, model_id, None, response)


@router.get("/models/{model_id}/versions/{version}", responses=responses(409))
@needs(READ, PREDICT)
def version_metadata(
    model_id: str, version: str, predictor: ThePredictor, owner: Owner, response: Response
) -> InferenceModelView:
    """Describe inputs and outputs of one of the models of a name, by its id."""
    return _described(predictor, owner, model_id, version, response)


@router.get("/models/{model_id}/ready", responses=responses(409))
@needs(READ, PREDICT)
def model_ready(model_id: str, predictor: ThePredictor, owner: Owner, response: Response) -> ModelReady:
    """Report that a model answers; 409 until it does."""
    return _ready(predictor, owner, model_id, None, response)


@router.get("/models/{model_id}/versions/{version}/ready", responses=responses(409))
@needs(READ, PREDICT)
def version_ready(
    model_id: str, version: str, predictor: ThePredictor, owner: Owner, response: Response
) -> ModelReady:
    """Report that one of the models of a name answers; 409 until it does."""
    return _ready(predictor, owner, model_id, version, response)


@router.post(
    "/models/{model_id}/infer",
    response_model=InferView,
    responses={**responses(409, 413, 415), **ANSWER},
    openapi_extra=BODY,
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def infer_rows(
    model_id: str, request: Request, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Predict rows whose columns are tensors, in JSON or behind it.

    An input is a column, by its name. A single input of two dimensions has all features in the order of the
    model's inputs. NaN and null are missing, and so is an empty text unless a level is spelled so. Figures
    and rules of values are those of `POST /models/{id}/predict`.
    """
    return await _inferred(request, predictor, gate, owner, model_id, None)


@router.post(
    "/models/{model_id}/versions/{version}/infer",
    response_model=InferView,
    responses={**responses(409, 413, 415), **ANSWER},
    openapi_extra=BODY,
)
@needs(PREDICT, body=MAX_JSON_BYTES)
async def infer_rows_by_version(
    model_id: str, version: str, request: Request, predictor: ThePredictor, gate: TheGate, owner: Owner
) -> Response:
    """Predict rows by one of the models of a name, as without a version."""
    return await _inferred(request, predictor, gate, owner, model_id, version)


def _described(
    predictor: Predictor, owner: str, name: str, version: str | None, response: Response
) -> InferenceModelView:
    asked = version_of(predictor.engine, owner, name, version)
    view, response.headers["Bartserve-Model-Id"] = describe(predictor, owner, name, asked)
    return view


def _ready(
    predictor: Predictor, owner: str, name: str, version: str | None, response: Response
) -> ModelReady:
    asked = version_of(predictor.engine, owner, name, version)
    response.headers["Bartserve-Model-Id"] = answering(predictor.engine, owner, asked)
    return ModelReady(name=name)


async def _inferred(
    request: Request, predictor: Predictor, gate: TheGate, owner: str, name: str, version: str | None
) -> Response:
    check_coding(request)
    content, length = await request.body(), request.headers.get(LENGTH)

    def work() -> Response:
        body, binary = _read(content, length, predictor.max_rows)
        model = version_of(predictor.engine, owner, name, version)
        answer = infer(predictor, owner, name, model, body, binary)
        head, headers = written(answer.head), {"Bartserve-Model-Id": answer.model_id}
        if not answer.binary:
            return Response(head, media_type=JSON, headers=headers)
        headers[LENGTH] = str(len(head))
        return Response(b"".join([head, *answer.binary]), media_type=OCTETS, headers=headers)

    return await gate.run(work)


def _read(content: bytes, length: str | None, max_rows: int) -> tuple[InferBody, memoryview]:
    """Return the JSON of a body, and what follows it.

    Raises
    ------
    InvalidRequestError, TooLargeError, RequestValidationError
        It isn't a request of the protocol.
    """
    is_number = length is not None and length.isascii() and length.isdigit() and len(length) <= MAX_DIGITS
    size = len(content) if length is None else int(length) if is_number else -1
    if not 0 <= size <= len(content) and not content.startswith(GZIP):  # which `parse` refuses
        raise InvalidRequestError(f"{LENGTH} is the number of the JSON's bytes, at most those of the body.")
    value = parse(content[:size], max(100_000, max_rows))
    try:
        body = InferBody.model_validate(value)
    except ValidationError as error:
        findings = error.errors(include_url=False, include_context=False)
        raise RequestValidationError([each | {"loc": ("body", *each["loc"])} for each in findings]) from None
    return body, memoryview(content)[size:]
