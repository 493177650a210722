"""Plain float64 twins of the sampler's mathematics, written from the formulas and not from the engine."""
