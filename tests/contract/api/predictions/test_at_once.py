"""Concurrent requests: each gets an answer of some sequential order."""

import sys
import threading
from collections import Counter
from pathlib import Path

import app
from app.services.predictions.options import PredictionOptions
from app.services.predictions.predict_rows import Predictor
from app.services.predictions.rows import SentRows
from sampler import Posterior
from tests.support.api_calls import post_csv, table
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.processes import plain_http

APP = str(Path(app.__file__).parent)


def together(*work) -> list:
    """Return the results of calls that start at the same moment."""
    barrier = threading.Barrier(len(work))
    results: list = [None] * len(work)

    def run(i: int) -> None:
        barrier.wait()
        results[i] = work[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_a_dataset_is_deleted_while_a_model_is_accepted_on_it(client):
    """Either the model exists and its dataset stays, or the dataset is gone: never a 500."""
    outcomes = Counter()
    for _ in range(12):
        dataset_id = post_csv(client, table()).json()["id"]
        body = {"dataset_id": dataset_id, "target": "y", **SMALL}
        with plain_http.Client(base_url=client.base_url, timeout=30) as other:
            accepted, deleted = together(
                lambda body=body: client.post("/models", json=body),
                lambda other=other, path=f"/datasets/{dataset_id}": other.delete(path),
            )
        outcomes[accepted.status_code, deleted.status_code] += 1
        assert (accepted.status_code == 202) == (client.get(f"/datasets/{dataset_id}").status_code == 200)

    assert set(outcomes) <= {(202, 409), (404, 204)}, outcomes


def test_cancelling_and_deleting_at_once(client):
    """Concurrent cancel and delete each find the model or get a 404; nothing of it remains."""
    dataset_id = post_csv(client, table()).json()["id"]
    for _ in range(8):
        path = client.post("/models", json={"dataset_id": dataset_id, "target": "y", **SMALL}).headers[
            "location"
        ]
        answers = together(
            lambda path=path: client.post(f"{path}/cancel").status_code,
            lambda path=path: client.delete(path).status_code,
            lambda path=path: client.delete(path).status_code,
        )
        assert answers[0] in {200, 404}
        assert sorted(answers[1:]) in ([204, 204], [204, 404])
    assert client.get("/models").json()["items"] == []
    assert client.delete(f"/datasets/{dataset_id}").status_code == 204


def test_many_who_ask_a_cold_model_share_one_load(client, settings, database, monkeypatch):
    """Concurrent predictions read and decode a posterior once and have equal answers."""
    model = fitted(client, settings)
    loads = []
    decode = Posterior.from_blocks
    monkeypatch.setattr(Posterior, "from_blocks", lambda *args: loads.append(1) or decode(*args))
    predictor = Predictor(database.engine, cache_bytes=10**9, max_rows=100)
    asked = (PredictionOptions(), SentRows([{"size": 3, "colour": "red"}]))

    answers = together(*[lambda: predictor.predict("local", model["id"], *asked).to_json()] * 8)

    assert len(loads) == 1
    assert all(answer == answers[0] for answer in answers)
    assert (predictor.cache.hits + predictor.cache.misses, predictor.cache.nbytes > 0) == (8, True)


def test_a_prediction_goes_one_way(client, settings, database):
    """A prediction makes at most 12 calls between our files, and never returns to an earlier one."""
    model = fitted(client, settings)
    predictor = Predictor(database.engine, cache_bytes=10**9, max_rows=100)
    asked = (PredictionOptions(), SentRows([{"size": 3, "colour": "red"}]))
    predictor.predict("local", model["id"], *asked)
    hops: list[tuple[str, str]] = []

    def note(frame, event, _argument):
        before, here = (f.f_code.co_filename if f else "" for f in (frame.f_back, frame))
        if event == "call" and before != here and all(name.startswith(APP) for name in (before, here)):
            hops.append((Path(before).name, Path(here).name))

    sys.setprofile(note)
    try:
        predictor.predict("local", model["id"], *asked)
    finally:
        sys.setprofile(None)

    assert 0 < len(hops) <= 12, hops
    entered = [here for _, here in hops]
    assert "predict_rows.py" not in entered, hops
