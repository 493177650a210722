"""Definitions of a fit's settings: checks, HTTP fields, form fields and the worker's specification follow.

Settings of the model and its chains are fields of `sampler.settings.Settings`; all are in
`sampler.settings.ALL_SETTINGS`.
"""
