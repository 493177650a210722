"""The Open Inference Protocol: tensors in JSON and in binary give the figures of /predict."""

import json
import struct

import numpy as np
import pytest

from tests.support.api_calls import places, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import fitted
from tests.support.routes import tensor

pytestmark = only("sqlite")
LENGTH = "Inference-Header-Content-Length"
SIZES, COLOURS = [3.0, None, 7.5], ["red", "blue", "violet"]
PREDICTED = {"columns": {"size": SIZES, "colour": COLOURS}}
TYPES = {"FP64": "<f8", "FP32": "<f4", "INT64": "<i8", "INT32": "<i4", "BOOL": "?"}


def raw(datatype: str, values: list) -> bytes:
    """Write a tensor's values as tritonclient does."""
    if datatype == "BYTES":
        return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in values)
    return np.array(values, TYPES[datatype]).tobytes()


def ask(client, columns: dict, *, binary: bool, model: str = "mine", outputs=(), **parameters):
    """Send columns (name -> datatype, values) in JSON, or as tritonclient sends them; return the answer."""
    inputs, behind = [], b""
    for name, (datatype, values) in columns.items():
        sent = tensor(name, datatype, values)
        if binary:
            piece = raw(datatype, [np.nan if value is None else value for value in values])
            sent |= {"parameters": {"binary_data_size": len(piece)}}
            del sent["data"]
            behind += piece
        inputs.append(sent)
    body: dict = {"id": "one", "inputs": inputs, "parameters": parameters}
    if outputs:
        body["outputs"] = [{"name": name, "parameters": {"binary_data": binary}} for name in outputs]
    elif binary:
        parameters["binary_data_output"] = True
    head = json.dumps(body).encode()
    headers = {LENGTH: str(len(head))} if binary else {}  # and no content type
    return client.post(f"/v2/models/{model}/infer", content=head + behind, headers=headers)


def read(answer) -> dict[str, list]:
    """Return outputs by name, as nested lists."""
    assert answer.status_code == 200, answer.text
    size = int(answer.headers.get(LENGTH, len(answer.content)))
    head, at, found = json.loads(answer.content[:size]), size, {}
    assert head["id"] == "one"
    assert head["model_version"] == answer.headers["Bartserve-Model-Id"]
    for output in head["outputs"]:
        if "data" in output:
            values = output["data"]
        else:
            piece = answer.content[at : at + output["parameters"]["binary_data_size"]]
            at += len(piece)
            if output["datatype"] == "BYTES":
                values = []
                while piece:
                    (length,) = struct.unpack_from("<I", piece)
                    values.append(piece[4 : 4 + length].decode())
                    piece = piece[4 + length :]
            else:
                values = np.frombuffer(piece, TYPES[output["datatype"]]).tolist()
        found[output["name"]] = np.reshape(np.array(values, object), output["shape"]).tolist()
    assert at == len(answer.content)
    return found


@pytest.fixture
def mine(client, settings) -> dict:
    """A model of y by size and colour."""
    return fitted(client, settings, name="mine", seed=3)


MIXED = {"size": ("FP64", SIZES), "colour": ("BYTES", COLOURS)}


def test_tensors_give_the_figures_of_predict(client, mine):
    """In JSON and in binary, with the parameters; only what is asked for comes, in that order."""
    asked = {"level": 0.8, "interval": "credible", "quantiles": [0.25, 0.5]}
    expected = client.post("/models/mine/predict", json=PREDICTED | asked).json()
    for binary in (False, True):
        found = read(ask(client, MIXED, binary=binary, **asked | {"quantiles": "0.25, 0.5"}))
        assert list(found) == ["mean", "sd", "lower", "upper", "quantiles", "flags"]
        assert [found["mean"], found["sd"]] == [expected["mean"], expected["sd"]]
        (interval,) = expected["intervals"]
        assert [found["lower"], found["upper"]] == [interval["lower"], interval["upper"]]
        assert found["quantiles"] == np.transpose([each["values"] for each in expected["quantiles"]]).tolist()
        assert found["flags"][2] == "unseen_level: colour"
        few = read(ask(client, MIXED, binary=binary, outputs=["upper", "mean"], level=0.8))
        assert list(few) == ["upper", "mean"]
        assert few["mean"] == expected["mean"]


def test_every_datatype_is_a_value_of_predict(client, mine):
    """Whole numbers, floats of 32 bits, truth values and texts, flat or nested; an empty text is missing."""
    for datatype, sizes in {
        "INT64": [3, 4, 5],
        "INT32": [3, 4, 5],
        "FP32": [0.5, 0.1, None],
        "BOOL": [True, False, True],
    }.items():
        exact = [each if each is None else np.array(each, TYPES[datatype]).item() for each in sizes]
        sent = {"columns": {"size": exact, "colour": ["red", None, "blue"]}}
        expected = client.post("/models/mine/predict", json=sent).json()["mean"]
        for binary in (False, True):
            columns = {"size": (datatype, sizes), "colour": ("BYTES", ["red", "", "blue"])}
            assert read(ask(client, columns, binary=binary, outputs=["mean"]))["mean"] == expected
    nested = tensor("size", "FP64", [[3.0], [4.0]], shape=[2, 1])
    body = {"inputs": [nested, tensor("colour", "BYTES", ["red", "red"])]}
    flat = {"columns": {"size": [3, 4], "colour": ["red", "red"]}}
    answer = client.post("/v2/models/mine/infer", json=body).json()
    assert answer["outputs"][0]["data"] == client.post("/models/mine/predict", json=flat).json()["mean"]


def test_one_tensor_has_all_features(client, settings):
    """A matrix of numbers goes by the order of the model's inputs, whatever its name."""
    rows = "".join(f"{i % 7 + i % 5},{i % 7},{i % 5}\n" for i in range(60))
    fitted(client, settings, text="y,a,b\n" + rows, name="numbers")
    metadata = client.get("/v2/models/numbers").json()
    assert [each["name"] for each in metadata["inputs"]] == ["a", "b"]
    cells = [[1.0, 2.0], [3.0, None], [5.0, 1.0]]
    expected = client.post(
        "/models/numbers/predict", json={"rows": [dict(zip("ab", row, strict=True)) for row in cells]}
    )
    flat = [cell for row in cells for cell in row]
    behind = np.array(flat, "<f8").tobytes()
    there = {"name": "input-0", "shape": [3, 2], "datatype": "FP64"}
    for sent in (cells, flat):
        answer = client.post("/v2/models/numbers/infer", json={"inputs": [there | {"data": sent}]})
        assert answer.json()["outputs"][0]["data"] == expected.json()["mean"]
    head = json.dumps({"inputs": [there | {"parameters": {"binary_data_size": len(behind)}}]}).encode()
    answer = client.post("/v2/models/numbers/infer", content=head + behind, headers={LENGTH: str(len(head))})
    assert answer.json()["outputs"][0]["data"] == expected.json()["mean"]
    wide = there | {"shape": [2, 3], "data": flat}
    assert (
        "2 in the order"
        in problem(client.post("/v2/models/numbers/infer", json={"inputs": [wide]}), 422)["error"]
    )


def test_health_metadata_and_versions(client, settings, mine):
    """Versions are the models of a name, by their ids; each answers by name and version."""
    other = fitted(client, settings, name="mine", seed=4)["id"]
    assert client.get("/v2/health/live").json() == {"live": True}
    problem(client.get("/v2/health/ready"), 503)  # there is no worker
    server = client.get("/v2").json()
    assert (server["name"], server["extensions"]) == ("bartserve", ["binary_tensor_data"])
    named = client.get("/v2/models/mine").json()
    assert named["versions"] == [other, mine["id"]]
    assert {each["name"]: each["datatype"] for each in named["inputs"]} == {"size": "FP64", "colour": "BYTES"}
    assert [each["name"] for each in named["outputs"]] == [
        "mean",
        "sd",
        "lower",
        "upper",
        "quantiles",
        "flags",
    ]
    old = f"/v2/models/mine/versions/{mine['id']}"
    assert client.get(old).json() == named
    assert client.get(f"{old}/ready").json() == {"name": "mine", "ready": True}
    assert client.get("/v2/models/mine/ready").headers["Bartserve-Model-Id"] == other
    assert client.get(f"/v2/models/{other}").json()["versions"] == [other]
    first = ask(client, MIXED, binary=True, model=f"mine/versions/{mine['id']}")
    assert first.headers["Bartserve-Model-Id"] == mine["id"]
    expected = client.post(f"/models/{mine['id']}/predict", json=PREDICTED).json()
    assert read(first)["mean"] == expected["mean"]
    for path in (f"/v2/models/other/versions/{other}", "/v2/models/mine/versions/1", "/v2/models/other"):
        problem(client.get(path), 404)


def test_classes_and_several_outcomes_are_named(client, settings):
    """More than two classes, and several outcomes, have figures of their own; two say which class it is."""
    fitted(client, settings, text=table(60), name="three", target="colour", family="auto")
    classes = client.post("/models/three/predict", json={"rows": [{"size": 3, "y": 1}]}).json()
    columns = {"size": ("INT64", [3]), "y": ("FP64", [1.0])}
    found = read(ask(client, columns, binary=True, model="three"))
    assert [found[f"mean_{each}"][0] for each in classes["classes"]] == classes["mean"][0]
    assert {each["name"] for each in client.get("/v2/models/three").json()["outputs"]} >= set(found)
    two = "".join(f"{'yes' if i % 3 else 'no'},{i % 3},{i / 7:.3f}\n" for i in range(60))
    fitted(client, settings, text="y,size,z\n" + two, name="two", family="auto")
    answer = ask(client, {"size": ("INT64", [3]), "z": ("FP64", [1.0])}, binary=False, model="two").json()
    assert answer["parameters"]["class"] == "yes"
    fitted(client, settings, text="y,size,z\n" + two, name="both", target=["z", "y"], family="auto")
    answer = ask(client, {"size": ("INT64", [1])}, binary=False, model="both")
    found, said = read(answer), answer.json()["parameters"]
    assert {"mean_y", "upper_y", "mean_z", "flags"} <= set(found)
    for outcome in ("y", "z"):
        rows = {"rows": [{"size": 1}], "outcome": outcome}
        expected = client.post("/models/both/predict", json=rows).json()
        assert found[f"mean_{outcome}"] == expected["mean"]
        assert said[f"interval_{outcome}"] == expected["interval"]
        assert said[f"verdict_{outcome}"] == expected["verdict"]
        assert [said[name] for name in said if name == f"class_{outcome}"] == (expected["classes"] or [])[1:]


SIZE, COLOUR = tensor("size", "FP64", [1]), tensor("colour", "BYTES", ["red"])
BARE = {"name": "size", "shape": [1], "datatype": "FP64"}
REFUSED = {  # inputs, the rest of the body, column
    "other parameters": ([SIZE], {"parameters": {"levels": 0.5}}, "parameters.levels"),
    "quantiles": ([SIZE], {"parameters": {"quantiles": "x"}}, "parameters.quantiles"),
    "an unknown type": ([tensor("size", "FP8", [1])], {}, "inputs.0.datatype"),
    "no data": ([BARE], {}, "size"),
    "no rows": ([tensor("size", "FP64", [])], {}, None),
    "another shape": ([tensor("size", "FP64", [1], shape=[2])], {}, "size"),
    "uneven": ([SIZE, tensor("colour", "BYTES", ["red"] * 2)], {}, "colour"),
    "twice": ([SIZE, SIZE], {}, "size"),
    "a text among numbers": ([tensor("size", "FP64", [1, "x"])], {}, "size"),
    "beyond its type": ([tensor("size", "INT32", [1 << 40])], {}, "size"),
    "an unknown column": ([SIZE, COLOUR, tensor("length", "FP64", [1])], {}, "length"),
    "an unknown output": ([SIZE], {"outputs": [{"name": "mode"}]}, "mode"),
    "an output twice": ([SIZE], {"outputs": [{"name": "sd"}] * 2}, "sd"),
    "no quantiles": ([SIZE, COLOUR], {"outputs": [{"name": "quantiles"}]}, "quantiles"),
    "shared memory": (
        [BARE | {"parameters": {"shared_memory_region": "x"}}],
        {},
        "inputs.0.parameters.shared_memory_region",
    ),
}
BINARY_REFUSED = {  # datatype, bytes, declared size, column and row
    "too few bytes": ("FP64", b"1234", 4, ("size", None)),
    "beyond the body": ("FP64", b"12345678", 9, ("size", None)),
    "bytes of nobody": ("FP64", b"123456789", 8, ("inputs", None)),
    "within a length": ("BYTES", b"\x01\0\0\0a\x01", 6, ("size", 2)),
    "within a text": ("BYTES", b"\x05\0\0\0a", 5, ("size", 1)),
    "no UTF-8": ("BYTES", b"\x01\0\0\0\xff", 5, ("size", 1)),
    "two texts": ("BYTES", b"\0\0\0\0" * 2, 8, ("size", None)),
    "a text for a number": ("BYTES", b"\x01\0\0\0x", 5, ("size", 1)),
    "infinite": ("FP64", np.array(np.inf).tobytes(), 8, ("size", 1)),
}


def test_refusals_name_the_input(client, mine):
    """Refusals are problem documents whose detail is `error` too, which clients of the protocol read."""
    path = "/v2/models/mine/infer"
    for what, (inputs, rest, column) in REFUSED.items():
        found = problem(client.post(path, json={"inputs": inputs} | rest), 422)
        assert found["error"]
        assert [each for each, _ in places(found)][:1] == ([] if column is None else [column]), what
    for content, length in ((b"{", "1"), (b"{}", "3"), (b"{}", "x"), (b"{}", "2"), (b"{}", "9" * 5000)):
        problem(client.post(path, content=content, headers={LENGTH: length}), 422)
    for what, (datatype, content, size, place) in BINARY_REFUSED.items():
        sent = {"name": "size", "shape": [1], "datatype": datatype, "parameters": {"binary_data_size": size}}
        head = json.dumps({"inputs": [sent, COLOUR]}).encode()
        answer = client.post(path, content=head + content, headers={LENGTH: str(len(head))})
        assert places(problem(answer, 422))[0] == place, what
    problem(client.post("/v2/models/other/infer", json={"inputs": [COLOUR]}), 404)
    problem(client.post(path, content=b"{}", headers={"Content-Encoding": "deflate"}), 415)
    problem(client.post(path, content=b"\x1f\x8b..", headers={"Content-Encoding": "gzip", LENGTH: "50"}), 415)
    assert "error" not in problem(client.post("/models/mine/predict", json={}), 422)
