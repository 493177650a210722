"""HTTP in, HTTP out: the FastAPI service of bartserve, its services and its store."""
