"""Forms of the dashboard: their fields, and the reading of submitted values."""
