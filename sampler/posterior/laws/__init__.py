"""Laws of outcomes: what families, kinds of noise and methods make of the draws."""
