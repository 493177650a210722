"""The door for services: all that they take of the sampler, by subject.

Modules inside the sampler can move without a change of the service, and no other import of theirs is allowed
(pyproject.toml, import contracts). Each door is imported only where it is used, since some bring kernels.
"""
