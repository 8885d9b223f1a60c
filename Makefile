# Everything people run here is a target of this file: `make` lists them.
# Needs make and Python 3.11 or newer; choose an interpreter with `make setup PYTHON=/path/to/python`.

VENV   := .venv
BIN    := $(VENV)/bin
LOCKED := $(VENV)/.locked
READY  := $(VENV)/.ready

# Empty: take the newest of these that can create a virtual environment.
PYTHON     ?=
CANDIDATES := python3.15 python3.14 python3.13 python3.12 python3.11 python3 python

# More than there are cores: tests of real processes wait a good deal.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 2 )))

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check docs bench bench-collect bench-train audit mutants mutants-generated reproduce torture torture-train demo-consortium image format lock clean test-all test-rest test-deep test-unit test-pythons coverage package sbom simulate fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## create .venv with the locked packages and this one (editable)

demo: $(READY) ## run the demonstration
	$(BIN)/pdml demo

demo-consortium: $(READY) ## three organisations on this machine: people report, servers collect, nodes train
	$(BIN)/python -m benchmarks.consortium_demo

# Tiers: docs/evaluation/tests.md. Files stay together, so that what they share is made once.
PYTEST = $(BIN)/pytest --dist loadfile

test: $(READY) ## run the tests: unit, integration, simulation and one browser (ten minutes on two idle cores)
	$(PYTEST) -n $(WORKERS) -m "not slow and not heavy and not firefox" tests/unit tests/integration tests/simulation tests/browser

test-rest: $(READY) ## run what make test leaves out: users' whole ways, attacks, the second browser
	$(PYTEST) -n $(WORKERS) -m "(heavy or firefox) and not slow" tests
	$(PYTEST) -n $(WORKERS) -m "not slow and not firefox" tests/attacks

test-all: test test-rest ## run the tests of all tiers, as CI does

test-unit: $(READY) ## the inner loop: one process, few examples of each property, in a minute on two idle cores
	$(UNIT)

UNIT = $(PYTEST) -n $$(getconf _NPROCESSORS_ONLN) --hypothesis-profile=fast -m "not slow and not heavy and not long" tests/unit

# Files with properties. Other examples on every run, a thousand where the test names no number; what failed is tried first the next time.
PROPERTIES = $(shell grep -rl --include='test_*.py' '^from hypothesis' tests)

test-deep: $(READY) ## look for examples that break a property: random ones, and many more of them (an hour)
	$(PYTEST) -n $(WORKERS) --hypothesis-profile=deep $(PROPERTIES)

# What runs lines of the packages below. Processes that tests start are measured, too, and write files of their own: pyproject.toml, tool.coverage.
MEASURED := $(addprefix tests/unit/, study/test_sensitive.py numerics mechanisms accounting training node) tests/integration/training tests/integration/node tests/integration/cli/test_node.py tests/unit/node/test_equivocation.py tests/unit/test_formats.py

coverage: $(READY) ## measure which lines of numerics, mechanisms, accounting and node no test runs: docs/evaluation/coverage.md (minutes)
	@set -e; scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	COVERAGE_FILE="$$scratch/data" $(PYTEST) -n $(WORKERS) $(MEASURED) --cov-report=term --cov-report=json:"$$scratch/report.json" \
		--cov=pdml.numerics --cov=pdml.mechanisms --cov=pdml.accounting --cov=pdml.node; \
	$(BIN)/python tests/uncovered.py "$$scratch/report.json"

# Seeds of schedules; a failing one is shrunk and kept in tests/simulation/corpus/.
SEEDS ?= 1000

# For READER, or for each where it is empty; atheris stays out of .venv, where nothing else needs it.
SECONDS ?= 600
READER ?=
ATHERIS := build/atheris

fuzz: $(READY) ## fuzz every reader of foreign bytes, SECONDS=600 each (five hours; needs the package index the first time)
	@[ -d $(ATHERIS) ] || $(BIN)/python -m pip install -qq --no-deps --target $(ATHERIS) "atheris==3.0.0"
	PYTHONPATH=$(ATHERIS) $(BIN)/python tests/fuzz/fuzz.py --seconds $(SECONDS) $(if $(READER),"$(READER)")

simulate: $(READY) ## drive consortia in one thread through faults drawn from seeds, SEEDS=1000 of them
	$(BIN)/python tests/simulation/run.py --seeds $(SEEDS) --keep

test-pythons: ## the unit tests on every Python from 3.11 on that is found (needs the package index the first time)
	@set -e; seen=; for candidate in $(if $(PYTHON),"$(PYTHON)",$(CANDIDATES) $(wildcard $(HOME)/.pyenv/versions/*/bin/python)); do \
		"$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		version=$$("$$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		case "$$seen " in *" $$version "*) continue;; esac; seen="$$seen $$version"; \
		place=.pythons/$$version; \
		[ -x $$place/bin/pytest ] || { "$$candidate" -m venv $$place; $$place/bin/python -m pip install -qq --no-deps --require-hashes -r requirements.lock; }; \
		echo "Python $$version:"; \
		PYTHONPATH=src $(subst $(BIN),$$place/bin,$(UNIT)); \
	done

check: $(READY) ## lint, formatting, types, import layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(READY) ## build the site into build/site: offline, and strict about every link
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet, which would silence strictness too
	@echo "build/site/index.html"

bench: $(READY) ## run the benchmarks
	$(BIN)/python -m benchmarks

bench-collect: $(READY) ## measure the collection service
	$(BIN)/python -m benchmarks.collect

bench-train: $(READY) ## measure training between organisations (3, 10 and 30 nodes) and on a cluster (10, 100 and 1,000 servers)
	$(BIN)/python -m benchmarks.train 3 10 30
	$(BIN)/python -m benchmarks.cluster

audit: $(READY) ## run the full audit, and see that its attacks come close to the claims
	$(BIN)/pdml audit --full
	$(BIN)/pytest -n auto -m slow

mutants: $(READY) ## plant mistakes one at a time, and see which tests catch them (minutes)
	$(BIN)/python tests/mutants.py

# How many, drawn by SEED; 0 for one at each place. cosmic-ray stays out of .venv, where nothing else needs it.
SAMPLE ?= 600
SEED ?= 0
COSMIC_RAY := build/cosmic-ray

mutants-generated: $(READY) ## plant a SAMPLE=600 of generated mistakes in the code that carries proofs: docs/evaluation/mutants.md (an hour)
	@[ -d $(COSMIC_RAY) ] || $(BIN)/python -m pip install -qq --no-deps --target $(COSMIC_RAY) "cosmic-ray==8.7.0" "parso==0.8.7"
	PYTHONPATH=$(COSMIC_RAY) $(BIN)/python tests/generated_mutants.py --sample $(SAMPLE) --seed $(SEED)

reproduce: $(READY) ## measure the paper's table, its figures and its rivals (minutes; needs the data sets)
	$(BIN)/pdml reproduce all

torture: $(READY) ## kill the collection service a thousand times under load (half an hour)
	$(BIN)/python tests/support/torture.py --kills 1000

torture-train: $(READY) ## kill nodes and the relay a thousand times in training
	$(BIN)/python tests/support/torture_train.py 1000 3 5 10

image: $(READY) ## build the container image from Debian packages and try it (needs root, buildah and debootstrap; minutes)
	$(BIN)/python tests/integration/deploy/image.py

format: $(READY) ## rewrite the code in the project's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

package: $(READY) ## build wheel and sdist twice, compare them, and use each kind of installation (needs the package index; minutes)
	$(BIN)/python tests/publishing.py

# In an environment of its own: it needs thirty packages, and nothing here needs it.
sbom: ## write what the image, and what developers, are made of, from the locks (CycloneDX; needs the package index)
	@set -e; $(find_python); \
	scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	"$$python" -m venv "$$scratch"; \
	"$$scratch/bin/python" -m pip install -qq "cyclonedx-bom>=7,<8"; \
	mkdir -p dist; \
	describe() { "$$scratch/bin/python" -W ignore -m cyclonedx_py requirements --output-reproducible --output-file "$$2" "$$1"; }; \
	describe deploy/requirements.lock dist/pdml.cdx.json; \
	describe requirements.lock dist/pdml-dev.cdx.json; \
	echo "Wrote dist/pdml.cdx.json and dist/pdml-dev.cdx.json."

# Sets $$python, or stops with one sentence.
define find_python
python=; seen=; \
for candidate in $(if $(PYTHON),"$(PYTHON)",$(CANDIDATES)); do \
	"$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	seen="$$candidate"; \
	if "$$candidate" -c 'import venv, ensurepip' 2>/dev/null; then python="$$candidate"; break; fi; \
done; \
if [ -z "$$seen" ]; then \
	echo "Python 3.11 or newer is needed, and none of these is one: $(if $(PYTHON),$(PYTHON),$(CANDIDATES)). Name one with PYTHON=/path/to/python." >&2; exit 1; \
fi; \
if [ -z "$$python" ]; then \
	echo "$$seen cannot create virtual environments: install its venv module (on Debian and Ubuntu the package python3-venv), then run make again." >&2; exit 1; \
fi
endef

$(LOCKED): requirements.lock
	@set -e; \
	if [ ! -x $(BIN)/python ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		$(find_python); \
		echo "Creating $(VENV) with $$("$$python" --version)"; \
		rm -rf $(VENV); \
		"$$python" -m venv $(VENV) || { \
			rm -rf $(VENV); \
			echo "$$python could not create a virtual environment in $(VENV): see the message above (on Debian and Ubuntu, install python3-venv)." >&2; exit 1; \
		}; \
	fi
	@echo "Installing the packages of requirements.lock (a minute or two the first time)"
# Exactly what the lock names (it is complete, and pip check says so): pip must not look for newer versions of it.
	@$(BIN)/python -m pip install -qq --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip check >/dev/null || $(BIN)/python -m pip check
	@touch $@

$(READY): $(LOCKED) pyproject.toml
	@echo "Installing pdml (editable)"
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@

# What an image holds; the rest is for those who develop.
DEPLOYED := --extra science --extra fast --extra collect --extra node --extra relay

lock: ## renew both requirements.lock with the newest versions pyproject.toml allows (needs the network)
	@set -e; $(find_python); \
	scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	"$$python" -m venv "$$scratch"; \
	"$$scratch/bin/python" -m pip install -qq uv; \
	compile() { "$$scratch/bin/uv" pip compile "$$@" --universal --python-version 3.11 --generate-hashes --quiet \
		--no-annotate --no-emit-index-url --no-emit-find-links --no-config --custom-compile-command "make lock"; }; \
	compile pyproject.toml $(DEPLOYED) --extra parquet --extra onnx --extra mlflow --extra ray --extra dev --upgrade --output-file requirements.lock; \
	echo "hatchling" | compile pyproject.toml - $(DEPLOYED) --constraints requirements.lock --upgrade --output-file deploy/requirements.lock; \
	echo "Renewed requirements.lock and deploy/requirements.lock: run make check test before committing it."

clean: ## remove .venv, caches and build output
	rm -rf $(VENV) .pythons dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
