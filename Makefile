# Every command sets up its own needs: a .venv with the pinned dependencies of locks/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.run-ready
DEV_READY := $(VENV)/.dev-ready
BENCH_READY := $(VENV)/.bench-ready
SITE_READY := $(VENV)/.site-ready
ENGINES_READY := $(VENV)/.engines-ready
BOARDS_READY := $(VENV)/boards/.treeffuser-ready $(VENV)/boards/.autogluon-ready
EFFECTS_READY := $(VENV)/boards/.effects-ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# Modules are compiled at their first import, not all of them at the installation, which would take half as long
# again; and they are kept even where the environment says otherwise, since a service and tests start many processes.
INSTALL := $(PIP) install --no-compile
export PYTHONDONTWRITEBYTECODE :=
# Before a command that says nothing for long: print the seconds every four, until it ends.
BEAT := began=$$(date +%s); (while sleep 4; do echo "  .. $$(($$(date +%s) - began)) s"; done) & beat=$$!; \
    trap 'kill $$beat' EXIT; trap 'exit 130' INT TERM;
# Three processes for two cores: a quarter of the time a test waits for something.
PYTEST := $(BIN)/python -m pytest -n 3 --dist worksteal --durations 20

.PHONY: help demo up test test-slow coverage statistical chaos fuzz bench lint format lock clean docs pictures secrets contract audit load bakeoff boards scoringbench effectboards engines papers site

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(RUN_READY) ## upload real data, fit a model and predict with intervals, through HTTP
	@$(BIN)/bartserve demo

up: $(RUN_READY) ## start the embedded service on http://127.0.0.1:8000
	@$(BIN)/bartserve up

test: $(DEV_READY) ## run the quick tests: one for every claim and promise
	@$(BIN)/bartserve warm  # once per machine, so that no test waits for the compiler
	$(PYTEST) -m "not slow and not long"

test-slow: $(DEV_READY) ## run the slow tests, on both databases and in a browser
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	    echo "no Chromium was found: the pages are not tried in a browser (apt install chromium)"
	@$(BIN)/bartserve warm
	$(PYTEST) -m "slow and not long"

coverage: $(DEV_READY) ## run the quick tests and print the lines and branches that they miss
	$(PYTEST) -m "not slow and not long" --cov --cov-report term

statistical: $(DEV_READY) $(BENCH_READY) ## run the long suites: statistics, every case, including a peer package, and print their report
	$(BIN)/python -m pytest -m long -n 2 -o timeout=3600 tests/statistical tests/reference tests/unit tests/contract tests/service tests/e2e -rA

fuzz: $(DEV_READY) ## feed mutated inputs to every reader of files, for some minutes
	$(BIN)/python -m tests.support.fuzzing.readers

chaos: $(DEV_READY) ## kill, pause and disconnect every part some hundred times, and report
	$(BIN)/python -m pytest -m "long or not long" -s -p no:warnings tests/chaos

bench: $(BENCH_READY) ## install peer packages and compare the sampler's speed with theirs (about ten minutes)
	$(BIN)/python -m lab sampler_speed
	$(BIN)/python -m lab prediction_speed

bakeoff: $(BENCH_READY) ## compare predictive distributions with other packages' on real tables (about an hour; resumable)
	@mkdir -p build
	$(BIN)/python -m lab bakeoff --keep build/bakeoff.json --picture build/bakeoff.svg

boards: $(BENCH_READY) ## print Elo, win rates and improvability on the tables of bakeoff, and coverage of sets of classes by size (resumable)
	$(BIN)/python -m lab boards

scoringbench: $(BENCH_READY) $(BOARDS_READY) ## score predictive distributions by ScoringBench's protocol, beside other packages (hours; resumable)
	$(BIN)/python -m lab scoringbench

effectboards: $(BENCH_READY) $(EFFECTS_READY) ## measure effects on IHDP and ACIC 2016 beside other packages (hours; resumable)
	$(BIN)/python -m lab effects --boards --tables 20 --seconds inf

engines: $(ENGINES_READY) ## predict inside Dask, DuckDB, Ray and Spark (which needs Java 17), and print rows per second beside a bare loop
	$(VENV)/engines/bin/python -m lab engines

papers: $(BENCH_READY) ## run the studies of docs/papers.md but the long ones (resumable), or one: make papers STUDY=cgm10-fig6
	$(BIN)/python -m lab papers $(STUDY)

contract: $(DEV_READY) ## check tens of thousands of responses of the live service against the OpenAPI document
	BARTSERVE_CONTRACT_EXAMPLES=$${BARTSERVE_CONTRACT_EXAMPLES:-200} \
	    $(BIN)/python -m pytest -n 2 --timeout 7200 tests/contract/api/operation/test_contract.py

audit: $(DEV_READY) ## list known vulnerabilities of the run-time dependencies, if their source is reachable
	$(BIN)/python .ci/audit.py

load: $(DEV_READY) ## put load on the team stack for ten minutes: two API processes, Postgres, Valkey, a worker
	$(BIN)/python -m lab load --seconds 600

lint: $(DEV_READY) ## check style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_READY) ## format the code with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(DEV_READY) ## renew the pins of all dependencies, with hashes and without addresses
	$(PIP) install --require-hashes --no-deps -r locks/uv.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    pyproject.toml --extra service --group build -o locks/run.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    pyproject.toml --extra service --extra mlflow --extra mcp --extra duckdb --group build --group dev -c locks/run.txt -o locks/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    pyproject.toml --extra service --group build --group bench -c locks/run.txt -o locks/bench.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    pyproject.toml --group build --group engines -c locks/run.txt -o locks/engines.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --group site -o locks/site.txt
	@# --no-config: the overrides of pyproject.toml would give AutoGluon pandas 3.
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-config --group board-treeffuser -o locks/board-treeffuser.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-config --group board-autogluon -o locks/board-autogluon.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --no-config --group board-effects -o locks/board-effects.txt

docs: $(DEV_READY) ## regenerate the OpenAPI document and the pages of settings and of what goes together
	$(BIN)/python docs/generate.py

site: $(SITE_READY) ## build the documentation as web pages into build/site and check its links
	@NO_MKDOCS_2_WARNING=1 $(VENV)/site/bin/mkdocs build --strict --quiet --site-dir build/site
	@echo "build/site/index.html"

pictures: $(DEV_READY) ## redraw the pictures of docs/tutorial.md, with their own service
	$(BIN)/python docs/pictures.py

secrets: ## create the passwords of docker-compose.yml, once
	@mkdir -p -m 0700 secrets
	@for name in postgres_password redis_password cookie_secret; do \
	    test -s secrets/$$name || (umask 022; head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' > secrets/$$name); \
	done
	@echo "secrets/ has the passwords of the stack; keep it safe and out of version control"

clean: ## delete the files created by the commands
	rm -rf $(VENV) build dist

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "bartserve needs Python 3.11 or newer: install it, or name it with PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "bartserve needs Python 3.11 or newer; $(PYTHON) is older. Name another with PYTHON=..."; exit 1; }
	@echo "setting up $(VENV) (first run only)"
	@$(BEAT) $(PYTHON) -m venv $(VENV)

# --no-deps: the locks are complete, and a resolver can prefer a release newer than the pin where
# one package wants an extra of another ("coverage[toml]"); that the locks are complete is checked below.
$(RUN_READY): pyproject.toml locks/run.txt | $(BIN)/python
	@echo "installing the pinned dependencies (first run only; about a minute)"
	@$(BEAT) $(INSTALL) --require-hashes --no-deps -r locks/run.txt
	@$(BEAT) $(INSTALL) --no-deps --no-build-isolation -e .
	@$(BEAT) $(BIN)/python -c "import app.cli.demo"  # compiles what the commands import
	@touch $@

$(DEV_READY): pyproject.toml locks/dev.txt | $(BIN)/python
	@echo "installing the pinned dependencies of the tests (first run only)"
	@$(BEAT) $(INSTALL) --require-hashes --no-deps -r locks/dev.txt
	@$(BEAT) $(INSTALL) --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check
	@touch $@ $(RUN_READY)

$(BENCH_READY): locks/bench.txt $(RUN_READY)
	@echo "installing the peers to compare with (first run only)"
	@$(BEAT) $(INSTALL) --require-hashes --no-deps -r locks/bench.txt
	@touch $@

# Separate: Ray and Spark bring dependencies of their own.
$(ENGINES_READY): pyproject.toml locks/engines.txt | $(BIN)/python
	@echo "installing Dask, DuckDB, Ray and Spark (first run only)"
	@$(BIN)/python -m venv $(VENV)/engines
	@$(BEAT) $(VENV)/engines/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps -r locks/engines.txt
	@$(VENV)/engines/bin/python -m pip --quiet --disable-pip-version-check install --no-deps --no-build-isolation -e .
	@touch $@

# Separate: these peers need other versions of packages that the rest has.
$(BOARDS_READY) $(EFFECTS_READY): $(VENV)/boards/.%-ready: locks/board-%.txt | $(BIN)/python
	@echo "installing $* for the comparison (first run only)"
	@$(BIN)/python -m venv $(VENV)/boards/$*
	@$(BEAT) $(VENV)/boards/$*/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps -r locks/board-$*.txt
	@touch $@

# Separate: the tools that build pages share no pins with the run-time dependencies.
$(SITE_READY): locks/site.txt | $(BIN)/python
	@echo "installing what builds the pages (first run only)"
	@$(BIN)/python -m venv $(VENV)/site
	@$(VENV)/site/bin/python -m pip --quiet --disable-pip-version-check install --require-hashes --no-deps -r locks/site.txt
	@touch $@
