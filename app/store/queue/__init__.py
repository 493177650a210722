"""The queue of work: units, their leases and ends, workers."""
