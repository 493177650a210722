"""Parts that routes of explanations share."""

from typing import Any, Literal

from fastapi import Response
from pydantic_core import to_json

ModelPart = Literal["mean", "noise"]
OF = "The mean of outcomes, or the noise where it differs by row (noise forest): what makes them uncertain."


def json_response(value: Any) -> Response:
    """Render plain values as JSON; call this where the work is done."""
    return Response(to_json(value), media_type="application/json")
