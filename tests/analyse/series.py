"""Step times with known truth: an autoregression with a given noise, and one with a drift."""

import numpy as np


def step_times(chance, *, steps, correlation=0.0, noise=0.03, level_ns=100e6, runs=1, between=0.0):
    """Wall times of several runs, one a row; neighbours correlate, runs differ by a factor."""
    settling = 60
    fresh = chance.normal(size=(runs, steps + settling))
    state = np.empty_like(fresh)
    state[:, 0] = fresh[:, 0]
    for index in range(1, fresh.shape[1]):
        state[:, index] = (
            correlation * state[:, index - 1] + np.sqrt(1 - correlation**2) * fresh[:, index]
        )
    factor = 1 + between * chance.normal(size=(runs, 1))
    return level_ns * factor * (1 + noise * state[:, settling:])
