"""Small models fitted for real, by running the worker's functions in this process."""

from app.settings import Settings
from tests.support.api_calls import post_csv, table
from worker.context import Context
from worker.units import run_one

SMALL = {
    "num_trees": 10,
    "num_chains": 2,
    "num_draws": 40,
    "num_burnin": 60,
    "thin": 1,
    "linear": False,  # these rows ask for a line
}


CONTEXTS: dict[Settings, Context] = {}  # by which units were last worked on, the latest last


def run_units(settings: Settings) -> int:
    """Work on every claimable unit and return their number.

    The last few contexts are kept, since a new engine compiles each of its statements again.
    """
    context = CONTEXTS.pop(settings, None) or Context(settings, "tests")
    CONTEXTS[settings] = context
    while len(CONTEXTS) > 4:
        CONTEXTS.pop(next(iter(CONTEXTS))).close()
    return sum(1 for _ in iter(lambda: run_one(context), False))


def finished(client, settings: Settings, accepted) -> dict:
    """Work on what was accepted until it has succeeded, and return it as GET shows it."""
    assert accepted.status_code == 202, accepted.text
    run_units(settings)
    done = client.get(accepted.headers["location"]).json()
    assert done["state"] == "succeeded", done["error"]
    return done


def extended(client, settings: Settings, path: str, num_draws: int = 10) -> dict:
    """Go on with the chains of a model until it has succeeded again, and return it."""
    return finished(client, settings, client.post(f"{path}/extend", json={"num_draws": num_draws}))


def fitted(client, settings: Settings, *, text: str | None = None, **more) -> dict:
    """Fit a model of y by size and colour, and return it as GET shows it."""
    dataset = post_csv(client, text or table(60)).json()
    body = {"dataset_id": dataset["id"], "target": "y"} | SMALL | more
    response = client.post("/models", json=body)
    return finished(client, settings, response)
