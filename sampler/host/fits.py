"""Plans, chains, costs and ends of fits."""

from sampler.chains import needed_kernels, use_cores
from sampler.costs.durations import chain_seconds, looks_seconds, num_forests, prepare_seconds
from sampler.costs.memory import FORMULA as MEMORY_FORMULA
from sampler.costs.memory import MIB, Cost, coded_columns
from sampler.costs.memory import estimate as estimate_memory
from sampler.costs.part import trees_of_parts
from sampler.kernels.jit import load_ready
from sampler.posterior.stop_rules import StopCheck, check_part, check_rules, next_look
from sampler.preparation import FitPlan, plan, prepare_rows, resolve_settings
from sampler.preparation.calibration_splits import calibration_splits, check_members, members_of
from sampler.preparation.plan import checked_prior
from sampler.preparation.several import arguments_of, check_features, check_noise, check_several, families_of
from sampler.running import run as run_fit
