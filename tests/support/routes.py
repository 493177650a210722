"""All routes as the application knows them, so that tests of every route can't miss a new one."""

import re
from typing import Any

from fastapi.routing import iter_route_contexts

from app.application import create_app
from app.settings import Settings
from app.web.middleware.auth import OPEN

ABSENT = {"dataset_id": "ds_1", "model_id": "mdl_1", "prediction_id": "prd_1", "name": "x", "slug": "x"}
ABSENT |= {"key_id": "x", "study_id": "std_1", "other_id": "mdl_2"}
ABSENT |= {"version": "mdl_1", "set_id": "set_1"}
ABSENT |= {"webhook_id": "wh_1", "delivery_id": "msg_1"}


def every_route() -> list[tuple[str, str]]:
    """Return method and path template of each route, once."""
    app = create_app(Settings(database_url="sqlite:///never-opened"))
    routes = {
        (method, str(route.path))
        for route in iter_route_contexts(app.routes)
        for method in (route.methods or {"GET"})  # a mounted folder has no methods
    }
    assert len(routes) > 30, "the routes aren't found any more"
    return sorted(routes, key=lambda route: (route[1], route[0]))


def guarded_routes() -> list[tuple[str, str]]:
    """Return the routes that require authentication."""
    return [(method, path) for method, path in every_route() if not path.startswith(OPEN)]


def fields(path: str) -> list[str]:
    """Return the names in a path template."""
    return re.findall(r"{(\w+)[:}]", path)


def address(path: str, **named: str) -> str:
    """Fill a path template, with ids of absent objects unless given."""
    unknown = [field for field in fields(path) if field not in ABSENT | named]
    assert not unknown, f"say in tests/support/routes.py what {unknown} of {path} may be"
    return re.sub(r"{(\w+)[^}]*}", lambda field: (ABSENT | named)[field[1]], path)


def tensor(name: str, datatype: str, data: list[Any], **more: Any) -> dict[str, Any]:
    """Return an input of the Open Inference Protocol."""
    return {"name": name, "shape": [len(data)], "datatype": datatype, "data": data} | more


def body_for(path: str, dataset_id: str) -> dict[str, Any]:
    """Return a JSON body for a path, if its POST needs one."""
    rows = {"rows": [{"size": 1, "colour": "red"}]}
    by_end: dict[str, dict[str, Any]] = {
        "predict": rows,
        "predictions": {"dataset_id": dataset_id},
        "invocations": {"dataframe_records": [{"size": 1, "colour": "red"}]},
        "infer": {"inputs": [tensor("size", "FP64", [1]), tensor("colour", "BYTES", ["red"])]},
        "forecast": {"level": 0.8},
        "studies": {"permutations": 20},
        "outcomes": {"rows": [{"size": 1, "colour": "red", "y": 1}]},
        "recalibrate": {"since": None},
        "policy": {"recalibrate": "off"},
        "partial-dependence": rows | {"features": ["size"]},
        "accumulated-effects": rows | {"feature": "size"},
        "contrast": rows | {"first": {"size": 1}, "second": {"size": 2}},
        "effects": rows | {"by": "size"},
        "aggregate": rows,
        "shap": rows,
        "survival": rows,
        "joint": rows,
        "distribution": rows | {"at": [1.0]},
        "extend": {"num_draws": 1},
        "refit": {"holdout": 0.0},
        "schedule": {"every": "7d", "promote": "always"},
        "amend": {"columns": {}},
        "webhooks": {"url": "https://hooks.example"},
        "models": {"dataset_id": dataset_id, "target": "y"},
        "model-sets": {"dataset_id": dataset_id, "target": "y", "by": "colour"},
        "estimate": {"dataset_id": dataset_id, "target": "y"},
    }
    sent = by_end.get(path.removesuffix("/estimate" if "/extend/" in path else "").rsplit("/", 1)[-1])
    return {} if sent is None else {"json": sent}
