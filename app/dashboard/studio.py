"""Drawing of charts for pages: what is asked for, one at a time, off the event loop, and cached.

Data are computed behind the gate to the cores; drawing takes turns in a thread of its own.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from anyio import CapacityLimiter, Lock, to_thread
from fastapi import Depends, Query, Request
from starlette.responses import Response

from app.dashboard.effects import Effects
from app.services.errors import AbandonedError
from app.services.explanations import diagnostics
from app.services.fits import models
from app.services.predictions.posterior_cache import Cache
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.row_form import row_form
from app.web.dependencies import OutcomePredictor, Owner, Reading, TheGate
from app.web.middleware.concurrency import GateOf
from sampler.host.charts import ChartStyle, to_svg
from sampler.host.charts import prepare_style as prepare

KEPT_BYTES = 16 * 1024 * 1024
# A chart has inline styles; it can't run scripts or load anything.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Cache-Control": "private, max-age=86400, immutable",
}


class Picture(NamedTuple):
    """A chart with the results that it shows; `half` as wide as the page where it is beside another."""

    chart: Callable[..., Any]
    results: Sequence[Any]
    half: bool = False


@dataclass(frozen=True)
class Drawn:
    """A drawn chart."""

    svg: bytes

    @property
    def nbytes(self) -> int:
        """Size of the document."""
        return len(self.svg)


class Studio:
    """Draws charts one at a time, off the event loop, and caches the newest."""

    def __init__(self) -> None:
        self._prepared = threading.Event()
        self._kept: Cache[Drawn] = Cache(KEPT_BYTES)
        self._one, self._thread = Lock(), CapacityLimiter(1)

    def prepare(self) -> None:
        """Import the drawing library in the background, which takes seconds, before the first chart."""
        if not self._prepared.is_set():
            self._prepared.set()
            threading.Thread(target=prepare, name="draw first", daemon=True).start()

    async def answer(
        self, key: str, gate: GateOf, find: Callable[[], Picture], paint: Callable[[Picture], bytes]
    ) -> Response:
        """Return the chart with this key: `find` its data, then `paint` them, unless it is cached.

        Without a key the chart is not cached, here or in the browser.

        Raises
        ------
        AbandonedError
            The page was left before the chart's turn.
        """
        drawn = self._kept.peek(key) if key else None
        if drawn is None:
            picture = await gate.run(find)

            def draw() -> Drawn:
                chart = Drawn(paint(picture))
                return self._kept.get(key, lambda: chart) if key else chart

            async with self._one:
                if await gate.request.is_disconnected():  # of a page that was left
                    raise AbandonedError
                drawn = await to_thread.run_sync(draw, limiter=self._thread)
        headers = HEADERS if key else HEADERS | {"Cache-Control": "no-store"}
        return Response(drawn.svg, media_type="image/svg+xml", headers=headers)


async def prepare_to_draw(request: Request) -> None:
    """Get ready to draw, since pages of models have charts."""
    request.app.state.studio.prepare()


async def _effects(request: Request) -> Effects:
    known: Effects = request.app.state.effects
    return known


TheEffects = Annotated[Effects, Depends(_effects)]


@dataclass(frozen=True)
class Asked:
    """A request for a chart of a model: whose, of which version of its data, and in which style."""

    request: Request
    predictor: Predictor
    gate: GateOf
    known: Effects
    owner: str
    model_id: str
    version: str
    theme: Literal["light", "dark"]
    narrow: bool

    @property
    def model(self) -> tuple[Predictor, str, str]:
        """Arguments by which services find the model."""
        return self.predictor, self.owner, self.model_id

    @property
    def target(self) -> str:
        """Name of the target with its unit."""
        return diagnostics.target_of(*self.model)

    def row(self) -> dict[str, Any]:
        """Read the row in the query."""
        form = row_form(*self.model)
        return form.row_of(form.columns, row_values(self.request, len(form.columns)))

    async def answer(self, find: Callable[["Asked"], Picture]) -> Response:
        """Return the chart with its data, cached if the address has their version."""
        url, studio = self.request.url, self.request.app.state.studio
        key = f"{self.owner}\n{url.path}?{url.query}" if self.version else ""
        response: Response = await studio.answer(key, self.gate, lambda: find(self), self._paint)
        return response

    def _paint(self, picture: Picture) -> bytes:
        # The width makes the text of the chart small on the page.
        width = 4.3 if self.narrow else 5.9 if picture.half else 11.2
        style = ChartStyle(self.theme, width, narrow=self.narrow)
        return to_svg(style, picture.chart, *picture.results)


def _asked(
    request: Request,
    session: Reading,
    predictor: OutcomePredictor,
    gate: TheGate,
    known: TheEffects,
    owner: Owner,
    model_id: str,
    v: Annotated[str, Query(max_length=100)] = "",
    theme: Literal["light", "dark"] = "light",
    shape: Literal["wide", "narrow"] = "wide",
) -> Asked:
    models.get(session, owner, model_id)  # 404 for a deleted model, whose charts may still be cached
    return Asked(request, predictor, gate, known, owner, model_id, v, theme, shape == "narrow")


TheAsked = Annotated[Asked, Depends(_asked)]


def row_values(request: Request, count: int) -> list[str | None]:
    """Return the values of a row in the query, in the order of the model's features."""
    return [request.query_params.get(f"f{i}") for i in range(count)]
