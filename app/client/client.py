"""The client of a running service."""

import os
from types import TracebackType
from typing import Self

import httpx

from app.client.datasets import Datasets
from app.client.forecasts import Forecasts
from app.client.model_sets import ModelSets
from app.client.models import Models
from app.client.outcomes import Outcomes
from app.client.predictions import Predictions
from app.client.studies import Studies
from app.client.transport import TIMEOUT, Transport
from app.client.webhooks import Webhooks

DEFAULT_URL = "http://127.0.0.1:8000"


class Client(Forecasts, Datasets, Models, ModelSets, Predictions, Outcomes, Studies, Webhooks):
    """Client of a service; usable in a `with` block and from several threads.

    Parameters
    ----------
    url
        URL of the service; default: BARTSERVE_URL, else http://127.0.0.1:8000.
    key
        An API key; default: BARTSERVE_KEY, else none (a service on loopback requires none).
    retries
        Maximum of retries of a call: after a 429 or 503, after the pause that the service asks for; after a
        lost connection only if the call is safe to repeat or has an Idempotency-Key, which every call that
        creates a model has.
    patience_seconds
        No retry begins later than this after the first attempt.
    http
        Your own `httpx.Client` (for a proxy, certificates, a unix socket); it is not closed here.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        retries: int = 5,
        patience_seconds: float = 60.0,
        http: httpx.Client | None = None,
    ) -> None:
        self.url = (url or os.environ.get("BARTSERVE_URL") or DEFAULT_URL).rstrip("/")
        key = key or os.environ.get("BARTSERVE_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._own = http is None
        self._http = http or httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT)
        self._transport = Transport(self._http, retries=retries, patience_seconds=patience_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._own:
            self._http.close()

    def ready(self) -> bool:
        """Return whether the service accepts work now."""
        try:
            return self._http.get("/health/ready", timeout=5.0).is_success
        except httpx.TransportError:
            return False
