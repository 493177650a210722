"""Tuning and selection, part by part."""

from sampler.studies.candidates import candidates_of, merged, settings_in_words
from sampler.studies.fold_scores import FoldScores, of_fold, score_fold
from sampler.studies.inclusion_by_trees import NUM_TREES as NUMBERS_OF_TREES
from sampler.studies.inclusion_by_trees import FitShares, InclusionByTrees, fit_shares
from sampler.studies.inclusion_by_trees import check_numbers as check_numbers_of_trees
from sampler.studies.placebo import placebo_fit
from sampler.studies.selection import LEVEL as SELECTION_LEVEL
from sampler.studies.selection import NUM_BURNIN as SELECTION_NUM_BURNIN
from sampler.studies.selection import NUM_CHAINS as SELECTION_NUM_CHAINS
from sampler.studies.selection import NUM_DRAWS as SELECTION_NUM_DRAWS
from sampler.studies.selection import NUM_PERMUTATIONS as SELECTION_NUM_PERMUTATIONS
from sampler.studies.selection import NUM_TREES as SELECTION_NUM_TREES
from sampler.studies.selection import PERMUTATIONS as SELECTION_PERMUTATIONS
from sampler.studies.selection import NullFits, SelectedFeature, Selection
from sampler.studies.tuning import FOLDS as TUNING_FOLDS
from sampler.studies.tuning import SCORES as TUNING_SCORES
from sampler.studies.tuning import TriedSettings, Tuning, check_score
from sampler.studies.tuning import compare as compare_settings
