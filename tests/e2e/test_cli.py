"""The command line against a running service."""

import csv
import io
import json
import re
import shlex

import pytest

from sampler import load
from tests.support.command_line import CARS, FAST, Run, bartserve
from tests.support.forecasts import shops
from tests.support.processes.embedded_service import Up
from tests.support.workbooks import letters_of

CAR = [
    "cylinders=4",
    "displacement=97",
    "horsepower=75",
    "weight=2171",
    "acceleration=16",
    "year=75",
    "origin=3",
]


@pytest.fixture(scope="module")
def run(service: Up, tmp_path_factory):
    """Run documented command lines on the service, with its fitted model `cars`."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "cars.csv").write_bytes(CARS.read_bytes())
    with CARS.open() as file, (folder / "new.csv").open("w", newline="") as new:
        rows = [{k: v for k, v in row.items() if k not in {"mpg", "name"}} for row in csv.DictReader(file)]
        writer = csv.DictWriter(new, rows[0])
        writer.writeheader()
        writer.writerows(rows[:30])

    def ask(line: str) -> Run:
        words = shlex.split(line)
        assert words.pop(0) == "bartserve"
        return bartserve(*words, cwd=folder, BARTSERVE_URL=service.address)

    ask.folder = folder
    fitted = ask(f"bartserve fit cars.csv --target mpg --holdout 0.2 --seed 1 {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr + fitted.stdout
    ask.fitted = fitted.stdout
    return ask


@pytest.mark.slow
def test_a_plan_is_filled_in_and_forecast(run):
    """A forecaster is fitted, its plan's template written, totals of lead times go to a file."""
    table, y = shops(2)
    rows = [[*table, "units"], *zip(*table.values(), y.round(2).tolist(), strict=True)]
    with (run.folder / "sales.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    of_series = "--time month --series shop --horizon 4 --known promo"
    fitted = run(f"bartserve fit sales.csv --target units {of_series} {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr + fitted.stdout
    assert "claim     Estimated in 10 rehearsals" in fitted.stdout
    assert "next      bartserve forecast sales --template plan.csv" in fitted.stdout
    assert run("bartserve forecast sales --template plan.csv").returncode == 0
    plan = (run.folder / "plan.csv").read_text().splitlines()
    (run.folder / "plan.csv").write_text("\n".join([plan[0], *(f"{line}false" for line in plan[1:])]))
    total = run("bartserve forecast sales --known plan.csv --total 1-3 --by region --output t.csv")
    assert total.returncode == 0, total.stderr
    assert (run.folder / "t.csv").read_text().startswith("first_step,last_step,region")
    assert "Another fit would move medians by" in fitted.stdout, "the verdict says by what"
    assert run("bartserve models card sales sales.md").returncode == 0
    assert "| Known ahead | promo |" in (run.folder / "sales.md").read_text()
    empty = run("bartserve forecast sales")
    assert empty.returncode == 1
    assert "must be planned" in empty.stderr


def test_rows_come_back_as_a_workbook_or_as_their_file_is_written(run):
    """`--output` decides by its ending; `--dialect file` gives the letters of the rows back."""
    lines = (run.folder / "new.csv").read_text().splitlines()
    (run.folder / "ds_like.csv").write_text(
        "\n".join([f"{lines[0]},id", *(f"{line},007" for line in lines[1:3])])
    )
    assert "written   p.xlsx: 2 rows" in run("bartserve predict cars ds_like.csv --output p.xlsx").stderr
    shown = letters_of((run.folder / "p.xlsx").read_bytes())
    assert [row[7] for row in shown] == ["id", "007", "007"]
    assert run("bartserve predict cars ds_like.csv --dialect file -o p.csv").returncode == 0
    own = (run.folder / "p.csv").read_text().splitlines()
    assert [line.split(",mean")[0] for line in own[:1]] == [f"{lines[0]},id"]
    assert own[1].startswith(f"{lines[1]},007,")
    assert run("bartserve predict cars ds_like.csv --dialect file").returncode == 2


def test_fit_shows_bars_the_verdict_and_the_next_step(run, service):
    """The output has the data, a bar per chain, the verdict and the next command."""
    fitted = run.fitted
    assert f"service   {service.address}" in fitted
    assert "data      cars.csv: 397 rows, 9 columns, 5 missing in horsepower" in fitted
    assert re.search(r"chain 1 .*100%.*done", fitted)
    assert re.search(r"verdict   (converged|approximate|not converged): R-hat", fitted)
    assert re.search(r"held out  79 rows it never saw: RMSE \d", fitted)
    assert re.search(r"honest\?   90% intervals: usable. Of \d+ held-out rows \d+% are inside", fitted)
    assert "next      bartserve predict cars NEW_ROWS.csv" in fitted


def test_fit_takes_several_targets(run):
    """Each target is an outcome of the model, with scores of its own; predictions are of the one named."""
    targets = "--target mpg --target acceleration --holdout 0.2"
    fitted = run(f"bartserve fit cars.csv {targets} --name both {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr
    assert "acceleration: RMSE" in fitted.stdout + fitted.stderr
    assert "log score of mpg, acceleration" in fitted.stdout + fitted.stderr
    facts = json.loads(run("bartserve predict both new.csv --outcome acceleration --json").stdout)
    assert facts["outcome"] == "acceleration"
    of_first, of_other = (
        json.loads(run(f"bartserve models inclusion both {which} --json").stdout)
        for which in ("", "--outcome acceleration")
    )
    assert of_first != of_other
    own = "--features mpg=weight,year --features acceleration=horsepower"
    short = "--name own --set num_chains=1 --set num_draws=10 --set num_burnin=10 --json"
    fitted = run(f"bartserve fit cars.csv --target mpg --target acceleration {own} {short}")
    features = json.loads(fitted.stdout)["settings"]["features"]
    assert features == {"mpg": ["weight", "year"], "acceleration": ["horsepower"]}
    mixed = run(f"bartserve fit cars.csv --target mpg --target acceleration {own} --features year")
    assert mixed.returncode != 0
    assert "TARGET=COLUMNS for each" in mixed.stderr
    total = json.loads(run("bartserve aggregate both new.csv --outcome acceleration --json").stdout)
    assert total["sets"][0]["mean"] == pytest.approx(sum(facts["mean"]))


def test_predict_writes_csv_or_a_row_of_pairs(run):
    """A file of rows gives CSV on stdout or in a file; NAME=VALUE pairs are one row."""
    piped = run("bartserve predict cars new.csv --level 0.5 --level 0.9")
    assert piped.returncode == 0, piped.stderr
    rows = list(csv.DictReader(io.StringIO(piped.stdout)))
    figures = ["mean", "sd", "lower_50", "upper_50", "lower_90", "upper_90", "flags", "interval"]
    with (run.folder / "new.csv").open() as file:
        sent = list(csv.DictReader(file))
    assert list(rows[0]) == [*sent[0], *figures]
    assert [float(row["weight"]) for row in rows] == [float(row["weight"]) for row in sent]
    with_columns = run("bartserve predict cars new.csv --keep year --keep weight --level 0.5 --level 0.9")
    assert with_columns.stdout.splitlines()[0] == ",".join(["weight", "year", *figures])
    bare = run("bartserve predict cars new.csv --keep '' --level 0.5 --level 0.9")
    assert bare.stdout.splitlines()[0] == ",".join(figures)
    assert len(rows) == 30
    assert all(float(row["lower_90"]) < float(row["mean"]) < float(row["upper_90"]) for row in rows)

    written = run("bartserve predict cars new.csv --level 0.5 --level 0.9 --output predicted.csv")
    assert (run.folder / "predicted.csv").read_text() == piped.stdout
    assert "predicted.csv: 30 rows" in written.stderr
    run("bartserve predict cars new.csv --digits rounded --dialect model --output own.csv")
    own = (run.folder / "own.csv").read_bytes()
    assert own.startswith(b"\xef\xbb\xbf")
    rounded, full = (
        list(csv.DictReader(io.StringIO(text))) for text in (own.decode("utf-8-sig"), bare.stdout)
    )
    assert [row["mean"] for row in rounded] == [f"{float(row['mean']):.2f}".rstrip("0") for row in full]
    assert run(f"bartserve predict cars {' '.join(CAR)} --digits rounded").returncode == 2

    one = run(f"bartserve predict cars {' '.join(CAR)} --interval credible")
    assert one.returncode == 0, one.stderr
    assert len(one.stdout.splitlines()) == 2


@pytest.mark.slow
def test_rows_are_predicted_by_the_models_of_a_set(run):
    """A set's id or name in the place of a model: each row of a file, or one of pairs, has its group's."""
    fitted = run(f"bartserve fit cars.csv --target mpg --by origin --name origins {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr
    (made,) = re.findall(r"set_[0-9a-f]{20}", fitted.stdout)
    piped = run(f"bartserve predict {made} new.csv --keep origin --level 0.5")
    assert piped.returncode == 0, piped.stderr
    rows = list(csv.DictReader(io.StringIO(piped.stdout)))
    assert list(rows[0])[:3] == ["origin", "mean", "sd"]
    assert len(rows) == 30
    document = json.loads(run(f"bartserve predict origins {' '.join(CAR)} --json").stdout)
    assert (document["set_id"], len(document["mean"])) == (made, 1)

    (listed,) = json.loads(run("bartserve sets --json").stdout)
    assert (listed["id"], listed["name"], listed["groups"]) == (made, "origins", 3)
    shown = run("bartserve sets show origins").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["group", "1", "3", "2"]
    assert "nothing left to cancel" in run("bartserve sets cancel origins").stderr
    assert run("bartserve sets delete origins").stdout == "origins is deleted.\n"
    assert "no set of models" in run(f"bartserve sets show {made}").stderr


@pytest.mark.slow
def test_features_are_selected(run):
    """`models select` shows progress and a table of features, or JSON; what is out of range is refused."""
    printed = run("bartserve models select cars --permutations 20 --seed 1")
    assert printed.returncode == 0, printed.stderr
    assert re.search(r"fits .*100%", printed.stderr)
    head, *rows = printed.stdout.splitlines()
    assert head.split() == ["feature", "share", "max", "se", "local", "selected", "by"]
    assert {row.split()[0] for row in rows} >= {"weight", "year"}
    as_json = run("bartserve models select cars --permutations 20 --seed 1 --json")
    (first, *_) = json.loads(as_json.stdout)["selection"]["features"]
    assert rows[0].split()[:2] == [first["name"], f"{first['share']:.4f}"]
    wrong = run("bartserve models select cars --permutations 5")
    assert (wrong.returncode, "permutations" in wrong.stderr) == (1, True)


def test_shares_of_the_rules_are_printed(run):
    """`models inclusion` prints the shares, by rules or by rows."""
    by_rules, by_rows = (run(f"bartserve models inclusion cars --by {by}") for by in ("rules", "rows"))
    assert by_rules.stdout.splitlines()[0].split() == ["feature", "share", "lower_90", "upper_90"]
    assert by_rules.stdout != by_rows.stdout
    features = json.loads(run("bartserve models inclusion cars --by rows --json").stdout)
    assert [each["name"] for each in features] == [row.split()[0] for row in by_rows.stdout.splitlines()[1:]]


def test_totals_are_printed_by_set(run):
    """`aggregate` writes a line for each set as CSV or JSON; known outcomes count as they are."""
    rows = (run.folder / "new.csv").read_text().splitlines()
    lines = [f"{line},{k % 2},{'' if k % 3 else 20}" for k, line in enumerate(rows[1:])]
    (run.folder / "fleet.csv").write_text("\n".join([f"{rows[0]},fleet,mpg", *lines]) + "\n")
    printed = run("bartserve aggregate cars fleet.csv --by fleet --observed mpg")
    assert printed.returncode == 0, printed.stderr
    head, first, second = printed.stdout.splitlines()
    assert head == "fleet,mean,lower,upper,rows,observed_rows,new_groups"
    assert first.split(",")[4:] == second.split(",")[4:] == ["15", "5", "0"]
    difference = json.loads(
        run("bartserve aggregate cars fleet.csv --observed mpg --compare fleet=0,1 --json").stdout
    )
    expected = float(first.split(",")[1]) - float(second.split(",")[1])
    assert difference["sets"][0]["mean"] == pytest.approx(expected)
    missing = run("bartserve aggregate cars fleet.csv --by fleet --weights mpg")
    assert (missing.returncode, "weights" in missing.stderr) == (1, True)
    written = run("bartserve aggregate cars fleet.csv --by fleet --observed mpg --output totals.csv")
    assert (run.folder / "totals.csv").read_text() == printed.stdout
    assert "totals.csv: 2 sets" in written.stderr
    stored = json.loads(run("bartserve datasets upload fleet.csv --json").stdout)["id"]
    asked = f"bartserve aggregate cars {stored} --by fleet --observed mpg"
    of_dataset = [line.split(",") for line in run(asked).stdout.splitlines()]
    assert of_dataset[0] == ["fleet", "mean", "lower_90", "upper_90", "rows", "observed_rows", "new_groups"]
    assert [float(each[1]) for each in of_dataset[1:]] == [
        float(first.split(",")[1]),
        float(second.split(",")[1]),
    ]
    assert json.loads(run(f"{asked} --json").stdout)[0]["rows"] == 15
    assert "no dataset" in run("bartserve aggregate cars ds_0000000000000000").stderr.lower()
    assert run("bartserve aggregate cars fleet.csv --observed none").returncode == 2
    assert run("bartserve aggregate cars fleet.csv --compare fleet").returncode == 2


def test_times_are_fitted_and_their_curves_printed(run):
    """`fit --event` and `survival`: curves of a row or a file as CSV or JSON; bad times are refused."""
    x = [0.02 * k for k in range(50)]
    lines = [f"{a:.2f},{1 + 3 * a + k % 5 / 2:.2f},{int(k % 3 > 0)}" for k, a in enumerate(x)]
    (run.folder / "times.csv").write_text("x,days,seen\n" + "\n".join(lines) + "\n")
    fitted = run(f"bartserve fit times.csv --target days --event seen --holdout 0.2 {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr
    assert "integrated Brier score" in fitted.stdout
    head, first, second = run("bartserve survival times x=0.5 --times 1,3").stdout.splitlines()
    assert head == "row,time,survival,lower,upper"
    assert float(first.split(",")[2]) > float(second.split(",")[2])
    (run.folder / "rows.csv").write_text("x\n0.1\n0.9\n")
    written = run("bartserve survival times rows.csv --output curves.csv")
    assert "100 lines" in written.stderr
    curves = json.loads(run("bartserve survival times rows.csv --times 2 --json").stdout)
    assert curves["median"]["value"][0] < curves["median"]["value"][1]
    for wrong, code in (("--times soon", 2), ("--times 3,1", 1)):
        assert run(f"bartserve survival times x=0.5 {wrong}").returncode == code


def test_counts_are_fitted_and_predicted_with_their_exposures(run):
    """`fit --exposure`: means grow with it, bounds and quantiles are counts; scores tell of zeros."""
    days = [1 + k % 4 for k in range(80)]
    lines = [f"{k % 10},{day},{(k * 7) % (day * (1 + k % 10 // 4) + 1)}" for k, day in enumerate(days)]
    (run.folder / "calls.csv").write_text("x,days,y\n" + "\n".join(lines) + "\n")
    settings = f"--set family=negative-binomial --exposure days --holdout 0.2 --seed 1 {shlex.join(FAST)}"
    fitted = run(f"bartserve fit calls.csv --target y {settings}")
    assert fitted.returncode == 0, fitted.stderr
    assert re.search(r"\d+% zeros where \d+% were predicted", fitted.stdout), fitted.stdout
    (run.folder / "rows.csv").write_text("x,days\n5,1\n5,4\n")
    short, long = csv.DictReader(io.StringIO(run("bartserve predict calls rows.csv --quantile 0.5").stdout))
    assert float(long["mean"]) == pytest.approx(4 * float(short["mean"]))
    for row in (short, long):
        bounds = [float(row[name]) for name in ("lower_90", "quantile_50", "upper_90")]
        assert bounds == sorted(round(bound) for bound in bounds)
    bare = run("bartserve predict calls x=5")
    assert (bare.returncode, "exposure of 1" in bare.stderr) == (0, True)
    wrong = run("bartserve fit calls.csv --target y --set family=gaussian --exposure days")
    assert (wrong.returncode, "exposure" in wrong.stderr) == (1, True)


def test_ordered_classes_are_fitted_and_predicted(run):
    """`fit --set family=ordinal --levels`: scores by rank, probabilities in order; odd levels are named."""
    rows = ["poor,1", "fair,2", "fine,3"] * 20
    (run.folder / "grades.csv").write_text("grade,x\n" + "\n".join(rows) + "\n")
    fit = f"bartserve fit grades.csv --target grade --set family=ordinal {shlex.join(FAST)}"
    fitted = run(f"{fit} --levels poor,fair,fine --holdout 0.2 --seed 1")
    assert fitted.returncode == 0, fitted.stderr + fitted.stdout
    assert re.search(r"held out .*ranked probability", fitted.stdout), fitted.stdout
    predicted = json.loads(run("bartserve predict grades x=3 --json").stdout)
    assert predicted["classes"] == ["poor", "fair", "fine"]
    assert "60 rows" in run("bartserve predict grades grades.csv --output p.xlsx").stderr
    wrong = run(f"{fit} --levels poor,fair")
    assert wrong.returncode == 1
    assert "is not among levels" in wrong.stderr + wrong.stdout


def test_monotone_features_are_named_in_lists(run):
    """`fit --increasing --decreasing`: settings show the directions; a feature in both lists is refused."""
    fit = f"bartserve fit cars.csv --target mpg --name ordered --json {shlex.join(FAST)}"
    fitted = run(f"{fit} --increasing year --decreasing weight,horsepower")
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["settings"]["monotone"] == {
        "year": "increasing", "weight": "decreasing", "horsepower": "decreasing",
    }  # fmt: skip
    wrong = run(f"{fit} --increasing year --decreasing year")
    assert wrong.returncode == 2
    assert "can't both rise and fall" in wrong.stderr


def test_groups_are_fitted_and_printed(run):
    """--groups and --slopes reach the fit; `models groups` prints both, or says there are none."""
    lines = (f"{k % 10},{'abcdef'[k % 6]},{(k % 6) + (k % 10) * (k % 6 - 2) + k % 3}\n" for k in range(120))
    (run.folder / "visits.csv").write_text("day,site,y\n" + "".join(lines))
    fit = f"bartserve fit visits.csv --target y --groups site --slopes day --seed 1 {shlex.join(FAST)}"
    fitted = run(fit)
    assert fitted.returncode == 0, fitted.stderr + fitted.stdout
    printed = run("bartserve models groups visits")
    assert "site: standard deviation" in printed.stdout
    assert "site: slope of day, standard deviation" in printed.stdout
    (grouping,) = json.loads(run("bartserve models groups visits --json").stdout)
    assert [group["group"] for group in grouping["slopes"][0]["groups"]] == list("abcdef")
    assert grouping["slopes"][0]["groups"][0]["mean"] < grouping["slopes"][0]["groups"][5]["mean"]
    assert "has no groups" in run("bartserve models groups cars").stdout


def test_subgroups_are_calibrated_and_claimed(run):
    """Conditions in words reach the fit; each subgroup's claim is printed with the predictions."""
    named = "--subgroup 'year>=79' --subgroup missing"
    fit = f"bartserve fit cars.csv --target mpg --name parted --holdout 0.6 --calibrate holdout {named}"
    refused = run(f"{fit} {shlex.join(FAST)}")
    assert (refused.returncode, "no feature is missing in 10" in refused.stderr) == (1, True)
    fitted = run(f"{fit.replace(' --subgroup missing', '')} {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr + fitted.stdout
    printed = run("bartserve predict parted new.csv --interval calibrated")
    assert "          year>=79: at least 0.9 inside on average" in printed.stderr
    wrong = run("bartserve fit cars.csv --target mpg --subgroup 'year>='")
    assert (wrong.returncode, "is no condition" in wrong.stderr) == (2, True)


@pytest.mark.slow  # a further fit
def test_a_placebo_is_printed(run):
    """`models placebo` shows the effect of treatments drawn by chance; a model without one is refused."""
    refused = run("bartserve models placebo cars")
    assert (refused.returncode, "The model has no treatment" in refused.stderr) == (1, True)
    fit = "bartserve fit cars.csv --target mpg --name doses --treatment weight"
    fitted = run(f"{fit} {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr + fitted.stdout
    printed = run("bartserve models placebo doses --level 0.8 --seed 1")
    assert printed.returncode == 0, printed.stderr
    assert "weight" in printed.stdout
    assert "average" in printed.stdout
    found = json.loads(run("bartserve models placebo doses --level 0.8 --seed 1 --json").stdout)["placebo"]
    assert (found["level"], found["groups"]) == (0.8, {})


@pytest.mark.slow
def test_shares_by_trees_are_printed(run):
    """`models inclusion-by-trees` prints a table of shares and what they say, scores by folds, or JSON."""
    asked = "bartserve models inclusion-by-trees cars --num-trees 3 --num-trees 12"
    printed = run(f"{asked} --folds 2")
    assert printed.returncode == 0, printed.stderr
    head, *rows = printed.stdout.splitlines()
    assert head.split() == ["mpg", "3", "trees", "12", "trees"]
    assert "That is no test" in printed.stderr
    assert any('{"num_trees": 12}' in row for row in rows)
    found = json.loads(run(f"{asked} --level 0.5 --json").stdout)["inclusion_by_trees"]["mpg"]
    assert (found["level"], found["scores"]) == (0.5, None)
    assert [found["names"][0], *(f"{shares[0]:.4f}" for shares in found["mean"])] in map(str.split, rows)


def test_settings_are_tuned(run):
    """`models tune` shows a table of candidates and the best, or JSON; what is no JSON is refused."""
    tried = '[{"num_trees": 5, "num_chains": 1, "num_draws": 10}, {"num_trees": 1, "num_draws": 10}]'
    printed = run(f"bartserve models tune cars --folds 2 --candidates '{tried}'")
    assert printed.returncode == 0, printed.stderr
    assert '{"num_trees": 5' in printed.stdout
    assert '"num_draws": 10' in printed.stderr.split("best ")[1]
    as_json = run(f"bartserve models tune cars --folds 2 --candidates '{tried}' --score rmse --json")
    assert json.loads(as_json.stdout)["tuning"]["score"] == "rmse"
    assert len(json.loads(as_json.stdout)["tuning"]["trials"]) == 2
    wrong = run("bartserve models tune cars --candidates '[{'")
    assert (wrong.returncode, "JSON" in wrong.stderr) == (2, True)


def test_parts_of_the_model_are_settings(run):
    """`--set` takes noise, the linear part and transforms; a value that does not exist is refused."""
    parts = "--set noise=forest --set linear=true --set transform=log"
    fitted = run(f"bartserve fit cars.csv --target mpg --name parts {parts} {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr
    settings = json.loads(run("bartserve models show parts --json").stdout)["settings"]
    assert (settings["noise"], settings["linear"], settings["transform"]) == ("forest", True, "log")
    wrong = run("bartserve fit cars.csv --target mpg --set noise=forests")
    assert (wrong.returncode, "noise" in wrong.stderr) == (1, True)


@pytest.mark.slow
def test_intervals_are_calibrated(run):
    """`models calibrate` prints what the intervals claim, or JSON; predictions then have them."""
    fitted = run(f"bartserve fit cars.csv --target mpg --name sure {shlex.join(FAST)}")
    assert fitted.returncode == 0, fitted.stderr
    early = run("bartserve predict sure new.csv --interval calibrated")
    assert (early.returncode, "calibrate" in early.stderr) == (1, True)
    printed = run("bartserve models calibrate sure")
    assert printed.returncode == 0, printed.stderr
    assert "90%" in printed.stdout
    assert "No guarantee goes with it" in " ".join(printed.stdout.split())
    assert run("bartserve predict sure new.csv --interval calibrated").returncode == 0
    as_json = run("bartserve models calibrate sure --json")
    assert json.loads(as_json.stdout)["kind"] == "folds"


def test_ambiguities_of_a_file_are_settled_by_options(run):
    """`--read` and `--kind` settle a file's ambiguities, for training and prediction."""
    lines = (run.folder / "new.csv").read_text().splitlines()
    text = "\n".join([lines[0], *lines[1:]]).replace(",", ";").replace(";97.0;", ";97,000;")
    european = re.sub(r"(\d)\.(\d+)", r"\1,\2", text)
    (run.folder / "european.csv").write_text(european)

    refused = run("bartserve predict cars european.csv --read decimal=comma --read separator=semicolon")

    assert refused.returncode == 0, refused.stderr
    assert refused.stdout == run("bartserve predict cars new.csv").stdout
    wrong = run("bartserve predict cars european.csv --read decimal=dot")
    assert wrong.returncode == 1
    assert "decimal" in wrong.stderr
    (run.folder / "open.csv").write_text("size;city\n" + "1,234;7\n2,345;9\n" * 10)
    left = run("bartserve datasets upload open.csv")
    assert re.search(r"size +(category|text)", left.stdout)
    uploaded = run("bartserve datasets upload open.csv --read decimal=comma --kind city=category")
    assert re.search(r"size +number .*2\.345", uploaded.stdout)
    assert re.search(r"city +category", uploaded.stdout)
    assert run("bartserve fit open.csv --target size --read decimal").returncode == 2
    for dataset in (left, uploaded):
        run(f"bartserve datasets delete {dataset.stdout.split()[1]}")


@pytest.mark.slow
def test_classes_are_found_fitted_and_predicted(run):
    """A target of two classes needs no option; probabilities, credible intervals and scores are printed."""
    rows = [f"{x},{'high' if (x * 7) % 13 > 6 else 'low'}" for x in range(60)]
    (run.folder / "two.csv").write_text("\n".join(["x,y", *rows]) + "\n")

    fitted = run(f"bartserve fit two.csv --target y --holdout 0.2 {shlex.join(FAST)}")
    answer = run("bartserve predict two x=.5")
    printed = run("bartserve models show two")

    assert fitted.returncode == 0, fitted.stderr
    assert re.search(
        r"12 rows it never saw: \d+% in the likeliest class \(\d+% are of the most frequent one\), log loss",
        fitted.stdout,
    )
    assert answer.returncode == 0, answer.stderr
    assert "mean      the probability of low" in answer.stderr
    (row,) = csv.DictReader(io.StringIO(answer.stdout))
    assert 0 <= float(row["lower_90"]) <= float(row["mean"]) <= float(row["upper_90"]) <= 1
    assert "family probit" in printed.stdout
    assert re.search(r"verdict   .*R-hat [.\d]+ for the log-likelihood, [.\d]+ for f", printed.stdout)
    assert run("bartserve predict two x=1 --interval predictive").returncode == 1


@pytest.mark.slow
def test_a_model_goes_on(run):
    """`extend` adds draws and prints the new verdict; impossible requests give one sentence."""
    run(f"bartserve fit cars.csv --target mpg --name longer {shlex.join(FAST)}")

    extended = run("bartserve models extend longer 10")
    refused = run("bartserve models retry longer")

    assert extended.returncode == 0, extended.stderr
    assert "verdict   " in extended.stderr
    assert "60 draws kept" in run("bartserve models show longer").stdout
    assert refused.returncode == 1
    assert "The service refused" in refused.stderr


def test_a_misspelt_target_leaves_nothing_behind(run):
    """A misspelt target gets the nearest column, and the file uploaded for it is removed."""
    before = _ids(run("bartserve datasets").stdout)

    refused = run("bartserve fit cars.csv --target mgp")
    several = run("bartserve predict cars weight=2171")

    assert refused.returncode == 1
    assert "did you mean mpg?" in refused.stderr
    assert _ids(run("bartserve datasets").stdout) == before
    assert "  displacement: the model needs this column" in several.stderr


def test_models_and_datasets_are_listed_shown_saved_and_removed(run):
    """Objects are listed, shown by name, saved to a file and deleted."""
    printed = run("bartserve models show cars")
    assert "num_trees 20" in printed.stdout
    model = re.search(r"\bmdl_\w+", printed.stdout)[0]
    (line,) = [line for line in run("bartserve models").stdout.splitlines() if model in line]
    assert " cars " in line
    assert "succeeded" in line
    assert run("bartserve models save cars cars.bart").returncode == 0
    assert load(run.folder / "cars.bart").leaf_counts.shape == (2, 50, 20)

    uploaded = run("bartserve datasets upload cars.csv --name spare")
    dataset = uploaded.stdout.split()[1]
    assert re.search(r"horsepower +number +5", uploaded.stdout)
    assert "spare" in run("bartserve datasets").stdout
    assert "horsepower" in run(f"bartserve datasets show {dataset}").stdout
    command = (
        f"bartserve datasets amend {dataset} --kind origin=category --missing-in horsepower=165 --missing 97"
    )
    amended = json.loads(run(f"{command} --name 'amended [/b]' --json").stdout)
    columns = {column["name"]: column for column in amended["columns"]}
    assert " amended [/b] " in run("bartserve datasets").stdout
    assert columns["origin"]["kind"] == "category"
    assert (columns["horsepower"]["missing"] > 5, columns["displacement"]["missing"] > 0) == (True, True)
    assert columns["weight"]["missing"] == 0
    (run.folder / "days.csv").write_text("day,x\n01/02/2025,1\n03/04/2025,2\n")
    days = run("bartserve datasets upload days.csv").stdout.split()[1]
    dated = run(f"bartserve datasets amend {days} --kind day=date --dates month-first")
    assert re.search(r"day +date .*2025-01-02", dated.stdout), dated.stdout + dated.stderr
    for each in (days, dated.stdout.split()[1]):
        run(f"bartserve datasets delete {each}")
    refused = run(f"bartserve datasets amend {dataset}")
    assert (refused.returncode, "nothing changes" in refused.stderr) == (1, True)
    assert run(f"bartserve datasets delete {amended['id']}").returncode == 0
    assert dataset in run("bartserve datasets show spare").stdout
    assert run(f"bartserve datasets delete {dataset}").returncode == 0
    assert dataset not in run("bartserve datasets").stdout

    again = run(f"bartserve fit {_dataset_of(run)} --target mpg --name again --seed 1 {shlex.join(FAST)}")
    assert again.returncode == 0, again.stderr
    model = next(line.split()[0] for line in run("bartserve models").stdout.splitlines() if " again " in line)
    refitted = json.loads(run(f"bartserve models refit {model} --name whole --json").stdout)
    assert (refitted["name"], refitted["settings"]["num_trees"], refitted["holdout"]) == ("whole", 20, None)
    for done in (model, refitted["id"]):
        assert run(f"bartserve models delete {done}").returncode == 0
        assert done not in run("bartserve models").stdout


def test_json_is_the_services_document(run, service):
    """With --json stdout is one document, and messages go to stderr."""
    listed = json.loads(run("bartserve models --json").stdout)
    model = next(each for each in listed if each["name"] == "cars")
    printed = run("bartserve models show cars --json")
    assert json.loads(printed.stdout) == model
    assert service.address in printed.stderr
    (dataset, *_) = json.loads(run("bartserve datasets --json").stdout)
    assert json.loads(run(f"bartserve datasets show {dataset['id']} --json").stdout)["columns"]
    predicted = json.loads(run("bartserve predict cars new.csv --json").stdout)
    assert (predicted["model_id"], len(predicted["mean"])) == (model["id"], 30)
    fitted = run(f"bartserve fit {model['dataset_id']} --target mpg --name told --json {shlex.join(FAST)}")
    assert json.loads(fitted.stdout)["state"] == "succeeded"
    assert "verdict   " in fitted.stderr
    assert run("bartserve models delete told").returncode == 0


def _ids(listed: str) -> list[str]:
    return [line.split()[0] for line in listed.splitlines()]


def _dataset_of(run) -> str:
    lines = run("bartserve datasets").stdout.splitlines()
    return next(line.split()[0] for line in lines if " cars " in line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bartserve fit nowhere.csv --target y", "nowhere.csv can't be opened"),
        ("bartserve fit cars.csv --target price", "price"),
        ("bartserve predict no-such-model new.csv", "no model"),
        ("bartserve predict cars weight=1", "cylinders"),
        ("bartserve predict cars weight", "weight can't be opened"),
        ("bartserve models show no-such-model", "no model with this id or name"),
        ("bartserve datasets show nothing", "no dataset with the id or name nothing"),
        ("bartserve fit cars.csv --target mpg --set numtrees=5", "numtrees: there is no such field; did you"),
        ("bartserve predict cars new.csv --level 90", "level.0: Input should be less than 1"),
        (
            "bartserve predict cars new.csv --output nowhere/out.csv",
            "nowhere/out.csv can't be written: No such",
        ),
        ("bartserve models save cars nowhere/cars.bart", "nowhere/cars.bart can't be written"),
        ("bartserve models save cars .", ". can't be written: Is a directory"),
        ("bartserve models card cars nowhere/card.md", "nowhere/card.md can't be written"),
        ("bartserve models --url http://127.0.0.1:9", "Is the service running there"),
    ],
)
def test_errors_are_one_sentence(run, line, message):
    """An error ends with exit code 1 and one sentence, without a traceback."""
    run = run(line)

    assert run.returncode == 1
    assert message in run.stderr
    assert "Traceback" not in run.stderr + run.stdout
