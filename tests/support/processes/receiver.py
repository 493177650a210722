"""A receiver of webhooks in a thread: it keeps what arrives, and answers as it is told."""

import base64
import contextlib
import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """A receiver: the requests it has heard, and its answer."""

    url: str = ""
    status: int = 204
    seconds: float = 0.0  # before it answers
    interim: int = 0  # responses before the one
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """Tell whether one of the signatures is by the secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mark = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return f"v1,{mark}" in headers["webhook-signature"].split(" ")


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on loopback."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.heard.append(({name.lower(): value for name, value in self.headers.items()}, body))
            time.sleep(receiver.seconds)
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" * receiver.interim)
            self.send_response(receiver.status)
            self.send_header("Location", f"{receiver.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815  what a redirect would lead to

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/bart"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
