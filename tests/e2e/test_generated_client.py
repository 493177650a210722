"""A client that openapi-python-client generates from the live document works."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import httpx
import pytest

from tests.support.waiting import eventually

CARS = Path(__file__).parents[2] / "examples" / "auto_mpg.csv"
SHORT = {"num_trees": 20, "num_chains": 2, "num_burnin": 50, "num_draws": 50, "thin": 1}


@pytest.fixture(scope="module")
def document(service) -> dict:
    return httpx.get(f"{service.address}/openapi.json", timeout=30).json()


@pytest.fixture(scope="module")
def generated(document, tmp_path_factory) -> ModuleType:
    """Return the package that the generator writes."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(document))
    (folder / "config.json").write_text('{"post_hooks": []}')  # otherwise it looks for a formatter
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--path", "openapi.json", "--config", "config.json", "--output-path", "bart_client"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("bart_client")
        for name in [name for name in sys.modules if name.partition(".")[0] == "bart_client"]:
            del sys.modules[name]


def of(generated: ModuleType, name: str) -> ModuleType:
    """Return a module of the package, for example api.models.create_model."""
    return importlib.import_module(f"{generated.__name__}.{name}")


@pytest.mark.slow
def test_every_operation_has_a_function(generated, document):
    """Every operation has a function, and every module imports."""
    for methods in document["paths"].values():
        for operation in methods.values():
            called = f"api.{operation['tags'][0]}.{operation['operationId']}"
            assert callable(of(generated, called).sync_detailed), called


@pytest.mark.slow
def test_it_uploads_trains_and_predicts(generated, document, service):
    """The document's examples, sent by the client's functions, have the documented effect."""
    calls = [operation for methods in document["paths"].values() for operation in methods.values()]
    bodies = {call["operationId"]: call.get("requestBody", {}).get("content", {}) for call in calls}
    examples = {
        name: content["application/json"]["example"]
        for name, content in bodies.items()
        if "application/json" in content
    }
    models, types = of(generated, "models"), of(generated, "types")
    with generated.Client(base_url=service.address, timeout=300) as client:

        def call(function, /, *body, **named):
            answer = of(generated, f"api.{function}").sync(*body, client=client, **named)
            assert not isinstance(answer, models.Problem), answer
            return answer

        with CARS.open("rb") as file:
            dataset = call(
                "datasets.upload_dataset",
                body=types.File(payload=file, file_name=CARS.name),
                quoting=models.UploadDatasetQuotingType0.DOUBLE,
                name="generated-cars",
            )
        assert (dataset.name, dataset.num_rows, dataset.read_as.quoting) == ("generated-cars", 397, "double")

        request = examples["create_model"] | SHORT | {"dataset_id": dataset.id, "name": "generated-cars"}
        fit = call("models.create_model", body=models.ModelRequest.from_dict(request))
        eventually(lambda: call("models.get_model", fit.id).finished_at is not None, 300)
        trained = call("models.get_model", "generated-cars")
        assert (trained.id, trained.state, trained.error) == (fit.id, "succeeded", None)

        rows = models.PredictBody.from_dict(examples["predict"])
        answer = call("predictions.predict", "generated-cars", body=rows)
        assert answer.model_id == fit.id
        assert [interval.level for interval in answer.intervals] == [0.5, 0.9]
        inner, outer = answer.intervals
        assert outer.lower[0] < inner.lower[0] < answer.mean[0] < inner.upper[0] < outer.upper[0]

        request = models.DependenceBody.from_dict(examples["compute_partial_dependence"])
        assert call("explanations.compute_partial_dependence", fit.id, body=request).features == ["weight"]
