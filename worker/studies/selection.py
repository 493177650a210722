"""A part of a study "selection": shares of the split rules for the outcomes, or for some permutations."""

from collections.abc import Callable, Mapping

from app.store.tables import Json
from sampler import AnyChain
from sampler.host.data import Rows
from sampler.host.settings import every_feature
from sampler.host.studies import NullFits
from worker.fits.fit_spec import Spec


def settings_of(request: Json, spec: Spec, _number: int = 0) -> Json:
    """Return the settings of the fits: few trees, and those of the model that describe its data."""
    chosen = {name: request[name] for name in ("num_trees", "num_burnin", "num_draws")}
    return chosen | {"thin": 1, "method": "bart", "family": spec.settings.get("family") or "gaussian"}


def run(request: Json, spec: Spec, rows: Rows, number: int, tell: Callable[[int], None]) -> Json:
    """Fit the outcomes themselves (number 0) or some permutations of them; return the shares.

    Of several outcomes they are the first one's and, as ``others``, those of each further one. `tell` is
    called with the number of finished fits every moment; what it raises ends the fits.
    """
    settings = settings_of(request, spec) | spec.features
    fits = NullFits(rows, request["num_chains"], request["seed"], settings)
    names: list[str] = every_feature(spec.settings.get("features")) or spec.learnt

    def in_order(shares: Mapping[str, Mapping[str, float]]) -> dict[str, list[float]]:
        return {each: [of_one.get(name, 0.0) for name in names] for each, of_one in shares.items()}

    if number == 0:
        own = in_order(fits.shares(report=lambda chain, _: tell(chain)))
        return {"names": names, "share": own.pop(spec.target)} | ({"others": own} if own else {})
    found, first = [], (number - 1) * request["at_once"]
    for permutation in range(first, min(first + request["at_once"], request["permutations"])):

        def report(_index: int, _chain: AnyChain, done: int = permutation - first) -> None:
            tell(done)

        found.append(in_order(fits.shares(permutation, report)))
    null = {each: [shares[each] for shares in found] for each in spec.outcomes}
    return {"null": null.pop(spec.target)} | ({"others": null} if null else {})
