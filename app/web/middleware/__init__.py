"""What every request passes: limits, authentication, metrics, concurrency."""
