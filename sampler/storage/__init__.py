"""Binary formats of draws, models and checkpoints."""
