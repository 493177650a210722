"""Scores, calibration, and the watch on outcomes."""

from sampler.posterior.assessment import calibration, censored_scores, convergence, row_diagnostics, scoring
from sampler.posterior.assessment.baseline import linear_predictions
from sampler.posterior.assessment.conformal import check_columns, conformity, predict_calibrated
from sampler.posterior.assessment.density import Density, PredictiveDistribution
from sampler.posterior.assessment.density import density as density_of_row
from sampler.posterior.assessment.diagnostics import MAX_POINTS, diagnose, evenly_spaced
from sampler.posterior.assessment.drift import (
    DRIFT_VERDICTS,
    PREDICTED_ROWS,
    DriftPart,
    DriftReason,
    DriftReport,
    DriftRows,
    DriftVerdict,
    count_rows,
    training_parts,
    watch_rows,
)
from sampler.posterior.assessment.drift import MOST_ROWS as DRIFT_ROWS
from sampler.posterior.assessment.drift import WEEKS as DRIFT_WEEKS
from sampler.posterior.assessment.labelled_rows import LabelledRows
from sampler.posterior.assessment.outcome_scores import LEVELS as OUTCOME_LEVELS
from sampler.posterior.assessment.outcome_scores import OutcomeScores, score_outcomes
from sampler.posterior.assessment.outcome_sums import CENTRAL, OutcomeSums, monday_of, week_of
from sampler.posterior.assessment.outcome_watch import ALPHA as WATCH_ALPHA
from sampler.posterior.assessment.outcome_watch import (
    FEWEST_GROUPS,
    SPANS,
    BrokenBound,
    CountedOnce,
    WatchedIntervals,
    WatchReport,
    WatchVerdict,
    span_of_weeks,
    total_of,
    watch,
)
from sampler.posterior.assessment.outcome_watch import VERDICTS as WATCH_VERDICTS
from sampler.posterior.assessment.recalibrating import recalibrate
from sampler.posterior.assessment.row_diagnostics import RowsVerdict
from sampler.posterior.assessment.row_scores import row_scores
from sampler.posterior.core.topology import TreeShape
from sampler.posterior.recalibration.learning import calibrating
from sampler.posterior.results.diagnosis import (
    ChainMoves,
    Diagnosis,
    GroupFigures,
    Limits,
    OneFigures,
    Proposals,
    RowFigures,
    ScalarGrowth,
    Spread,
    Traces,
    TreeSizes,
)
from sampler.posterior.results.scores import Convergence, RowsGrowth
