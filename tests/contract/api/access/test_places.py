"""Every route that leaves the event loop takes a place among those that owners share."""

import ast
from pathlib import Path

from fastapi.routing import iter_route_contexts
from starlette.routing import Mount

import app
from app.application import create_app
from app.web.scopes import GuardedRoute

APP = Path(app.__file__).parent
THREADS = {
    "dashboard/studio.py": "pictures are drawn one at a time, of figures found in a place",
    "services/fits/event_stream.py": "one reader feeds all streams",
    "web/json_body.py": "bodies are parsed in a place of their own",
    "web/middleware/auth.py": "keys are looked up in places of their own",
    "web/uploads.py": "uploads have a room of their own",
    "web/scopes.py": "it takes the place",
}


def test_every_route_takes_a_place(settings):
    routes = [each.original_route for each in iter_route_contexts(create_app(settings).routes)]
    guarded = [route for route in routes if not isinstance(route, Mount)]
    assert len(guarded) > 80
    for route in guarded:
        assert isinstance(route, GuardedRoute), route
        assert route.takes_place, f"{route.path}: a thread of the process without a place of its owner"


def test_threads_are_taken_in_places_alone():
    """Nothing else in the web's code starts work in threads, past the places."""
    found = set()
    for path in APP.rglob("*.py"):
        names = {
            node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
        }
        called = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        if "run_sync" in names or "run_in_threadpool" in called:
            found.add(path.relative_to(APP).as_posix())
    assert found - {"web/dependencies.py"} == {*THREADS}
