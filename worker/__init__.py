"""The workers of bartserve: Celery, the dispatcher, and the processing of each kind of unit."""
