"""Figures of results."""

from sampler.posterior.charts import (
    chains,
    checks,
    effects,
    forecasts,
    one_row,
    rankings,
    reasons,
    residuals,
    topologies,
    treatments,
)
from sampler.posterior.charts.effects import height_of as chart_height
from sampler.posterior.charts.effects import is_ordered
from sampler.posterior.charts.reasons import swarm_height
from sampler.posterior.charts.style import ChartStyle, to_svg
from sampler.posterior.charts.style import prepare as prepare_style
