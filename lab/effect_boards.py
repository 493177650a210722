"""Measure effects on public boards whose true effects are known, beside peers, and coverage by the rows.

`python -m lab effects --boards` starts it, and with --scale prints coverage of groups by the number of rows.
"""

import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from scipy.stats import norm

from lab.effect_tables import ROWS, SURFACES, board_table, lacking
from lab.other_environments import answer_in, python
from sampler import fit
from sampler.posterior.explanations.contrasts import quarters
from sampler.training import EffectPrior

FIRST = 100  # replication of IHDP
BOARDS = (*SURFACES, *"12345")  # surfaces of IHDP and settings of ACIC 2016; 6 to 10 are kept for judging
LEVEL = 0.9
SCRIPT = Path(__file__).with_name("effect_peers.py")
HEADS = ("pehe", "new", "ratio", "bias", "rmse", "held", "width", "quarters", "width", "rows", "width", "new")
GROUPS = 17  # of a simulated table: quarters of three features, and levels of two
SCALED_TREES = 50


def board_rows(board, number):
    """Return the rows that a method sees, and new ones."""
    whole = board_table(board, FIRST + number if board in SURFACES else number)
    if board not in SURFACES:
        return whole.take(slice(None, ROWS["acic"])), whole.take(slice(ROWS["acic"], None))
    order = np.random.default_rng([FIRST, number]).permutation(len(whole.y))
    return whole.take(order[: ROWS["ihdp"]]), whole.take(order[ROWS["ihdp"] :])


def coded(table, new):
    """Return features of rows and of new ones as numbers, by indicators of levels, standardised."""
    both = pd.get_dummies(pd.concat([table.X, new.X]), drop_first=True, dtype=float).to_numpy(float)
    both = (both - both.mean(axis=0)) / np.where(both.std(axis=0) > 0, both.std(axis=0), 1.0)
    return both[: len(table.y)], both[len(table.y) :]


def ours(table, new, seed):
    """Return draws of effects of rows, and mean and ends of those of new ones."""
    posterior = fit(table.X, table.y, treatment=table.treated, seed=seed, progress=False)
    law, answer = posterior.law, posterior.effects(new.X, level=LEVEL)
    draws = law.effect_of(posterior.training_rows(), law.alike(None))
    return {"draws": draws, "new": (answer.mean, answer.lower, answer.upper)}


def deep(table, new, seed):
    """Return those of effects whose trees are as deep as the mean's, before any data."""
    of = EffectPrior.of
    with patch.object(EffectPrior, "of", lambda *given: replace(of(*given), alpha=0.95, beta=2.0)):
        return ours(table, new, seed)


def regression(table, new, _seed):
    """Return the effect of a regression without products, whose errors have no common variance (HC1)."""
    X, _ = coded(table, new)
    X = np.column_stack([table.treated, np.ones(len(X)), X])
    inverse = np.linalg.pinv(X.T @ X)
    beta = inverse @ X.T @ table.y
    scores = X * (table.y - X @ beta)[:, None]
    rows, rank = len(X), np.linalg.matrix_rank(X)
    sd = np.sqrt((inverse @ scores.T @ scores @ inverse)[0, 0] * rows / (rows - rank))
    ends = beta[0] + norm.ppf((1 + LEVEL) / 2) * sd * np.array([0.0, -1.0, 1.0])
    of_rows, of_new = (np.repeat(ends[:, None], len(each.y), axis=1) for each in (table, new))
    return {"average": ends, "rows": of_rows, "new": of_new}


def peer(name):
    """Return a method that runs in the environment of the boards."""

    def run(table, new, seed):
        X, more = coded(table, new)
        task = {"X": X, "treated": table.treated, "y": table.y, "new": more, "level": LEVEL, "seed": seed}
        own = answer_in("effects", SCRIPT, name, task)
        rows = len(table.y)
        if "draws" in own:
            draws = own["draws"]
            return {"draws": draws[:, :rows], "new": summed_up(draws[:, rows:])}
        both = [np.ravel(own[each]) for each in ("mean", "lower", "upper") if each in own]
        average = own.get("average", np.array([both[0][:rows].mean()]))
        return {"average": average, "rows": [b[:rows] for b in both], "new": [b[rows:] for b in both]}

    return run


METHODS = {
    "bcf": ours,
    "deep": deep,
    "stochtree": peer("stochtree"),
    "forest": peer("forest"),
    "two models": peer("two models"),
    "regression": regression,
}


def summed_up(draws):
    """Return the mean of draws [draw, ..] and the ends of their interval."""
    return np.stack([draws.mean(axis=0), *np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)])


def inside(ends, truth):
    """Return how often intervals, mean, lower and upper, hold the truth; None where there are none."""
    return float(np.mean((ends[1] <= truth) & (truth <= ends[2]))) if len(ends) > 1 else None


def width(ends):
    """Return how wide intervals are; None where there are none."""
    return float(np.mean(ends[2] - ends[1])) if len(ends) > 1 else None


def judged(found, table, new):
    """Return the figures of what a method found.

    The error of rows (PEHE), in sample and of new ones; of the average its error, whether it is covered, and
    width; of quarters how often they are covered, and width; the same of rows; how often new rows are.
    """
    parts = []
    if "draws" in found:
        draws = found["draws"]
        found = found | {"rows": summed_up(draws), "average": summed_up(draws.mean(axis=1))}
        values = table.X[table.by].to_numpy(float)
        quarter = np.searchsorted(quarters(values), values)
        own = [quarter == k for k in np.unique(quarter)]
        parts = [(summed_up(draws[:, part].mean(axis=1)), table.effect[part].mean()) for part in own]
    rows, average, more = found["rows"], found["average"], found["new"]
    truth = table.effect.mean()
    return [
        float(np.sqrt(np.mean((rows[0] - table.effect) ** 2))),
        float(np.sqrt(np.mean((more[0] - new.effect) ** 2))),
        float(average[0] - truth),
        inside(average, truth),
        width(average),
        float(np.mean([inside(*part) for part in parts])) if parts else None,
        float(np.mean([width(ends) for ends, _ in parts])) if parts else None,
        inside(rows, table.effect),
        width(rows),
        inside(more, new.effect),
    ]


def scaled(rows, seed, simulate):
    """Return coverage of the groups of a simulated table, the average's error, whether covered, its sd."""
    features, treated, y, effect = simulate(rows, nonlinear=True, varying=True, seed=seed)
    posterior = fit(features, y, treatment=treated, num_trees=SCALED_TREES, seed=seed, progress=False)
    law = posterior.law
    chosen, training = law.alike(None), posterior.training_rows()
    parts = []
    for name, values in features.items():
        each = np.asarray(values)
        own = np.searchsorted(quarters(each), each) if name in ("x1", "x2", "x3") else each
        parts += [own == level for level in np.unique(own)]
    assert len(parts) == GROUPS
    sums = np.zeros((len(parts) + 1, len(chosen)))
    for start in range(0, rows, 2000):  # draws of all rows at once would take gigabytes
        some = slice(start, start + 2000)
        effects = law.effect_of(training.part(some), chosen)
        sums[-1] += effects.sum(axis=1)
        sums[:-1] += [effects[:, part[some]].sum(axis=1) for part in parts]
    held = [
        inside(summed_up(s / part.sum()), effect[part].mean()) for s, part in zip(sums, parts, strict=False)
    ]
    average = sums[-1] / rows
    error = float(average.mean() - effect.mean())
    return [float(np.mean(held)), error, inside(summed_up(average), effect.mean()), float(average.std())]


def kept_figures(file, tasks, run, seconds=np.inf):
    """Return figures of tasks as the file has them or run now, until so many seconds of the processor."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    known = {tuple(key): found for key, found in map(json.loads, file.read_text().splitlines())}
    began = sum(os.times()[:4])
    for task in tasks:
        if task in known:
            continue
        if sum(os.times()[:4]) - began > seconds:
            break
        known[task] = run(*task)
        with file.open("a") as lines:
            print(json.dumps([task, known[task]]), file=lines)
    return {task: known[task] for task in tasks if task in known}


def print_boards(options):
    """Print the figures of each board and method, means over the tables measured."""

    def run(board, method, number):
        table, new = board_rows(board, number)
        start = sum(os.times()[:4])
        found = METHODS[method](table, new, number)
        return [*judged(found, table, new), sum(os.times()[:4]) - start]

    methods = {name: METHODS[name] for name in options.board_methods or METHODS}
    if not python("effects").exists():
        print("stochtree, forest and two models are left out: run make effectboards")
        methods = {name: run for name, run in methods.items() if name in ("bcf", "deep", "regression")}
    boards = options.boards or BOARDS
    for board in boards:
        if lacking(board):
            print(f"{board} is left out: {lacking(board)}")
    boards = [board for board in boards if not lacking(board)]
    tasks = [(b, m, n) for n, b, m in product(range(options.tables), boards, methods)]
    known = kept_figures(options.keep, tasks, run, options.seconds)
    print(f"board method      tables {''.join(f'{head:>9}' for head in HEADS)}  seconds")
    for board, method in product(boards, methods):
        own = {n: known[board, method, n] for n in range(options.tables) if (board, method, n) in known}
        if not own:
            continue
        beside = [(own[n][0], known[board, "bcf", n][0]) for n in own if (board, "bcf", n) in known]
        pehe, new, bias, *others, seconds = [_mean(each) for each in zip(*own.values(), strict=True)]
        ratio = np.divide(*np.sum(beside, axis=0)) if beside else np.nan  # of errors at the same tables
        rmse = np.sqrt(np.mean([figures[2] ** 2 for figures in own.values()]))
        shown = "".join(f"{each:9.2f}" for each in (pehe, new, ratio, bias, rmse, *others))
        print(f"{board:5} {method:11} {len(own):6} {shown} {seconds:8.0f}")


def print_scale(options, simulate):
    """Print coverage of groups and averages by the number of rows."""
    tasks = [(rows, seed) for seed, rows in product(range(options.tables), options.rows)]
    known = kept_figures(
        options.keep,
        [("scale", *task) for task in tasks],
        lambda _, *task: scaled(*task, simulate),
        options.seconds,
    )
    print("rows   tables groups held | average: bias  held  sd")
    for rows in options.rows:
        own = [known["scale", rows, seed] for seed in range(options.tables) if ("scale", rows, seed) in known]
        if own:
            held, error, covered, sd = np.mean(own, axis=0)
            print(f"{rows:6} {len(own):6} {held:11.2f} | {error:+12.3f} {covered:5.2f} {sd:.3f}")


def _mean(values):
    known = [each for each in values if each is not None]
    return float(np.mean(known)) if known else np.nan
