"""Sign-in with a key where keys are required, and sign-out."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.dashboard import render
from app.dashboard.forms.fields import SentForm
from app.services.access import sessions
from app.web.dependencies import TheEngine
from app.web.middleware.auth import PUBLIC, check_sender, cookie_of, token_of
from app.web.scopes import GuardedRoute, in_thread, keyless, needs

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=GuardedRoute)
MAX_NEXT = 2000


@router.get("/sign-in")
@keyless
async def form(request: Request, next: str = "/") -> Response:  # noqa: A002  the query parameter
    """Show the form for a key."""
    if not request.scope["bartserve.asks_keys"]:
        return render.see_other("/")
    return render.render(request.scope, "sign_in.html", to=_own(next), refused=False)


@router.post("/sign-in")
@keyless
async def sign_in(request: Request, engine: TheEngine, next: str = "/") -> Response:  # noqa: A002
    """Start a session, then redirect to the page in the query: the body has room for a key alone."""
    check_sender(request.headers, request.scope)
    if not request.scope["bartserve.asks_keys"]:
        return render.see_other("/")
    sent = await request.form(max_files=0, max_fields=2)
    to, key = _own(next), str(sent.get("key", "")).strip()
    token = await in_thread(sessions.begin, engine, key)
    if token is None:
        return render.render(request.scope, "sign_in.html", status=401, to=to, refused=True)
    answer = render.see_other(to)
    answer.set_cookie(
        cookie_of(request.scope),
        token,
        max_age=int(sessions.LASTS.total_seconds()),
        path="/",
        secure=_secure(request),
        httponly=True,
        samesite="strict",
    )
    return answer


@router.post("/sign-out")
@needs()
async def sign_out(request: Request, _form: SentForm, engine: TheEngine) -> Response:
    """End the session in the browser and in the database."""
    if token := token_of(request.headers, request.scope):
        await in_thread(sessions.end, engine, token)
    answer = render.see_other("/ui/sign-in")
    secure = _secure(request)
    answer.delete_cookie(cookie_of(request.scope), path="/", secure=secure, httponly=True, samesite="strict")
    answer.headers["Clear-Site-Data"] = '"cache"'  # charts are cached for a day
    return answer


def _secure(request: Request) -> bool:
    """Return whether browsers reach the service only by TLS."""
    public: str | None = request.scope[PUBLIC]
    return (public or str(request.url)).startswith("https:")


def _own(path: str) -> str:
    """Return a path on this service to redirect to; the start page for any other."""
    plain = path.startswith("/") and path.isprintable() and len(path) <= MAX_NEXT
    return path if plain and not path.startswith(("//", "/\\", "/ui/sign-")) else "/"
