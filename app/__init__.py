"""The HTTP service of bartserve: API, dashboard, services, store, client and command line."""
