"""Charts, data frames and cards of a posterior."""
