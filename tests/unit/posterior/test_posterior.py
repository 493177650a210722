"""A posterior gives equal predictions however it was made or stored."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sampler import DataError, NotFittedError, PackedError, Posterior, SettingsError, interrupt, load, pack
from sampler.data.encode import Coded
from sampler.storage.model_file import read_parts, write_model
from sampler.storage.model_header import Header
from tests.support.models.random_forests import random_codes, walk
from tests.support.models.random_posteriors import make_draws, make_posterior, make_problem

FIXTURES = Path(__file__).parents[2] / "data" / "formats"
ROWS = {"x1": [0.5, None, -1.0], "x2": [None, 0.1, 2.0], "x3": [0.0, 1.0, 2.0], "c": ["a", "z", "e"]}


def fingerprint(posterior):
    """Return a hash of all predictions for some rows."""
    codes = random_codes(5, 7, 300)
    hashed = hashlib.sha256(posterior.law.f(Coded(codes, [])).tobytes())
    for interval in ("credible", "predictive"):
        prediction = posterior.predict(ROWS, [0.5, 0.9], interval, 0.3)
        hashed.update(
            np.array(
                [
                    prediction.mean,
                    prediction.sd,
                    *prediction.lower,
                    *prediction.upper,
                    prediction.quantiles[0].values,
                ]
            ).tobytes()
        )
    return hashed.hexdigest()


def test_sample_is_offset_plus_steps_times_sums():
    """Draws of f are exactly those of a plain tree walk, chain by chain."""
    posterior, X, chains = make_posterior()
    f = posterior.sample(X)
    assert f.shape == (2, 12, 80)
    codes = posterior.encode(X).codes
    for chain, draws in enumerate(chains):
        np.testing.assert_array_equal(f[chain], 10 + 2.0**-16 * walk(draws, codes))


def test_predict_agrees_with_sample():
    """Mean and credible interval are those of the draws of f, pooled over chains."""
    posterior, X, _ = make_posterior()
    f = posterior.sample(X).reshape(-1, 80)
    prediction = posterior.predict(X, level=0.8, interval="credible")
    np.testing.assert_allclose(prediction.mean, f.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(prediction.lower, np.quantile(f, 0.1, axis=0), rtol=1e-12)
    np.testing.assert_allclose(prediction.upper, np.quantile(f, 0.9, axis=0), rtol=1e-12)
    assert prediction.draws == 12


def test_the_default_interval_is_predictive():
    """The default interval is predictive, and an answer states its kind."""
    posterior, X, _ = make_posterior()
    usual, prediction = posterior.predict(X), posterior.predict(X, interval="predictive")
    assert (usual.interval, prediction.interval) == ("predictive", "predictive")
    np.testing.assert_array_equal(usual.lower, prediction.lower)
    assert np.all(usual.upper > posterior.predict(X, interval="credible").upper)


def test_rows_outside_training_are_flagged():
    """A value outside the training range is flagged at its row, with an explanatory warning."""
    posterior, _, _ = make_posterior()
    rows = {name: list(column) for name, column in ROWS.items()}
    rows["x1"][1] = 1e7
    prediction = posterior.predict(rows)
    assert ("x1", "outside_range") in prediction.flags[1]
    assert ("x1", "outside_range") not in prediction.flags[0]
    (warning,) = [text for text in prediction.warnings if text.startswith("x1: outside")]
    column = next(column for column in posterior.schema.columns if column.name == "x1")
    assert f"x1: outside the training range ({column.min:.6g} to {column.max:.6g}) in 1 row" in warning
    assert "as at the edge" in warning


def test_a_row_does_not_depend_on_other_rows():
    """A row's answer is equal, bit for bit, alone and among thousands."""
    posterior, _, _ = make_posterior()
    many = {name: (column * 1000)[:2500] for name, column in ROWS.items()}
    for interval in ("credible", "predictive"):
        alone, among = (posterior.predict(rows, 0.9, interval) for rows in (ROWS, many))
        for part in ("mean", "sd", "lower", "upper"):
            np.testing.assert_array_equal(
                getattr(among, part)[-1000:][2::3][:3], [getattr(alone, part)[i] for i in (2, 2, 2)]
            )


def test_answers_do_not_depend_on_the_size_of_blocks(monkeypatch):
    """Predictions have equal bytes for any block size of draws."""
    posterior, _, _ = make_posterior()
    many = {name: column * 20 for name, column in ROWS.items()}
    whole = posterior.predict(many, 0.9, "predictive")
    monkeypatch.setattr("sampler.posterior.core.row_blocks.MAX_CELLS", 1)
    parts = posterior.predict(many, 0.9, "predictive")
    for part in ("mean", "sd", "lower", "upper"):
        np.testing.assert_array_equal(getattr(parts, part), getattr(whole, part))


def test_pinned_draws_stay_the_same_when_more_are_drawn():
    """An answer from the first k draws per chain has equal bytes after the chains are extended."""
    shorter, X, chains = make_posterior()
    longer = Posterior.from_blocks(
        make_problem()[0].header(),
        [[pack(draws), pack(more)] for draws, more in zip(chains, make_draws(9), strict=True)],
    )
    assert (shorter.num_draws, longer.num_draws) == (12, 24)
    for k in (1, 5, 12):
        ours, theirs = (p.predict(X, 0.9, "predictive", num_draws=k) for p in (shorter, longer))
        assert ours.draws == k
        np.testing.assert_array_equal(ours.lower, theirs.lower)
        np.testing.assert_array_equal(ours.mean, theirs.mean)


def test_chains_of_unequal_length():
    """Chains are used up to the shortest one's length; chains without draws are left out."""
    posterior, X, chains = make_posterior(num_draws=(12, 0, 9))
    assert (posterior.num_chains, posterior.num_draws) == (2, 9)
    assert posterior.sample(X).shape == (2, 9, 80)
    np.testing.assert_array_equal(posterior.sigma[1], chains[2].sigma)


def test_no_draws_yet():
    """A posterior without draws refuses to predict and says why."""
    with pytest.raises(NotFittedError, match="no draw"):
        Posterior.from_blocks(make_problem()[0].header(), [[], []])


def reasons(posterior):
    """Return a hash of every explanation."""
    shap, pairs = posterior.shap(ROWS), posterior.interactions(["x1", "x2", "c"])
    contrast = posterior.contrast(ROWS, {"x1": 1.0}, {"x1": 0.0})
    curves = [posterior.partial_dependence(names, ice=len(names) == 1) for names in (["x1"], ["x1", "c"])]
    importance = posterior.importance(ROWS, [1.0, 2.0, 4.0], permutations=3)
    figures = [
        *(shap.values, shap.lower, posterior.shap(game="path-dependent").values, pairs.strength, pairs.h),
        *(
            contrast.mean,
            contrast.population[:3],
            contrast.unlike,
            importance.mean,
            posterior.inclusion().mean,
        ),
        *(curve.mean for curve in curves),
        *(curves[0].ice.mean, posterior.accumulated_effects("x1").mean),
    ]
    card = posterior.model_card(ROWS, [1.0, 2.0, 4.0]).to_markdown()
    return hashlib.sha256(
        b"".join(np.asarray(each).tobytes() for each in figures) + card.encode()
    ).hexdigest()


@pytest.mark.slow
def test_saved_and_loaded_in_another_process(tmp_path):
    """A saved file gives equal predictions and reasons in a new process, and equal bytes when saved again."""
    posterior, _, _ = make_posterior()
    path = tmp_path / "model.bart"
    posterior.save(path)
    assert load(path).to_bytes() == path.read_bytes()
    code = (
        "import sys; sys.path.insert(0, '.'); from sampler import load; "
        "from tests.unit.posterior.test_posterior import fingerprint, reasons; "
        "posterior = load(sys.argv[1]); print(fingerprint(posterior), reasons(posterior))"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code, path], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [fingerprint(posterior), reasons(posterior)]
    assert list(tmp_path.iterdir()) == [path]


def test_model_file_of_format_1_reads_for_ever():
    """The stored file of format 1 loads and gives its recorded predictions."""
    posterior = load(FIXTURES / "model_v1.bart")
    expected = json.loads((FIXTURES / "model_v1.json").read_text())
    prediction = posterior.predict(ROWS, 0.9, "credible")
    assert prediction.mean.tolist() == expected["mean"]
    assert prediction.lower.tolist() == expected["lower"]
    assert prediction.upper.tolist() == expected["upper"]
    np.testing.assert_allclose(
        posterior.predict(ROWS, 0.9, "predictive").lower, expected["predictive_lower"], rtol=1e-10
    )
    assert posterior.sigma.tolist() == expected["sigma"]


@pytest.mark.parametrize("position", [0, 9, 12, 16, 40, 400, -1])
def test_damaged_files(position):
    """Any changed byte is noticed."""
    posterior, _, _ = make_posterior()
    data = bytearray(posterior.to_bytes())
    data[position] ^= 4
    with pytest.raises(PackedError):
        Posterior.from_bytes(bytes(data))


@pytest.mark.parametrize("kept", [0, 5, 17, 300, -1])
def test_truncated_files(kept):
    """A file cut short is refused."""
    posterior, _, _ = make_posterior()
    with pytest.raises(PackedError):
        Posterior.from_bytes(posterior.to_bytes()[:kept])


def test_parts_that_do_not_belong_together():
    """Trees that refer to columns the model lacks are refused despite valid checksums."""
    header, blocks, statistics = read_parts(make_posterior()[0].to_bytes())[:3]
    with pytest.raises(PackedError, match="header"):
        Posterior.from_bytes(write_model(b"BARTHEAD" + header[8:40], blocks, statistics))
    stranger = [[pack(draws)] for draws in make_draws()]
    stranger[1] = [pack(make_draws(num_trees=3)[0])]
    with pytest.raises(PackedError, match="number of trees"):
        Posterior.from_bytes(write_model(header, stranger, statistics))


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, np.inf])
def test_sigma_that_makes_no_sense(sigma):
    """A noise that is not a positive number is refused."""
    draws = make_draws()[0]
    draws.sigma[3] = sigma
    with pytest.raises(PackedError, match="sigma"):
        Posterior.from_blocks(make_problem()[0].header(), [[pack(draws)]])


@pytest.mark.parametrize(
    "constants", [{}, {"offset": 1.0, "step": float("nan")}, {"offset": "a", "step": 1}, None]
)
def test_headers_that_make_no_sense(constants):
    """A header with a valid checksum and invalid content is refused."""
    header = Header.from_bytes(make_problem()[0].header())
    with pytest.raises(PackedError, match="header"):
        Header.from_bytes(dataclasses.replace(header, constants=constants).to_bytes())


def test_the_smallest_noise():
    """Predictive intervals of an almost noiseless fit are finite and end near the draws."""
    chains = make_draws()
    for draws in chains:
        draws.sigma[:] = 1e-300
    posterior = Posterior.from_blocks(make_problem()[0].header(), [[pack(draws)] for draws in chains])
    prediction, f = posterior.predict(ROWS, 0.8, "predictive"), posterior.sample(ROWS).reshape(-1, 3)
    assert np.all(
        (f.min(axis=0) <= prediction.lower)
        & (prediction.upper <= f.max(axis=0))
        & (prediction.lower < prediction.upper)
    )


def test_warnings_travel_with_the_answer():
    """Predictions carry the warnings about unusual rows."""
    posterior, _, _ = make_posterior()
    warnings = posterior.predict(ROWS | {"y": [0, 0, 0]}).warnings
    assert any("'z'" in warning for warning in warnings)
    assert any("x1: missing in 1 row" in warning for warning in warnings)
    assert any("not used by the model: y" in warning for warning in warnings)


@pytest.mark.parametrize("num_draws", [0, 13, -1, 2.5, True])
def test_bad_number_of_draws(num_draws):
    """The number of pinned draws must be between one and the number available."""
    posterior, X, _ = make_posterior()
    with pytest.raises(SettingsError, match="from 1 to 12"):
        posterior.predict(X, num_draws=num_draws)


def test_zero_rows_and_no_level():
    """No rows give no answers; without a level there are no intervals."""
    posterior, X, _ = make_posterior()
    assert posterior.predict({name: [] for name in ROWS}, interval="predictive").lower.shape == (0,)
    assert posterior.predict(X, level=None).intervals == []


def test_several_levels():
    """Each level has its interval, wider for a higher level."""
    posterior, X, _ = make_posterior()
    prediction = posterior.predict(X, level=[0.5, 0.95])
    assert prediction.lower.shape == (2, 80)
    assert np.all(prediction.lower[1] <= prediction.lower[0])
    assert [interval.level for interval in prediction.intervals] == [0.5, 0.95]


def test_rows_that_do_not_fit():
    """Invalid rows raise before any prediction."""
    posterior, _, _ = make_posterior()
    with pytest.raises(DataError, match="'x1', row 2"):
        posterior.predict(ROWS | {"x1": [1.0, "many", 2.0]})


def test_inclusion_proportions():
    """Inclusion proportions are the features' shares of all rules, indicators combined; they sum to one."""
    posterior, _, chains = make_posterior()
    inclusion = posterior.inclusion()
    assert inclusion.names == ["x1", "x2", "x3", "c"]
    assert inclusion.mean.sum() == pytest.approx(1)
    shares = []
    for draws in chains:
        for d in range(draws.num_draws):
            used = draws[d : d + 1].feature
            used = used[used >= 0]
            shares.append([np.mean(used == j) for j in range(3)] + [np.mean(used >= 3)])
    np.testing.assert_allclose(inclusion.mean, np.mean(shares, axis=0))
    np.testing.assert_allclose(inclusion.lower, np.quantile(shares, 0.05, axis=0))
    assert "x1" in str(inclusion)


def test_usage_by_rows():
    """By rows, each rule counts as often as rows reach it: walked here one by one."""
    posterior, X, chains = make_posterior()
    usage = posterior.inclusion(by="rows", X=X)
    codes = posterior.law.draws.coded_to_average(X).codes
    shares = []
    for draws in chains:
        for d in range(draws.num_draws):
            tree, count = draws[d : d + 1], np.zeros(4)
            for start in tree.tree_start[:-1] - tree.tree_start[0]:
                _count(tree, int(start), np.arange(codes.shape[1]), codes, count)
            shares.append(count / count.sum())
    np.testing.assert_allclose(usage.mean, np.mean(shares, axis=0))
    np.testing.assert_allclose(usage.upper, np.quantile(shares, 0.95, axis=0))
    assert np.abs(usage.mean - posterior.inclusion().mean).max() > 0.001
    assert posterior.inclusion(by="rows").mean.sum() == pytest.approx(1)
    with pytest.raises(SettingsError, match="rules or rows"):
        posterior.inclusion(by="leaves")


def _count(draws, node, rows, codes, count):
    """Count the rows at the splits from `node` on; return the node after its subtree."""
    feature = draws.feature[node]
    if feature < 0:
        return node + 1
    count[min(feature, 3)] += len(rows)
    code = codes[feature, rows]
    left = np.where(code == 255, draws.missing_left[node] > 0, code <= draws.cut[node])
    after = _count(draws, node + 1, rows[left], codes, count)
    return _count(draws, after, rows[~left], codes, count)


def test_summary_of_a_posterior():
    """A summary has reference rows, moves, leaves and one of three verdicts."""
    posterior, _, chains = make_posterior()
    summary = posterior.summary()
    assert summary.verdict in {"converged", "approximate", "not_converged"}
    assert summary.f["rows"] == 80
    assert summary.moves["grow"]["acceptance"] == 0.25
    assert summary.leaves["mean"] == pytest.approx(np.mean([draws.leaf_counts.mean() for draws in chains]))
    assert json.loads(json.dumps(summary.to_json(), allow_nan=False)) == summary.to_json()


def test_size():
    """`nbytes` is the size of the arrays held."""
    posterior, _, _ = make_posterior()
    assert len(posterior.to_bytes()) < posterior.nbytes < 100_000
    assert "2 chains of 12 draws of 7 trees" in repr(posterior)
    alone = make_posterior(num_draws=(1,))[0]
    assert "1 chain of 1 draw of 7 trees" in repr(alone)
    assert ": 1 chain of " in str(alone.summary())


def test_a_spare_thread_changes_nothing():
    """Blocks evaluated ahead in a spare thread give the same figures, and a stop is noticed there."""
    posterior, _, _ = make_posterior()
    coded = Coded(random_codes(5, 7, 3000), [])
    flag = interrupt.StopFlag()
    alone = posterior.predict(coded, 0.9)
    with ThreadPoolExecutor(1) as spare, interrupt.by(flag, spare):
        helped = posterior.predict(coded, 0.9)
        flag.set()
        with pytest.raises(interrupt.InterruptedWorkError):
            posterior.predict(coded, 0.9)
    assert np.array_equal(alone.mean, helped.mean)
    assert np.array_equal(alone.intervals[0].lower, helped.intervals[0].lower)
