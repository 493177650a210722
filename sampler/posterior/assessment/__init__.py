"""How far a posterior can be trusted: scores on new rows, growth of R-hat, densities, stop rules."""
