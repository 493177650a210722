"""A family of somebody else's: two classes, where one row in ten is labelled as the other class."""

from sampler.families import FAMILIES, Family

MISLABELLED = Family(
    "two",
    "two classes, some rows mislabelled",
    likelihood="mislabelled_rows.likelihood:Mislabelled",
    calibrate="sampler.bart.prior:calibrate_probit",
    law="mislabelled_rows.law:MislabelledLaw",
    kernels=("latent-outcomes",),
    prior=FAMILIES["probit"].prior,
    cuts="mixed",
)
