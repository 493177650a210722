"""Columns by which the trees of a model see a treatment, kept in its header (docs/maths.md#treatments)."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

KINDS = ("bcf", "ps-bart", "plain")
ROLE = "treatment"
HALF_MEAN = "half_mean_effect"  # scalar of a draw: half the constant part of the effect, in units of y


@dataclass(frozen=True)
class EffectDesign:
    """Columns that the trees have beside the features of rows with a treatment.

    The mean's trees have the treatment as a column, unless a forest of its own has the effect ("bcf"); then
    the rows' propensity, the probability of being treated, unless it is a feature or not needed.

    Attributes
    ----------
    kind
        "bcf": the effect has a forest of its own; "ps-bart": one forest, with the propensity; "plain": one
        forest without it.
    treated
        Treatments of the reference rows, 0 or 1, uint8 [row].
    cuts
        Cut points of the fitted propensity, float64; None without one.
    trees
        Packed draws of the probit fit of the treatment, of which it is the mean; empty without one.
    offset, step
        Of these draws: a row's propensity is the mean of Phi(offset + step * sum of its leaves).
    auc
        Area under its ROC curve at the rows of the fit, and of fits to one half of them at the other; None
        without one.
    given
        Name of the feature that is the propensity, known from elsewhere; "" without one.
    sd
        Standard deviation of what is learnt, the prior median of that of the effect of a row.

    """

    kind: str
    treated: NDArray[np.uint8]
    cuts: Floats | None = None
    trees: bytes = field(default=b"", repr=False)
    offset: float = 0.0
    step: float = 1.0
    given: str = ""
    sd: float = 1.0
    auc: tuple[float, float] | None = None

    @property
    def more_columns(self) -> int:
        """Number of coded columns that the mean's trees have beside the features."""
        return (self.kind != "bcf") + (self.cuts is not None)

    def to_json(self) -> dict[str, Any]:
        """Return a dict that `from_json` reads."""
        treated = "".join(map(str, self.treated.tolist()))
        own: dict[str, Any] = {"kind": self.kind, "treated": treated, "sd": self.sd}
        if self.cuts is not None:
            own |= {"cuts": self.cuts.tolist(), "offset": self.offset, "step": self.step}
            own["trees"] = base64.b64encode(self.trees).decode()
        own |= {} if self.auc is None else {"auc": list(self.auc)}
        return own | ({"given": self.given} if self.given else {})

    @classmethod
    def from_json(cls, values: dict[str, Any], num_reference: int) -> EffectDesign:
        """Read and check what `to_json` returned; raise ValueError for what no model has."""
        kind, treated = values["kind"], values["treated"]
        if kind not in KINDS or not isinstance(treated, str) or {*treated} - {"0", "1"}:
            raise ValueError("its treatment is of no known kind")
        if len(treated) != num_reference:
            raise ValueError("its treatments don't fit its reference rows")
        cuts = None
        if "cuts" in values:
            cuts = np.array(values["cuts"], np.float64)
            whole = cuts.ndim == 1 and len(cuts) < 255 and bool(np.all(np.isfinite(cuts)))
            if not whole or np.any(np.diff(cuts) <= 0):
                raise ValueError("the cut points of its propensity are not increasing numbers")
        offset, step = float(values.get("offset", 0.0)), float(values.get("step", 1.0))
        sd = float(values["sd"])
        if not (math.isfinite(offset) and math.isfinite(step) and 0 < sd < math.inf):
            raise ValueError("its treatment has no scale, or its propensity no offset or step")
        auc = None  # of models before there was one
        if "auc" in values:
            auc = float(values["auc"][0]), float(values["auc"][1])
            if not all(0 <= each <= 1 for each in auc):
                raise ValueError("the areas of its propensity are not shares")
        codes = np.frombuffer(treated.encode(), np.uint8) - np.uint8(ord("0"))
        trees = base64.b64decode(values.get("trees", ""), validate=True)
        return cls(kind, codes, cuts, trees, offset, step, str(values.get("given", "")), sd, auc)
