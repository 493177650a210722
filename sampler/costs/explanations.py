"""Work of explanations, in tenths of a nanosecond of a core: about one evaluation of a tree.

`tests/unit/posterior/test_bounds_of_work.py` measures it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampler.posterior.explanations.interactions import COLUMNS, ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sampler.posterior.posterior import Posterior

MAX_WORK = 2e10  # of one explanation: two seconds of a core
# Besides the trees, per row and draw: differences with their quantiles and, of contrasts, random weights.
CONTRASTED, ACCUMULATED = 300, 180
LEAF, COLUMN = 100, 250  # of a SHAP value, by leaf and by column, whose draws are sorted
PAIR = 20  # besides the trees, of two features' interaction in one row beside another


def of_trees(posterior: Posterior) -> float:
    """Return the work of evaluating one row in one draw."""
    return float(posterior.leaf_counts.shape[2] + posterior.law.own_work)


def of_contrast(posterior: Posterior) -> float:
    """Return the work of a contrast by row and draw."""
    return 2 * of_trees(posterior) + CONTRASTED


def of_accumulated_effects(posterior: Posterior) -> float:
    """Return the work of accumulated effects by row and draw."""
    return 2 * of_trees(posterior) + ACCUMULATED


def of_shap_values(posterior: Posterior) -> float:
    """Return the work of SHAP values by row and draw."""
    leaves = float(posterior.leaf_counts.sum(axis=2).mean())
    outputs = len(posterior.classes) if posterior.classes and len(posterior.classes) > 2 else 1
    return LEAF * leaves + COLUMN * len(posterior.schema.columns) * outputs


def of_interactions(posterior: Posterior, features: Sequence[str] | None) -> float:
    """Return the work of the interactions of each two features, or of the usual ones, by draw."""
    count = max(2, min(len(posterior.schema.columns), COLUMNS) if features is None else len(features))
    return count * (count - 1) / 2 * ROWS**2 * (of_trees(posterior) + PAIR)
