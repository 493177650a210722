"""The queue of work: units, their leases and lifecycle, and the workers."""
