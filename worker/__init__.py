"""The workers of bartserve: Celery, the dispatcher, and what each kind of unit does."""
