"""Admission of requests to the tools of assistants over HTTP."""

import asyncio

import httpx
from starlette.responses import PlainTextResponse

from app.assistants import admission


def test_a_request_is_admitted_by_its_key_its_share_and_its_body(monkeypatch):
    """Unknown keys and calls beyond a key's share get no further than their headers; bodies are bounded."""
    monkeypatch.setattr(admission, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(admission, "BODY_BYTES", 8)
    reached = []

    async def tools(scope, receive, send):
        reached.append((await receive())["body"])
        await PlainTextResponse("fine")(scope, receive, send)

    async def service(request):
        await asyncio.sleep(0)  # other requests come between
        known = {"ann": 200, "predicts": 403, "hurried": 429}
        return httpx.Response(known.get(request.headers["authorization"].removeprefix("Bearer "), 401))

    app = admission.Admission(tools, "http://service")

    async def status(key, *parts, method="POST"):
        sent, waiting = [], list(parts)

        async def receive():
            assert key in {"ann", "predicts"}, "the body of a stranger was read"
            if not waiting:
                await asyncio.sleep(60)
            more = len(waiting) > 1 or parts == (b"",)
            return {"type": "http.request", "body": waiting.pop(0), "more_body": more}

        async def send(message):
            sent.append(message)

        headers = [(b"authorization", f"Bearer {key}".encode("latin-1"))]
        await app({"type": "http", "method": method, "headers": headers}, receive, send)
        return sent[0]["status"]

    async def ask():
        asking = httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(service))
        async with asking as app._asking:
            assert await status("ann", b"whole") == 200
            assert await status("predicts", b"in ", b"parts") == 200
            assert reached == [b"whole", b"in parts"]
            for key, refused in (("none", 401), ("\u00fc", 401), ("hurried", 429)):
                assert await status(key) == refused
            assert await status("ann", b"x", method="GET") == 405
            assert await status("ann", b"too long a body") == 413
            stalled = [asyncio.create_task(status("ann", b"")) for _ in range(admission.MOST_AT_ONCE + 3)]
            await asyncio.sleep(0.02)
            assert await status("ann", b"more") == 429
            assert await status("predicts", b"fine") == 200
            assert sorted(await asyncio.gather(*stalled)) == [408] * admission.MOST_AT_ONCE + [429] * 3
            assert await status("ann", b"again") == 200
            assert not app._open

    asyncio.run(ask())
