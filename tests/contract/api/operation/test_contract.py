"""The live service under schemathesis on both databases: responses match the OpenAPI document."""

import contextlib
import os
from collections.abc import Callable

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition, Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.settings import Settings
from app.store.engine import session_scope
from app.store.queue import workers
from app.store.tables import Worker
from app.web.errors import MEDIA_TYPE
from tests.support.api_calls import post_csv, table
from tests.support.models.fitted_models import SMALL, fitted, run_units

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("BARTSERVE_CONTRACT_EXAMPLES", "3"))
SECONDS = 120  # of one response
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
PROMISED = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer"}
QUIET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(name="settings")
def _settings_of_rare_beats(settings: Settings) -> Settings:
    """One heartbeat of a worker is enough for the whole test."""
    return settings.model_copy(update={"dispatch_seconds": 1000.0})


@pytest.fixture
def object_ids(client, settings, database) -> dict[str, str]:
    """Start a service with a fitted model, and return the ids of its objects."""
    worker = Worker(id="w", host="h", pid=1, slots=1, beat_at=0.0, phase="ready")
    with session_scope(database.engine) as session:
        workers.register(session, worker)
    model = fitted(client, settings)
    other = post_csv(client, table()).json()
    prediction = client.post(
        f"/models/{model['id']}/predictions", json={"dataset_id": model["dataset_id"]}
    ).json()
    study = client.post(f"/models/{model['id']}/studies", json={"permutations": 20}).json()
    run_units(settings)
    return {
        "model_id": model["id"],
        "dataset_id": other["id"],
        "prediction_id": prediction["id"],
        "study_id": study["id"],
    }


def check(case: Case, response, more=()) -> None:
    """Check the properties that hold for every response."""
    case.validate_response(response, checks=[*CHECKS, *more])
    for name, value in PROMISED.items():
        assert response.headers[name] == [value], name
    assert "default-src" in response.headers["content-security-policy"][0]
    if response.status_code >= 400:
        assert response.headers["content-type"] == [MEDIA_TYPE]
        body = response.json()
        assert body["status"] == response.status_code
        assert body["detail"]
        assert [body["request_id"]] == response.headers["x-request-id"]


def ask(case: Case, address: str):
    return case.call(base_url=address, timeout=SECONDS)


@pytest.mark.parametrize(
    ("mode", "dialect"),
    [
        pytest.param(GenerationMode.POSITIVE, "sqlite", id="good-sqlite"),
        pytest.param(GenerationMode.POSITIVE, "postgres", id="good-postgres", marks=pytest.mark.long),
        # What is invalid is refused before the database, but for text, of which Postgres can store less.
        pytest.param(GenerationMode.NEGATIVE, "postgres", id="bad-postgres"),
    ],
    indirect=["dialect"],
)
def test_every_operation_as_documented(client, object_ids, mode):
    """Valid and invalid requests to every operation, on present and absent objects, match the document."""
    address = str(client.base_url).rstrip("/")
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    operations = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        strategy = operation.as_strategy(generation_mode=mode)
        try:
            _every_case(strategy, operation.method, address, object_ids, mode)()
            operations += 1
        except Unsatisfiable:  # operations without input have no invalid input
            assert mode == GenerationMode.NEGATIVE, operation.label
    assert operations > (25 if mode == GenerationMode.POSITIVE else 12)


def _every_case(strategy, method: str, address: str, object_ids: dict[str, str], mode) -> Callable[[], None]:
    more = [negative_data_rejection] if mode == GenerationMode.NEGATIVE else []

    @given(case=strategy, there=st.integers(0, 3))
    @QUIET
    def run(case, there):
        if there and method != "delete":
            # Generated ids never match an object.
            case.path_parameters = {
                name: object_ids.get(name, value) for name, value in (case.path_parameters or {}).items()
            }
            more_here = []  # the invalid part may have been the id
        else:
            more_here = more
        check(case, ask(case, address), more_here)

    return run


def test_workflows_by_links(client, object_ids):
    """Objects are created, viewed, used, changed and deleted in any order along the document's links."""
    address = str(client.base_url).rstrip("/")
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json").exclude(path_regex="/events$")
    assert "links" in client.get("/openapi.json").json()["paths"]["/models"]["post"]["responses"]["202"]

    reached: set[tuple[str, str, int]] = set()

    class Workflow(schema.as_state_machine()):
        def get_call_kwargs(self, case):
            return {"base_url": address, "timeout": SECONDS}

        def before_call(self, case):
            # Generated texts that are no table, or targets that are no column, would never create an object.
            if case.method == "POST" and case.path == "/datasets" and case.media_type == "text/csv":
                case.body = table().encode()
            elif case.method == "POST" and case.path == "/models" and isinstance(case.body, dict):
                case.body |= {"target": "y"} | SMALL

        def validate_response(self, response, case, **_):
            check(case, response)
            reached.add((case.method, case.path, response.status_code))

    # What is drawn next follows from responses, and these from all requests before: where Hypothesis notices
    # that, it ends the search; everything until then was checked.
    with contextlib.suppress(FlakyStrategyDefinition):
        Workflow.run(settings=settings(QUIET, max_examples=6 * EXAMPLES, stateful_step_count=8))
    assert any("{" in path and status < 300 for _, path, status in reached), "links led nowhere"
