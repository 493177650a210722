"""Latent rates of classes (Murray 2021; docs/maths.md#classes-by-log-linear-forests)."""

from __future__ import annotations

import math

from sampler.bart.kernels.leaf_models.log_linear_pass import ROWS_OF_A_SUM, STEP, exponential
from sampler.kernels.arrays import Float, Floats, Floats2, Int, Ints2, Words
from sampler.kernels.jit import kernel
from sampler.kernels.random import gamma, uniform


@kernel(allocates=False, entry=True)
def begin_classes(
    log_value: Ints2, log_share: Floats, power: Float, num_rows: Int, random: Words, part: Floats2,
    largest: Floats, total: Floats, sums: Floats,
) -> None:  # fmt: skip
    """Draw each row's latent rate, and set its part of every class.

    The rate is Gamma(power) over the sum of all classes' share times f, and power times itself is what a part
    is multiplied by in evidences. So parts are the classes' probabilities times one exponential variable
    where the power is 1.

    Parameters
    ----------
    log_value
        log f by class, int32 [class, row], in steps.
    log_share
        Logarithms of the classes' shares.
    power
        Power of the likelihood, 0 where the data don't count.
    num_rows
        Rows, without those that pad them.
    random
        State of the random numbers.
    part
        float64 [class, row], set.
    largest, total
        Room, float64 [row].
    sums
        float64 [class], set to the sums of the parts.

    """
    classes = len(log_share)
    for i in range(num_rows):
        largest[i] = log_share[0] + STEP * float(log_value[0, i])
        total[i] = 0.0
    for k in range(1, classes):
        for i in range(num_rows):
            largest[i] = max(largest[i], log_share[k] + STEP * float(log_value[k, i]))
    for k in range(classes):
        for i in range(num_rows):
            part[k, i] = exponential(log_share[k] + STEP * float(log_value[k, i]) - largest[i])
            total[i] += part[k, i]
    for i in range(num_rows):
        rate = -math.log(uniform(random)) if power == 1.0 else 1.0
        if 0.0 < power < 1.0:
            rate = gamma(random, power) / power
        total[i] = rate / total[i]
    for k in range(classes):
        of_class = 0.0
        for start in range(0, num_rows, ROWS_OF_A_SUM):
            of_block = 0.0
            for i in range(start, min(start + ROWS_OF_A_SUM, num_rows)):
                part[k, i] *= total[i]
                of_block += part[k, i]
            of_class += of_block
        sums[k] = of_class
