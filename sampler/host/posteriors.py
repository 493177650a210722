"""Answers of posteriors, and what they cost."""

from sampler.many.posteriors import RoutedRows
from sampler.posterior.core.intervals import Interval, IntervalKind
from sampler.posterior.core.row_blocks import spaced
from sampler.posterior.explanations.aggregates import total_scores
from sampler.posterior.explanations.contrasts import MOST_GROUPS
from sampler.posterior.explanations.panels import BY_PANEL, facts_of_rows
from sampler.posterior.explanations.permutation import permutation_importance
from sampler.posterior.explanations.row_sets import AggregateRequest, FigureOfSet
from sampler.posterior.explanations.survival_curves import MOST_TIMES, check_times
from sampler.posterior.explanations.work import (
    H_COLUMNS,
    H_ROWS,
    SHAP_CELLS,
    accumulation_work,
    aggregate_work,
    contrast_work,
    distribution_work,
    effects_work,
    interactions_work,
    joint_work,
    num_figures,
    shap_work,
    survival_work,
    usage_work,
)
from sampler.posterior.explanations.work import MOST as MOST_WORK
from sampler.posterior.parts.part import load_parts
from sampler.posterior.parts.slopes import Slope
from sampler.posterior.protocol import GameKind, Loss
from sampler.posterior.results.aggregates import Aggregate
from sampler.posterior.results.card_document import ModelCard
from sampler.posterior.results.columns import by_class, percent, without_infinity
from sampler.posterior.results.comparison import ModelComparison, ScoreDifference
from sampler.posterior.results.contrasts import Contrast, ContrastEstimate
from sampler.posterior.results.effect_estimates import EffectEstimate
from sampler.posterior.results.effects import AccumulatedEffects, FeatureRows, Ice, PartialDependence
from sampler.posterior.results.groups import Correlation, GroupDeviation, GroupEffects, GroupSlopes
from sampler.posterior.results.interactions import Interactions
from sampler.posterior.results.prediction import Errors, are_finite, prediction_columns
from sampler.posterior.results.rankings import Inclusion, PermutationImportance
from sampler.posterior.results.shap_values import OutcomeReasons, ShapValues, moving_most
from sampler.posterior.results.survival import Band, SurvivalCurves
from sampler.posterior.results.treatment_effects import TreatmentEffects
from sampler.posterior.several.results import SeveralPrediction
from sampler.posterior.several.stored import least_settled, posterior_of, stored_card
from sampler.posterior.untrusted import read_contents
from sampler.posterior.verdict.agreement import LIMITS as AGREEMENT_LIMITS
from sampler.posterior.verdict.agreement import SCALARS, times_to_converge
from sampler.posterior.verdict.effects import EffectsUse, farthest
from sampler.posterior.verdict.intervals import RefusedQuarter, judged_anew, made_to_hold
from sampler.posterior.verdict.reasons import VERDICTS, ReasonCode, Verdict
from sampler.posterior.verdict.summary import Precision
from sampler.posterior.verdict.use import AnotherFit, ChainAgreement, HeldOutIntervals, Use, use_of
