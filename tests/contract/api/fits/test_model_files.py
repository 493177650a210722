"""Transfer of models between service and notebook with equal bits."""

import json
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services import model_files
from app.services.access.keys import LOCAL
from app.services.predictions.posteriors import Posteriors
from app.services.readers.options import ReaderLimits
from sampler import Posterior, load, pack
from sampler.storage.model_file import MEDIA_TYPE, read_parts, write_model
from tests.support.api_calls import places, post_csv, problem, table
from tests.support.databases import only
from tests.support.fuzzing import model_files as fuzz_models
from tests.support.fuzzing.json_values import FUZZ, VALUES
from tests.support.fuzzing.model_files import sealed_block, taken_apart
from tests.support.models import kinds
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.models.questions import DEAR, answers
from tests.support.models.random_forests import random_draws
from tests.support.models.random_posteriors import make_posterior, make_problem

ROWS = {"size": [3, 17.5, None], "colour": ["red", "blue", "green"]}
NEW = {"x1": [0.1, -2.0], "x2": [None, 1.5], "x3": [0.0, 9.0], "c": ["a", "e"]}
FILE = {"Content-Type": MEDIA_TYPE}


def get_file(client, model: dict | str) -> httpx.Response:
    return client.get(f"/models/{model if isinstance(model, str) else model['id']}/file")


def post_file(client, data: bytes, name: str | None = None, **headers: str) -> httpx.Response:
    return client.post(
        "/models", content=data, headers=FILE | headers, params={} if name is None else {"name": name}
    )


def predict(client, model: str, columns: dict, **more) -> dict:
    response = client.post(f"/models/{model}/predict", json={"columns": columns, "level": [0.5, 0.9]} | more)
    assert response.status_code == 200, response.text
    return response.json()


def figures(answer: dict) -> list:
    return [answer["mean"], answer["sd"], answer["intervals"]]


def without_choice(model):
    """Return the diagnostics but for what settings left to the data, which a file doesn't tell."""
    return {name: value for name, value in model["diagnostics"].items() if name != "chosen"}


@pytest.mark.slow
def test_a_fitted_model_leaves_as_a_file(client, settings, tmp_path):
    """A downloaded file predicts equal bits in another process and saves to equal bytes."""
    model = fitted(client, settings, name="mine")
    response = get_file(client, model)
    assert response.status_code == 200
    assert response.headers["content-type"] == MEDIA_TYPE
    assert model["id"] in response.headers["content-disposition"]
    file = tmp_path / "model"
    file.write_bytes(response.content)

    code = (
        "import json, sys; from sampler import load; posterior = load(sys.argv[1]); "
        f"found = posterior.predict({ROWS!r}, level=[0.5, 0.9]); posterior.save(sys.argv[1] + '.again'); "
        "print(json.dumps([found.mean.tolist(), found.sd.tolist(), posterior.summary().verdict]))"
    )
    process = subprocess.run([sys.executable, "-c", code, file], capture_output=True, check=True, text=True)

    answer = predict(client, model["id"], ROWS)
    assert json.loads(process.stdout) == [answer["mean"], answer["sd"], model["verdict"]]
    assert (tmp_path / "model.again").read_bytes() == response.content
    assert get_file(client, "mine").content == response.content
    assert load(file).summary().to_json() == without_choice(model)


@pytest.mark.parametrize("num_draws", [(12, 12), (12, 0, 15)])
def test_notebook_to_service_to_notebook(client, num_draws, tmp_path):
    """An uploaded file becomes a finished model with the notebook's answers, and downloads as equal bytes."""
    posterior, _, _ = make_posterior(num_draws=num_draws)
    posterior.save(tmp_path / "mine")
    sent = (tmp_path / "mine").read_bytes()

    response = post_file(client, sent, "from a notebook")

    assert response.status_code == 201, response.text
    model = response.json()
    assert response.headers["location"] == f"/models/{model['id']}"
    assert client.get(response.headers["location"]).json() == model
    assert (model["state"], model["dataset_id"], model["target"]) == ("succeeded", None, "y")
    assert (model["name"], model["draws"], model["progress"]["fraction"]) == ("from a notebook", 12, 1.0)
    assert model["verdict"] == posterior.summary().verdict
    assert model["diagnostics"] == posterior.summary().to_json()
    assert model["settings"]["columns"] == {"x1": "number", "x2": "number", "x3": "number", "c": "category"}
    assert model["created_at"] == model["started_at"] == model["finished_at"]
    assert client.get("/models").json()["items"] == [model]

    assert get_file(client, model).content == sent
    expected = posterior.predict(NEW, level=[0.5, 0.9])
    for answer in (predict(client, model["id"], NEW), predict(client, "from a notebook", NEW)):
        assert answer["mean"] == expected.mean.tolist()
        assert answer["sd"] == expected.sd.tolist()
        assert [i["upper"] for i in answer["intervals"]] == [i.upper.tolist() for i in expected.intervals]
    for verb, body in (("extend", {"num_draws": 5}), ("retry", None), ("cancel", None)):
        problem(client.post(f"/models/{model['id']}/{verb}", json=body), 409)
    assert client.delete(f"/models/{model['id']}").status_code == 204
    problem(get_file(client, model), 404, "not-found")


def test_a_file_may_come_back(client, settings):
    """A model moved between services has a new id, equal figures, and needs no dataset."""
    model = fitted(client, settings)
    copy = post_file(client, get_file(client, model).content).json()
    client.delete(f"/models/{model['id']}")
    assert client.delete(f"/datasets/{model['dataset_id']}").status_code == 204

    assert copy["id"] != model["id"]
    assert (copy["verdict"], copy["diagnostics"]) == (model["verdict"], without_choice(model))
    for name in ("num_trees", "num_draws", "moves", "features", "columns"):
        assert copy["settings"][name] == model["settings"][name]
    assert len(predict(client, copy["id"], ROWS)["mean"]) == 3


def test_sending_a_file_twice_under_one_key_makes_one_model(client):
    """An `Idempotency-Key` also applies to model files."""
    data = make_posterior()[0].to_bytes()
    key = {"Idempotency-Key": "once"}
    first, again = post_file(client, data, **key), post_file(client, data, **key)

    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert len(client.get("/models").json()["items"]) == 1
    problem(post_file(client, make_posterior(seed=1)[0].to_bytes(), **key), 422, "idempotency-key-reused")


def with_version(data: bytes, version: int) -> bytes:
    return data[:8] + struct.pack("<H", version) + data[10:]


@only("sqlite")
def test_damaged_or_foreign_files_are_refused(client, settings):
    """A damaged, truncated, foreign, newer or empty file is a 422 with the reason, and nothing is stored."""
    good = make_posterior()[0].to_bytes()
    header, _, statistics = read_parts(good)[:3]
    for data, word in {
        b"": "not a model file",
        b"PK\x03\x04 a zip file": "not a model file",
        good[:-1]: "damaged",
        good[:40]: "damaged",
        good[:50] + bytes([good[50] ^ 1]) + good[51:]: "damaged",
        with_version(good, 99): "format 99",
        write_model(header, [[], []], statistics): "no draws",
        write_model(header, [], []): "no draws",
        write_model(header, [[b"x"]], []): "not a block",
        write_model(b"", [], []): "not a model header",
    }.items():
        body = problem(post_file(client, data), 422, "unusable-model")
        assert word in body["detail"], body["detail"]
    assert client.get("/models").json()["items"] == []
    for name in ("", "a/b", "mdl_x", "x" * 201, "a\nb"):
        assert places(problem(post_file(client, good, name), 422)) == [("name", None)]
    assert "model file" in problem(client.post("/models", content=good), 415)["detail"]
    problem(post_file(client, b"x" * (settings.max_body_bytes + 1)), 413, "too-large")


@only("sqlite")
def test_a_model_that_has_no_file_yet(client):
    """The file of an unfinished model is a 409, of an unknown one a 404."""
    dataset_id = post_csv(client, table()).json()["id"]
    model = client.post("/models", json={"dataset_id": dataset_id, "target": "y", **SMALL}).json()
    problem(get_file(client, model), 409, "model-not-finished")
    problem(get_file(client, "mdl_0"), 404, "not-found")
    problem(get_file(client, "nobody"), 404, "not-found")


def forged(data: bytes, change) -> bytes:
    """Return the file with changed header fields and valid checksums."""
    header, blocks, statistics = read_parts(data)[:3]
    (length,) = struct.unpack_from("<I", header, 14)
    fields = json.loads(header[18 : 18 + length])
    statistics = change(fields, statistics) or statistics
    text = json.dumps(fields).encode()
    body = struct.pack("<I", len(text)) + text + header[18 + length :]
    header = header[:10] + struct.pack("<I", zlib.crc32(body)) + body
    return write_model(header, blocks, statistics)


LIES = {
    "a NaN setting": lambda f, _: f["settings"].update(seed=float("nan")),
    "no settings": lambda f, _: f.update(settings={}),
    "another number of trees": lambda f, _: f["settings"].update(num_trees=8),
    "a setting of tomorrow": lambda f, _: f["settings"].update(colour="red"),
    "an infinite constant": lambda f, _: f["constants"].update(leaf_sd=float("inf")),
    "a huge offset": lambda f, _: f["constants"].update(offset=1e300),
    "a step backwards": lambda f, _: f["constants"].update(step=-1.0),
    "no reference": lambda f, _: f.update(num_reference=0),
    "a NUL in the target": lambda f, _: f["schema"]["target"].update(name="a\0b"),
    "half a pair in a name": lambda f, _: f["schema"]["columns"][0].update(name="\ud800"),
    "one name twice": lambda f, _: f["schema"]["columns"][0].update(name="x2"),
    "text as a minimum": lambda f, _: f["schema"]["columns"][0].update(min="low"),
    "levels twice": lambda f, _: f["schema"]["columns"][3].update(levels=["a", "a", "b", "c"]),
    "a warning that is none": lambda f, _: f.update(warnings=[1]),
    "warnings without end": lambda f, _: f.update(warnings=["x" * 1_100_000]),
    "probit of numbers": lambda f, _: f["settings"].update(family="probit"),
    "statistics of one chain": lambda _, s: s[:1],
    "counts that are text": lambda _, s: [{"moves": {"grow": {"proposed": "1", "accepted": 1}}}] * 2,
    "moves that are a list": lambda _, s: [{"moves": [1]}] * 2,
    "a move without counts": lambda _, s: [{"moves": {"grow": 5}}] * 2,
    "statistics too deep to be stored": lambda _, s: [{"divide": json.loads("[" * 300 + "]" * 300)}] * 2,
    "a NaN statistic": lambda _, s: [{"speed": float("nan")}] * 2,
}


@pytest.mark.parametrize("lie", LIES)
@only("sqlite")
def test_forged_files_with_valid_checksums_are_refused(client, lie):
    """Files with valid checksums are refused if they could not be stored, shown or used for predictions."""
    problem(post_file(client, forged(make_posterior()[0].to_bytes(), LIES[lie])), 422, "unusable-model")
    assert client.get("/models").json()["items"] == []


def test_no_file_makes_a_server_error(client):
    """Any bytes, and files with any header field changed, give a working model or a refusal."""
    good = make_posterior()[0].to_bytes()
    fields = st.sampled_from(
        [
            *(("settings", key) for key in ("num_trees", "num_burnin", "family", "moves", "seed")),
            *(("constants", key) for key in ("offset", "step", "leaf_sd", "new")),
            *(("schema", "target", key) for key in ("name", "levels", "min", "kind", "new")),
            *(
                ("schema", "columns", at, key)
                for at in (0, 3)
                for key in ("name", "levels", "kind", "missing")
            ),
            *(("schema", key) for key in ("left_out", "ignored", "columns")),
            *((key,) for key in ("warnings", "weighted", "num_cuts", "num_reference", "settings")),
        ]
    )

    @given(path=fields, value=VALUES, raw=st.binary(max_size=80))
    @FUZZ
    def fuzz(path, value, raw):
        def change(header, _statistics):
            for step in path[:-1]:
                header = header[step]
            header[path[-1]] = value

        for data in (forged(good, change), raw, good[:14] + raw, good[: -len(raw) or None] + raw):
            response = post_file(client, data)
            if response.status_code == 201:
                location = response.headers["location"]
                assert client.get(location).status_code == 200
                assert client.get("/models").status_code == 200
                assert client.get(f"{location}/file").content == data
                columns = response.json()["settings"]["features"]
                answer = client.post(
                    f"{location}/predict", json={"rows": [dict.fromkeys(columns)], "rhat": True}
                )
                assert answer.status_code in (200, 422), answer.text
                client.delete(location)
            else:
                problem(response, 422)

    fuzz()


def resident() -> int:
    """Return the resident memory of this process, which serves."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@only("sqlite")
def test_small_files_that_grow_large_are_refused(client):
    """Endless reference rows or empty lists, or a short block of soft trees, are each refused."""
    good = make_posterior()[0].to_bytes()
    rows, lists, short = (taken_apart(good) for _ in range(3))
    rows.text["num_reference"] = 40_000
    rows.arrays += bytes(40_000 * 7 - 80 * 7)
    lists.chains = [[]] * 400_000
    short.chains[0][0] = sealed_block(short.chains[0][0][:5] + b"\2" + short.chains[0][0][6:40])
    assert post_file(client, good).status_code == 201  # the readers have started
    before = resident()
    for file, word in ((rows, "40000 reference rows"), (lists, "400000 chains"), (short, "cut short")):
        assert word in problem(post_file(client, file.to_bytes()), 422, "unusable-model")["detail"]
    assert resident() - before < 50 << 20


@only("sqlite")
def test_a_file_that_takes_too_much_is_refused(client, monkeypatch):
    """The kernel limits a model reader's memory and time, whatever it decodes."""
    draws = random_draws(0, 2000, 7, 7, "prior")
    data = write_model(make_problem()[0].header(), [[pack(draws)]], [])
    assert post_file(client, data).status_code == 201
    for memory in (0, 1 << 14, 1 << 18, 1 << 20):  # it ends in the middle of different steps
        monkeypatch.setattr(model_files, "LIMITS", ReaderLimits(memory=memory, seconds=60))
        assert "too much memory" in problem(post_file(client, data), 422, "unusable-model")["detail"]


@only("sqlite")
def test_no_file_is_decoded_where_others_are_served(client, monkeypatch):
    """A model file is decoded only in a process of its own."""
    data = make_posterior()[0].to_bytes()
    for name in (
        "sampler.storage.model_header.Header.from_bytes",
        "sampler.storage.draw_codec.unpack",
        "sampler.storage.model_file.read_parts",
    ):
        monkeypatch.setattr(name, lambda *_: pytest.fail("it was decoded here"))
    assert post_file(client, data).status_code == 201


@only("sqlite")
def test_carefully_forged_files_never_give_a_server_error(client):
    """Files changed under valid checksums are refused, or give a model that answers every request."""
    dice, files, accepted = random.Random(16), fuzz_models.seeds(), 0
    for _ in range(40):
        response = post_file(client, fuzz_models.mutated(files, dice))
        if response.status_code != 201:
            problem(response, 422)
            continue
        accepted += 1
        location, names = response.headers["location"], response.json()["settings"]["features"]
        for answer in (
            client.get(location),
            client.get(f"{location}/file"),
            client.get(f"{location}/diagnostics"),
            client.get(f"{location}/variable-importance"),
            client.post(f"{location}/predict", json={"rows": [dict.fromkeys(names)], "rhat": True}),
            client.post(f"{location}/partial-dependence", json={"features": names[:1]}),
        ):
            assert answer.status_code in (200, 409, 422), answer.text
    assert 0 < accepted < 40


def test_many_files_at_once(client):
    """Files sent concurrently each become a model."""
    from concurrent.futures import ThreadPoolExecutor

    files = [make_posterior(seed=seed)[0].to_bytes() for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(lambda data: post_file(client, data).json()["id"], files))

    assert len(set(ids)) == 6
    for model, data in zip(ids, files, strict=True):
        assert get_file(client, model).content == data
        np.testing.assert_array_equal(
            predict(client, model, NEW)["mean"], Posterior.from_bytes(data).predict(NEW).mean
        )


# What depends on counters of moves, which the service shows as they were stored; and bytes, which have them.
WITH_COUNTERS = ("summary", "diagnostics", "use", "model_card", "to_bytes", "discard", "extend", "calibrate")


@pytest.mark.slow
@only("sqlite")
@pytest.mark.parametrize("name", kinds.KINDS)
@pytest.mark.sampled(slow=10)
def test_imported_models_of_every_kind_answer_as_before(client, database, name):
    """A model of any kind answers to the bit as before it was imported, and comes back whole."""
    kind, posterior = kinds.Kind(name), kinds.fitted(name)
    response = post_file(client, posterior.to_bytes())
    assert response.status_code == 201, response.text
    header, blocks, statistics, _ = read_parts(posterior.to_bytes())
    assert get_file(client, response.json()).content == write_model(header, blocks, statistics)

    def asked(question: str) -> bool:
        return not question.startswith(DEAR + WITH_COUNTERS)

    predictor = Posteriors(database.engine, 1 << 30)
    served = predictor.lookup(LOCAL, response.json()["id"])[1]
    assert served.nbytes == predictor.cache.nbytes
    before = posterior if served.several is None else posterior[posterior.outcomes[0]]
    assert answers(kind, served, asked) == answers(kind, before, asked)
