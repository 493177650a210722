"""Client calls for webhooks: addresses that are told of events."""

from collections.abc import Iterator, Sequence

from app.client.base import Calls, address
from app.client.transport import Call
from app.client.views import Json, without_none


class Webhooks(Calls):
    """Calls that add, list and remove webhooks, and show what they were told."""

    def add_webhook(self, url: str, *, events: Sequence[str] | None = None, model: str | None = None) -> Json:
        """Let a URL be told of events, and return the webhook with its ``secret``, which is shown once.

        Parameters
        ----------
        url
            Where events are posted, https://.
        events
            Kinds of events, such as "fit.ended" and "outcomes.alarm"; default: all.
        model
            Only events of this model, by its id, or of all models of a name.
        """
        body = without_none({"url": url, "events": None if events is None else [*events], "model": model})
        return self._json(Call("POST", "/webhooks", json=body))

    def webhooks(self) -> Iterator[Json]:
        """Return an iterator over your webhooks, newest first."""
        return self._pages("/webhooks")

    def remove_webhook(self, webhook_id: str) -> None:
        """Delete a webhook with its deliveries."""
        self._transport.send(Call("DELETE", address("webhooks", webhook_id), repeatable=True))

    def rotate_webhook(self, webhook_id: str) -> Json:
        """Give a webhook a new ``secret`` and return it; the former one signs too for another day."""
        return self._json(Call("POST", address("webhooks", webhook_id, "rotate")))

    def test_webhook(self, webhook_id: str) -> Json:
        """Send the event "test" and return its delivery."""
        return self._json(Call("POST", address("webhooks", webhook_id, "test")))

    def deliveries(self, webhook_id: str) -> Iterator[Json]:
        """Return an iterator over what a webhook was told, newest first; "failed" are dead letters."""
        return self._pages(address("webhooks", webhook_id, "deliveries"))

    def retry_delivery(self, webhook_id: str, delivery_id: str) -> Json:
        """Send a dead letter again and return its delivery."""
        path = address("webhooks", webhook_id, "deliveries", delivery_id, "retry")
        return self._json(Call("POST", path, repeatable=True))
