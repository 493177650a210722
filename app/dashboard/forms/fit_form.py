"""Conversion of the new-model form to the body of `POST /models`."""

import math
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.datastructures import FormData

from app.dashboard.forms import fit_fields
from app.dashboard.forms.fields import text
from app.dashboard.forms.fit_fields import FieldSpec
from app.services.errors import Fault, InvalidRequestError
from app.services.fits.fit_request import ModelRequest
from app.services.fits.requests import subgroups_in
from app.web.errors import faults_of
from sampler.host.settings import FIELD_LABELS

KIND = "kind:"  # prefix of a field that overrides a column's kind
PLAIN = ("name", "family", "method", "calibrate", "by")  # fields of text or a choice
NEW_ROWS = ("groups", "later", "horizon", "gap")  # fields of the declaration of new rows
LONGEST = 20  # longest whole number in characters
B = TypeVar("B", bound=ModelRequest)


def body_of(form: FormData) -> dict[str, Any]:
    """Return the equivalent body for `POST /models`, with `by` for a set of them.

    Raises
    ------
    InvalidRequestError
        A number is malformed, or all features were taken away.
    """
    target, faults = text(form, "target") or "", list[Fault]()
    targets = [target, *(name for name in _names(form, "others") if name != target)]
    body: dict[str, Any] = {"dataset_id": text(form, "dataset_id") or ""}
    body["target"] = targets if len(targets) > 1 else target
    texts = {name: text(form, name) for name in PLAIN}
    body |= {"family": "auto"} | {name: value for name, value in texts.items() if value is not None}
    for field in fit_fields.every():
        if field.kind == "names" and (names := _names(form, field.name)):
            _set(body, field, names)
        elif field.kind == "directions" and (directions := _directions(form, faults)):
            body[field.name] = directions
        elif field.kind not in ("names", "directions") and (typed := text(form, field.name)) is not None:
            _put(body, field, typed, faults)
    if new_rows := _new_rows(form, faults):
        body["new_rows"] = new_rows
    body |= _subgroups(form, faults)
    others = (body.get(name) for name, kind in fit_fields.OF_COLUMNS.items() if kind == "column")
    taken = {
        *targets,
        *body.get("groups", ()),
        *body.get("series", ()),
        *others,
        new_rows.get("groups"),
        body.get("by"),
    }
    body |= _features(form, taken, faults, may_be_none=bool(body.get("time")))
    if own := _own_features(form, targets, faults):
        body["features"] = {name: own.get(name, body.get("features")) for name in targets}
    columns = {name.removeprefix(KIND): text(form, name) for name in form if name.startswith(KIND)}
    body |= {"columns": chosen} if (chosen := {name: kind for name, kind in columns.items() if kind}) else {}
    holdout = _percent(text(form, "holdout"), faults)
    if holdout and not body.get("time"):  # forecasts are judged by rehearsals
        body["holdout"] = holdout
    if text(form, "missing_target") == "leave_out":
        body["missing_target"] = "leave_out"
    if faults:
        raise InvalidRequestError(errors=faults)
    return body


def _new_rows(form: FormData, faults: list[Fault]) -> dict[str, Any]:
    """Return the declaration of how new rows will differ; empty where they don't."""
    given: dict[str, Any] = {}
    for field in NEW_ROWS:
        typed = text(form, f"new_rows.{field}")
        if typed is None:
            continue
        try:
            given[field] = typed if field in ("groups", "later") else float(typed)
        except ValueError:
            faults.append(Fault(f"new_rows.{field}", None, f"{typed[:50]!r} is not a number"))
    if "groups" in given and given["groups"] == given.get("later"):
        both = f"{given['later']} can't say both of which group and of which time a row is: choose another"
        faults.append(Fault("new_rows.later", None, both))
    return given


def _subgroups(form: FormData, faults: list[Fault]) -> dict[str, Any]:
    """Return the subgroups typed, one a line, as an entry of the body; empty without any."""
    try:
        typed = subgroups_in(text(form, "subgroups") or "")
    except InvalidRequestError as error:
        faults += error.errors
        return {}
    return {"subgroups": typed} if typed else {}


def _features(
    form: FormData, taken: set[Any], faults: list[Fault], *, may_be_none: bool
) -> dict[str, list[str]]:
    """Return the ticked columns without another role; the questions alone leave the choice to the service."""
    names = [name for name in _names(form, "features") if name not in taken]
    if names or (may_be_none and "all" in form):  # forecasts have lags
        return {"features": names}
    if "all" in form:
        faults.append(Fault("features", None, "choose at least one"))
    return {}


def _own_features(form: FormData, targets: list[str], faults: list[Fault]) -> dict[str, list[str]]:
    """Return the features of single targets, typed one target a line: "mpg: weight, year"."""
    own: dict[str, list[str]] = {}
    for line in filter(str.strip, (text(form, "features_of") or "").splitlines()):
        name, sign, names = (part.strip() for part in line.partition(":"))
        if not sign or name not in targets:
            message = f"{line[:50]!r} must begin with a target and a colon: {', '.join(targets)}"
            faults.append(Fault("features_of", None, message))
        own[name] = [each.strip() for each in names.split(",") if each.strip()]
    return own


def _names(form: FormData, field: str) -> list[str]:
    return [name for name in form.getlist(field) if isinstance(name, str) and name]


def _directions(form: FormData, faults: list[Fault]) -> dict[str, str]:
    """Return the direction of each monotone feature, of the two lists of the form."""
    given: dict[str, str] = {}
    for field in fit_fields.DIRECTIONS:
        setting, _, direction = field.partition(".")
        names = _names(form, field)
        faults += [
            Fault(setting, None, f"{name} can't both rise and fall") for name in names if name in given
        ]
        given |= dict.fromkeys(names, direction)
    return given


def request_of(kind: type[B], body: dict[str, Any]) -> B:
    """Convert to the service's request; raises InvalidRequestError as the API does."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise InvalidRequestError(errors=faults_of(error.errors())) from None


def field_of(fault: Fault) -> str:
    """Return the name of the form field that a fault concerns; empty when there is none."""
    known = {
        *FIELD_LABELS,
        "target",
        "features",
        "features_of",
        "name",
        "by",
        "subgroups",
        *(f"new_rows.{field}" for field in NEW_ROWS),
    }
    if fault.field == "new_rows":
        return "new_rows.groups"
    return next((name for name in (fault.field, fault.column) if name in known), None) or ""


def _put(body: dict[str, Any], field: FieldSpec, text: str, faults: list[Fault]) -> None:
    try:
        _set(body, field, _read(field, text))
    except ValueError:
        message = f"{text[:50]!r} is not a {'whole ' if field.kind == 'whole' else ''}number"
        faults.append(Fault(field.name, None, message))


def _set(body: dict[str, Any], field: FieldSpec, value: Any) -> None:
    outer, _, inner = field.name.rpartition(".")
    (body.setdefault(outer, {}) if outer else body)[inner] = value


def _read(field: FieldSpec, text: str) -> Any:
    """Parse the value of a field; ValueError for a malformed number."""
    if field.kind == "column":
        return text
    if field.kind == "levels":
        return [level.strip() for level in text.split(",") if level.strip()]
    if field.choices:
        return {"true": True, "false": False}.get(text, text) if field.kind == "yes" else text
    number = float(text)
    if not math.isfinite(number) or (field.kind == "whole" and len(text) > LONGEST):
        raise ValueError
    return int(text) if field.kind == "whole" else number


def _percent(text: str | None, faults: list[Fault]) -> float:
    try:
        share = float(text or 0) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.9:
        faults.append(Fault("holdout", None, "a percentage from 0 to 90"))
        return 0.0
    return share
