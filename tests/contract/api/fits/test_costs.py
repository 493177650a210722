"""Estimated costs: a fit that exceeds every worker's memory is refused at once, with the formula."""

import pytest

from app.store.engine import session_scope
from app.store.queue import workers
from app.store.tables import Worker
from sampler import Settings
from sampler.costs import memory
from sampler.costs.durations import MOVE_SECONDS, SOFT_ROW, chain_seconds, looks_seconds, prepare_seconds
from sampler.costs.memory import FORMULA, MIB, estimate
from sampler.methods import METHODS
from sampler.moves import MOVE_SETS
from tests.support.api_calls import post_csv, problem, table
from tests.support.databases import only
from tests.support.models.fitted_models import SMALL, fitted
from tests.support.processes.api_server import serving

DEFAULT = Settings.resolve().to_json()


@pytest.fixture
def settings(settings):
    """Return settings of a service whose workers have hardly any spare memory."""
    return settings.model_copy(update={"fit_memory_bytes": 500 * MIB})


def test_too_many_draws_for_a_worker(client):
    """The 422 gives needed memory, available memory and formula; no model is created."""
    body = {"dataset_id": post_csv(client, table()).json()["id"], "target": "y"}

    detail = problem(client.post("/models", json=body | {"num_draws": 100_000}), 422, "fit-too-large")[
        "detail"
    ]

    assert FORMULA in detail
    assert "of a worker that has 500 MiB" in detail
    assert "30 rows, 4 columns" in detail
    assert "8 chains of 100000 draws" in detail
    assert client.get("/models").json()["items"] == []
    assert client.post("/models", json=body | SMALL).status_code == 202


def test_an_extension_is_checked_as_a_whole(client, settings):
    """A model can't be extended to a length whose finish would exceed the memory."""
    model = fitted(client, settings)

    refused = client.post(f"/models/{model['id']}/extend", json={"num_draws": 50_000})

    assert FORMULA in problem(refused, 422, "fit-too-large")["detail"]
    assert client.get(f"/models/{model['id']}").json()["state"] == "succeeded"


def test_noise_that_the_data_choose_is_counted_as_what_they_mostly_choose():
    """From 400 rows on noise by row, and the short fits; with fewer, and beside groups, constant noise."""
    auto, forest, constant = (DEFAULT | {"noise": noise} for noise in ("auto", "forest", "constant"))
    assert (
        chain_seconds(auto, 400, 5) == chain_seconds(forest, 400, 5) > 1.3 * chain_seconds(constant, 400, 5)
    )
    assert (
        0 < prepare_seconds(auto, 1000, 5) - prepare_seconds(forest, 1000, 5) < chain_seconds(auto, 1000, 5)
    )
    for rows, more in ((399, {}), (400, {"groups": ["site"]}), (400, {"treatment": "z"})):
        assert chain_seconds(auto | more, rows, 5) == chain_seconds(constant | more, rows, 5)
        assert prepare_seconds(auto | more, rows, 5) == prepare_seconds(constant | more, rows, 5)


def test_effects_cost_more(client):
    """A treatment takes trees and a propensity, and each of several arms as many."""

    def costs(**more):
        own = DEFAULT | more
        return chain_seconds(own, 500, 10), estimate(own, 500, 10).bytes, estimate(own, 500, 10).seconds

    kinds = [
        {"noise": "constant"},  # as it is beside a treatment
        {"treatment": "z", "assignment": "random"},
        {"treatment": "z"},
        {"treatment": "z", "num_arms": 3},
    ]
    none, random, two, three = (costs(**more) for more in kinds)
    assert none[0] < random[0] == two[0] < three[0] / 1.3
    assert none[1] < two[1] < three[1]
    assert random[2] < two[2] < three[2]
    text = "a,b,z,y\n" + "".join(f"{k % 7},{k % 5},{'uvw'[k * k % 3 % 3]}{k % 2},{k}\n" for k in range(90))
    dataset = post_csv(client, text).json()["id"]
    answer = client.post("/models/estimate", json={"dataset_id": dataset, "target": "y", "treatment": "z"})
    assert answer.json()["settings"]["num_arms"] == 4, answer.text


def test_the_formula_said_is_the_formula_used():
    """Evaluating the formula in the error gives the estimate."""
    rows, columns, trees, chains, draws = 100_000, 30, 200, 8, 125
    process = FORMULA.partition(" MiB")[0]
    assert process == str(memory.PROCESS // MIB)
    assert f"{memory.CELL} x (columns + 1) + {memory.ROW} + trees" in FORMULA
    sampling = rows * (memory.CELL * (columns + 1) + memory.ROW + trees + memory.NOISE_ROW)
    sampling += memory.HELD_CELL * min(rows * (columns + 1), memory.HELD_CELLS)
    finishing = chains * draws * (memory.DRAW + memory.TREE * trees)
    assert f"{memory.HELD_CELL} x cells" in FORMULA
    assert f"{memory.NOISE_ROW} more a row where the data choose the noise" in FORMULA

    assert estimate(DEFAULT, rows, columns).bytes == memory.PROCESS + max(sampling, finishing)


def test_a_search_takes_what_its_chains_draw(client):
    """The memory estimate of a search counts its topologies' draws, as set by the search's settings."""
    least, most = (
        estimate(Settings.resolve(method="dcc-tree", search={"draws": draws}).to_json(), 1000, 10).bytes
        for draws in (5000, 10_000)
    )
    assert most - least == 8 * 5000 * memory.SEARCHED * 11
    body = {"dataset_id": post_csv(client, table()).json()["id"], "target": "y", "method": "dcc-tree"}
    greedy = body | {"search": {"chains": 256, "draws": 10_000}}
    assert FORMULA in problem(client.post("/models", json=greedy), 422, "fit-too-large")["detail"]


def test_more_of_anything_never_takes_less():
    """Memory and time grow with rows, columns, trees, chains, draws and a holdout; slots save time."""
    least = estimate(DEFAULT, 1000, 10)
    for name in ("num_trees", "num_chains", "num_draws", "num_burnin", "thin"):
        more = estimate(DEFAULT | {name: 10 * DEFAULT[name]}, 1000, 10)
        assert more.bytes >= least.bytes
        assert more.seconds > least.seconds
    for more in (estimate(DEFAULT, 10_000, 10), estimate(DEFAULT, 1000, 100)):
        assert more.bytes >= least.bytes
        assert more.seconds > least.seconds
    large = estimate(DEFAULT, 10**6, 10)
    assert estimate(DEFAULT | {"holdout": 0.2}, 10**6, 10).bytes > large.bytes
    assert estimate(DEFAULT, 10**6, 10, slots=4).seconds < large.seconds / 3


def test_every_way_to_sample_has_a_time():
    """Every method and move set has a time estimate, larger for those that do more work per row."""
    resolved = [Settings.resolve(moves=name) for name in MOVE_SETS]
    for name, method in METHODS.items():
        for family in method.families:
            resolved += [
                Settings.resolve(method=name, family=family, moves=moves)
                for moves in method.move_sets
                if method.knows(family, method.move_sets[moves])
            ]
    for settings in resolved:
        untimed = set(settings.moves) - set(MOVE_SECONDS) - {"pg", "optimal", "prior"}
        timed = settings.search or settings.method in SOFT_ROW or not untimed
        assert timed, f"say in sampler/costs/durations.py how long {settings.method}, {untimed} take"
        assert 0 < chain_seconds(settings.to_json(), 1000, 9) < chain_seconds(settings.to_json(), 10_000, 9)
    by_moves = [
        chain_seconds(Settings.resolve(moves=name).to_json(), 10_000, 9) for name in ("growprune", "pg")
    ]
    assert by_moves[0] < by_moves[1]


def test_a_tree_on_many_rows_is_no_matter_of_seconds():
    """Estimates for single trees are within a factor of 1.5 of measured times (Friedman's function)."""
    measured = {  # processor seconds of one default chain, by rows and columns
        ("bcart", 1_000, 20): 0.75,
        ("bcart", 10_000, 20): 2.9,
        ("bcart", 10_000, 5): 0.6,
        ("bcart", 100_000, 5): 2.9,
        ("bcart", 100_000, 10): 7.0,
        ("bcart", 100_000, 20): 22.5,
        ("bcart-mean-variance", 1_000, 5): 0.22,
        ("bcart-mean-variance", 10_000, 20): 2.5,
        ("bcart-mean-variance", 100_000, 5): 2.6,
        ("bcart-mean-variance", 100_000, 20): 23.4,
        ("bcart-wu", 1_000, 20): 4.7,
        ("bcart-wu", 10_000, 5): 16.5,
        ("bcart-wu", 10_000, 20): 34.0,
        ("bcart-wu", 100_000, 5): 112.0,
    }
    for (method, rows, columns), seconds in measured.items():
        guessed = chain_seconds(Settings.resolve(method=method).to_json(), rows, columns)
        assert 1 / 1.5 < guessed / seconds < 1.5, (method, rows, columns, guessed, seconds)


def test_filters_and_soft_trees_take_longer_by_rows_and_columns():
    """Estimates are within a factor of 1.5 of the times in docs/benchmarks.md#times-of-fits."""
    measured = {  # seconds on an idle core, by rows, columns and particles (None for a default chain)
        ("smc", 1_000, 5, 300): 0.77,
        ("smc", 1_000, 10, 300): 1.04,
        ("smc", 1_000, 20, 300): 2.96,
        ("smc", 10_000, 10, 100): 3.54,
        ("smc", 10_000, 20, 50): 4.8,
        ("smc", 100_000, 10, 20): 6.2,
        ("rjhmc-df", 1_000, 10, None): 7.4,
        ("rjhmc-df", 10_000, 10, None): 100.0,
        ("rjhmc-df", 100_000, 10, None): 900.0,
        ("rjhmc-dfi", 1_000, 5, None): 12.2,
        ("rjhmc-dfi", 1_000, 10, None): 9.3,
        ("rjhmc-dfi", 1_000, 20, None): 9.7,
        ("rjhmc-dfi", 10_000, 10, None): 197.0,
        ("rjhmc-dfi", 100_000, 5, None): 2_010.0,
    }
    for (method, rows, columns, particles), seconds in measured.items():
        settings = Settings.resolve(method=method, **({"num_draws": particles} if particles else {}))
        guessed = chain_seconds(settings.to_json(), rows, columns)
        assert 1 / 1.5 < guessed / seconds < 1.5, (method, rows, columns, guessed, seconds)


def test_searches_take_longer_by_rows():
    """Estimates of `dcc-tree` are within a factor of 1.5 of the times in docs/benchmarks.md#times-of-fits."""
    search = {"iterations": 20, "chains": 4}
    for (rows, columns), seconds in {(1_000, 5): 19.6, (1_000, 10): 26.2, (3_000, 5): 54.8}.items():
        settings = Settings.resolve(method="dcc-tree", search=search)
        guessed = chain_seconds(settings.to_json(), rows, columns)
        assert 1 / 1.5 < guessed / seconds < 1.5, (rows, columns, guessed, seconds)


def test_looks_at_stop_rules_take_their_time():
    """The estimate includes checks of stop rules: 8.8 s measured for a small fit whose rules never hold."""
    stop = {"first_look": 20, "max_draws": 320}  # checked 8 times

    assert 8.8 / 1.5 < looks_seconds(stop, 4, 1) < 8.8 * 1.5
    assert looks_seconds(stop, 4, 4) < looks_seconds(stop, 4, 1) / 2


def test_particles_take_memory_for_their_rows():
    """The estimate of a particle filter includes the rows that each particle lists."""
    one = Settings.resolve(method="bcart", num_draws=1000).to_json()
    filtered = Settings.resolve(method="smc", num_draws=1000).to_json()

    more = estimate(filtered, 10_000, 10).bytes - estimate(one, 10_000, 10).bytes

    assert more >= 1000 * 8 * 10_000
    assert f"draws x ({memory.PARTICLE} + {memory.PARTICLE_ROW} x rows)" in FORMULA


@only("sqlite")
def test_levels_count_as_columns(client, settings):
    """A category is estimated as a column for each of its levels."""
    lines = ["y,size,city", *(f"{row},{row % 7},c{row % 40}" for row in range(200))]
    dataset = post_csv(client, "\n".join(lines)).json()["id"]
    with serving(settings.model_copy(update={"fit_memory_bytes": 1})) as address:
        body = {"dataset_id": dataset, "target": "y"}
        detail = problem(client.post(f"{address}/models", json=body), 422, "fit-too-large")["detail"]

    assert "200 rows, 41 columns" in detail


def test_a_fit_is_estimated_before_it_starts(client, database, settings):
    """An estimate has time, memory, slots and all settings resolved, and starts nothing."""
    dataset = post_csv(client, table(60)).json()["id"]
    body = {"dataset_id": dataset, "target": "y", "num_draws": 250, "holdout": 0.2}
    rules = {"stop": {"verdict": "converged"}}

    plain = client.post("/models/estimate", json=body).json()
    ruled = client.post("/models/estimate", json=body | rules).json()

    assert client.get("/models").json()["items"] == []
    assert plain["slots"] == 0
    assert plain["fits"] is True
    assert plain["memory_limit_bytes"] == 500 * MIB
    assert plain["seconds"] == plain["most_seconds"] == ruled["seconds"] < ruled["most_seconds"]
    assert plain["memory_bytes"] == estimate(plain["settings"], 60, 34).bytes
    limited = client.post("/models/estimate", json=body | {"stop": {"max_seconds": 1e-3}}).json()
    assert limited["most_seconds"] < ruled["most_seconds"]
    with session_scope(database.engine) as session:
        workers.register(session, Worker(id="w", host="h", pid=1, slots=4, beat_at=0.0, phase="ready"))
    beating = client.post("/models/estimate", json=body).json()
    assert beating["slots"] == 4
    assert beating["seconds"] < plain["seconds"]
    model = client.post("/models", json=body).json()
    assert model["settings"] == plain["settings"]
    assert model["warnings"] == plain["warnings"]


@only("sqlite")
def test_a_fit_until_a_verdict_has_more_trees(client):
    """Chains of more trees agree sooner: of numbers, with rows enough, where the request leaves it open."""
    dataset = post_csv(client, table(1_300)).json()["id"]
    verdict = {"verdict": "approximate"}

    def trees(**options):
        body = {"dataset_id": dataset, "target": "y", "stop": verdict} | options
        return client.post("/models/estimate", json=body).json()["settings"]["num_trees"]

    assert trees() == trees(stop=None) == 800
    assert [
        trees(holdout=0.1), trees(num_trees=200), trees(stop=None, thin=8), trees(stop={"max_rhat": 1.1}),
        trees(noise="forest"), trees(prior={"leaf_sd": 0.1}), trees(method="bcart"),
    ] == [200, 200, 200, 200, 200, 200, 1]  # fmt: skip


def test_the_bound_of_a_default_fit_gives_way_to_memory(client):
    """A fit that states no length isn't refused for its bound: a small worker has a smaller one."""
    body = {"dataset_id": post_csv(client, table()).json()["id"], "target": "y"}
    answer = client.post("/models/estimate", json=body).json()
    assert answer["fits"]
    assert answer["settings"]["stop"]["max_draws"] == 280, "of 420 draws the copies of f have no room"
    assert answer["memory_bytes"] <= 500 * MIB
    assert client.post("/models", json=body).status_code == 202


@only("sqlite")
def test_a_fit_of_weeks_is_refused(client, settings):
    """A fit is refused for its estimated time, as its estimate says; with a time limit it is accepted."""
    body = {"dataset_id": post_csv(client, table()).json()["id"], "target": "y"}
    weeks = body | {"num_chains": 64, "num_burnin": 1_000_000, "thin": 100_000, "num_draws": 1000}

    roomy = {"fit_memory_bytes": 2**40}

    with serving(settings.model_copy(update=roomy)) as address:
        detail = problem(client.post(f"{address}/models", json=weeks), 422, "fit-too-long")["detail"]
        estimated = client.post(f"{address}/models/estimate", json=weeks).json()
        short = client.post(f"{address}/models/estimate", json=body).json()
        assert client.get(f"{address}/models").json()["items"] == []
        limited = weeks | {"stop": {"max_seconds": 60}}
        assert client.post(f"{address}/models", json=limited).status_code == 202
    with serving(settings.model_copy(update=roomy | {"fit_seconds": 0})) as address:
        unbounded = client.post(f"{address}/models/estimate", json=weeks).json()

    assert "BARTSERVE_FIT_SECONDS" in detail
    assert "days" in detail
    assert estimated["fits"] is False
    assert estimated["seconds_limit"] == 2 * 86_400 < estimated["most_seconds"]
    assert short["fits"] is unbounded["fits"] is True
    assert unbounded["seconds_limit"] is None


def test_an_estimate_refuses_what_a_fit_refuses_but_says_what_does_not_fit(client):
    """An estimate gives a fit's 422 for the same body, but reports too much memory as a result."""
    body = {"dataset_id": post_csv(client, table()).json()["id"], "target": "y"}
    for wrong in ({"target": "none"}, {"num_trees": 0}, {"prior": {"k": -1}}, {"extra": 1}):
        refused = problem(client.post("/models", json=body | wrong), 422)
        answer = problem(client.post("/models/estimate", json=body | wrong), 422)
        assert (answer["detail"], answer["errors"]) == (refused["detail"], refused["errors"])
    problem(client.post("/models/estimate", json=body | {"dataset_id": "ds_none"}), 404)

    answer = client.post("/models/estimate", json=body | {"num_draws": 100_000}).json()

    assert answer["fits"] is False
    assert answer["memory_bytes"] > answer["memory_limit_bytes"]
