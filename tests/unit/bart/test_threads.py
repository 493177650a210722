"""Chains whose passes over rows are shared by threads have the bits of those of one thread."""

import dataclasses
import threading

import numpy as np
import pytest

from sampler import running
from sampler.bart.chain import Chain
from sampler.bart.shared import threads as shared
from sampler.chains import ROWS_OF_A_THREAD, needed_kernels, start_chain, use_cores
from sampler.preparation import prepare
from sampler.storage.draws import concatenate

NEVER = 10**18  # ns, of waiting before a run goes on alone
SHORT = {"num_trees": 8, "num_chains": 1, "num_burnin": 6, "num_draws": 9, "thin": 2, "seed": 5}
CASES = {
    "default": {},
    "weights": {"weighted": True},
    "change and swap": {"moves": "cgm"},
    "change, weights": {"moves": "growprunechange", "weighted": True},
    "deep": {"prior": {"alpha": 0.999, "beta": 0.02, "k": 0.1}, "num_trees": 2},
    "two classes": {"family": "probit"},
    "annealed, k drawn": {"start": "annealed", "prior": {"k_df": 1.5}},
    "columns' shares": {"prior": {"sparse": True}},
    "noise by row": {"noise": "forest"},
    "heavy tails": {"noise": "t"},
    "groups": {"groups": True},
    "restructured": {"moves": {"grow": 0.4, "prune": 0.4, "restructure": 0.2, "rule": 0.2}},
}


def training(num_rows=1301, *, weighted=False, groups=False, **settings):
    """Return a problem with missing values, a constant column and ties; the rows fill no whole block."""
    rng = np.random.default_rng(11)
    X = rng.uniform(size=(num_rows, 5)).round(2)
    X[rng.random(num_rows) < 0.1, 0] = np.nan
    X[:, 1] = X[:, 1] > 0.5
    X[:, 2] = 3
    y = np.sin(6 * np.nan_to_num(X[:, 0])) + X[:, 1] + 0.3 * rng.normal(size=num_rows)
    if settings.get("family") == "probit":
        y = (y > np.median(y)).astype(float)
    columns = {f"x{j}": X[:, j] for j in range(5)}
    if groups:
        columns["site"] = rng.choice(["a", "b", "c", "d"], num_rows)
    weights = rng.choice([0.5, 1.0, 3.0], num_rows) if weighted else None
    settings = {"noise": "constant", "linear": False, "groups": "site" if groups else None} | SHORT | settings
    return prepare(columns, y, weights=weights, **settings).training


def outcome(chain):
    """Return what a chain hands over at its end."""
    return chain.take(), chain.checkpoint(), chain.statistics()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(quick=6)
def test_threads_have_the_bits_of_one(case, monkeypatch):
    """Draws, last state and counters are those of one thread, with a resumption in between."""
    monkeypatch.setattr(shared, "MOST_LOSS", NEVER)
    data = training(**CASES[case])
    alone = Chain.start(data, 0)
    alone.run(10**6)
    expected = outcome(alone)
    for count in (2, 3):
        first = Chain.start(data, 0)
        first.threads = count
        first.run(4)
        first.run(7)
        before, chain = first.take(), Chain.resume(data, first.checkpoint())
        chain.threads = count
        chain.run(10**6)
        assert chain.team.passes > 20
        last, *others = outcome(chain)
        assert (concatenate([before, last]), *others) == expected


def test_a_run_goes_on_alone_where_waiting_costs_more(monkeypatch):
    """The bits are the same, threads end with the run, and attempts in vain are followed by rests."""
    monkeypatch.setattr(shared, "MOST_LOSS", -1)
    data = training()
    alone, chain = Chain.start(data, 0), Chain.start(data, 0)
    alone.run(10**6)
    chain.threads, passes, others = 2, [], threading.active_count()
    while not chain.done:
        chain.run(1)
        passes.append(chain.team.passes)
        assert threading.active_count() == others
    assert outcome(chain) == outcome(alone)
    assert np.diff(passes, prepend=0)[:12].tolist() == [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_threads_end_where_a_run_fails(monkeypatch):
    """An error inside a run leaves no thread, and the chain can go on."""
    data = training()
    chain = Chain.start(data, 0)
    chain.threads = 3
    others = threading.active_count()

    def fail(_stop):
        assert threading.active_count() == others + 2
        raise KeyboardInterrupt

    monkeypatch.setattr(chain, "_run_to", fail)
    with pytest.raises(KeyboardInterrupt):
        chain.run(1)
    assert threading.active_count() == others
    monkeypatch.undo()
    assert chain.run(1) == 1


@pytest.mark.parametrize(
    ("num_rows", "cores", "expected"),
    [(2 * ROWS_OF_A_THREAD, 8, 2), (2 * ROWS_OF_A_THREAD - 1, 8, 1), (10**6, 3, 3), (10**6, 0, 1)],
)
def test_cores_of_a_chain(num_rows, cores, expected):
    """A chain has a thread for each of its cores, while each has enough rows."""
    chain = start_chain(training(100), 0)
    codes = np.broadcast_to(np.uint8(0), (1, num_rows))
    chain.training = dataclasses.replace(chain.training, codes=codes, y=np.zeros(num_rows))
    use_cores(chain, cores)
    assert chain.threads == expected
    assert ("team" in needed_kernels(chain.training, cores)) == (expected > 1)


def test_a_fit_shares_cores_that_chains_leave(monkeypatch):
    """Chains get the threads beyond one for each of them, and the fit is the same."""
    monkeypatch.setattr("sampler.chains.ROWS_OF_A_THREAD", 100)
    monkeypatch.setattr(shared, "MOST_LOSS", NEVER)
    rng = np.random.default_rng(2)
    X, y = rng.uniform(size=(300, 3)), rng.normal(size=300)
    counts = []

    def draws(num_threads):
        problem = prepare(X, y, **SHORT | {"num_chains": 2})
        posterior = running.run(
            problem, num_threads=num_threads, report=lambda _, chain: counts.append(chain.threads)
        )
        return posterior.to_bytes()

    assert draws(4) == draws(2)
    assert set(counts) == {1, 2}
