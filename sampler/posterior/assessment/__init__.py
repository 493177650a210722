"""Assessment of a posterior: scores on new rows, calibration, convergence, densities, stop rules."""
