"""Tables with a column for each time."""

from sampler.forecasts.wide import WideTimes, long_names, wide_times
