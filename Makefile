# `make plan` and `make test` do everything on a fresh machine; the rest is for working on the project.
STACK ?= timeslice
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check --quiet

# `make help` lists the targets by the text after `##`.
.PHONY: help plan test test-browser test-cluster test-engine test-faults test-gpu test-kills test-live test-ollama test-random test-scale test-slow test-wheel check lint coverage mutants docs recording bench refresh prices lock sbom site clean

help:  ## List these targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

plan: .venv/plan  ## Plan a stack without AWS and without Pulumi (STACK=dev)
	@.venv/bin/tandem plan $(STACK)

# Every Python of the tests reads compiled files of our modules and of the tests, even where the caller's environment
# says to write none: otherwise each compiles them again.
test test-slow test-random test-engine test-faults mutants: export PYTHONDONTWRITEBYTECODE =

# What most changes need: 45 to 80 seconds on two idle cores.
test: .venv/test  ## Run the tests that most changes need (one to three minutes)
	@.venv/bin/python -m pytest -n auto -m "not slow"

# The wheel outside the checkout, with packages from the package index. One test needs `pulumi` on the PATH.
test-wheel: .venv/test  ## Build the wheel and test it in a new environment
	@.venv/bin/python -m pytest tests/wheel

# Exhaustive tests: every order of creation, every key, every deletion, real processes.
test-slow: .venv/test  ## Run the exhaustive tests
	@.venv/bin/python -m pytest -n auto -m slow

# Both of these in another order each time. The last line names the seed; SEED=7 repeats an order.
test-random: .venv/test  ## Run `test` and `test-slow` in random order (SEED=7)
	@.venv/bin/python -m pytest -n auto -p randomly $(if $(SEED),--randomly-seed=$(SEED))

# A real Kubernetes control plane and Karpenter, with simulated nodes. Built once with Go: 11 minutes on two cores,
# then 3 to test.
test-cluster: .venv/test  ## Test against a real Kubernetes API server (needs Go)
	@.venv/bin/python -m pytest tests/cluster

# KEDA's real programs on that control plane: a request wakes a model, and Karpenter's core brings its node. Built once, too.
test-scale: .venv/test  ## Test scale-to-zero with the real KEDA (needs Go)
	@.venv/bin/python -m pytest tests/scale

# The real engine against the emulated cloud; skipped with that reason if `pulumi` is not on the PATH. A failing engine
# waits for seconds before it ends, so more tests run than there are cores.
test-engine: .venv/test  ## Test with the real `pulumi` against an emulated AWS
	@.venv/bin/python -m pytest -n 4 --maxschedchunk 1 tests/engine

# Errors and lost answers on create and on delete, for every single resource.
test-faults: .venv/test  ## Run `test-engine` with an error at every resource
	@TANDEM_EVERY_FAULT=1 .venv/bin/python -m pytest -n 4 --maxschedchunk 1 tests/engine/test_faults.py

# SIGKILL at 80 moments of up, switch and destroy, then the commands of `status`, word for word: 40 minutes on two cores.
# Resumes after an interruption, and writes tests/kills/results.md. KILLS="--seed 7" repeats a run; add
# "--trials 3" for one trial.
test-kills: .venv/test  ## Kill `pulumi` at 80 moments and recover (40 minutes)
	@.venv/bin/python -m tests.kills $(KILLS)

# The checks that need a real AWS account, with a cost cap and a destroy at the end: LIVE="--max-usd 35". A dry run against the
# emulated cloud without TANDEM_LIVE=1. See docs/how-to/run-the-live-checklist.md.
test-live: .venv/test  ## Run the live checklist (LIVE="--max-usd 35")
	@.venv/bin/python -m tests.live $(LIVE)

# Memory, shares and speed on this machine's GPU: docs/how-to/run-the-gpu-tier.md. It needs Python and no package, because
# machines with a GPU may have no network: `.venv` is used only if it exists. GPU="--dry-run" tries it on the CPU.
test-gpu:  ## Measure this machine's NVIDIA GPU (GPU="--dry-run")
	@$(or $(wildcard .venv/bin/python),$(PYTHON)) -m tests.gpu $(GPU)

# chat, bench, report and the start of a model, with the `ollama` on the PATH; skipped with that reason if there is none.
test-ollama: .venv/test  ## Test with the real `ollama`
	@.venv/bin/python -m pytest -n auto tests/ollama

check: lint coverage test test-slow  ## Run lint, coverage, test and test-slow

lint: .venv/test  ## Check format, lint, spelling and types
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/codespell
	.venv/bin/python -m tests.english
	.venv/bin/mypy

# People rely on the rules, so every line and branch of them is tested. Some judge the arguments of components alone.
OF_PROGRAMS = tests/components/test_arguments.py tests/components/test_own_programs.py tests/catalogue/test_quantized.py
coverage: .venv/test  ## Check that tests reach every line of the rules
	.venv/bin/coverage run -m pytest -q tests/sharing tests/stacks $(OF_PROGRAMS)
	.venv/bin/coverage report

# Makes 200 small faults in the committed code, one at a time, and counts those that no test notices.
# MUTANTS="--seed 7" makes the same ones again. It writes tests/mutants/results.md.
mutants: .venv/test  ## Count the small faults that no test notices
	@.venv/bin/python -m tests.mutants $(MUTANTS)

# The site in the browser that TANDEM_BROWSER names, or in the `chromium` on the PATH; skipped with that reason if there is none.
test-browser: .venv/site  ## Test the documentation site in a browser
	@.venv/bin/python -m pytest tests/browser

# Warnings are errors: broken links, missing anchors, pages outside the navigation. `--quiet` would hide and ignore them.
site: .venv/site  ## Build the documentation site into build/site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict
	@echo "Wrote build/site/index.html"

recording: .venv/site  ## Record the terminal of the README (needs `pulumi`)
	@.venv/bin/python docs/recording.py

docs: .venv/test  ## Write the files that are generated from the code
	.venv/bin/python docs/generate.py

bench: .venv/test  ## Measure the command, and its forecast of speeds
	@.venv/bin/python -m tests.bench.speed
	@.venv/bin/python -m tests.bench.plan

# Reads the offers and prices of AWS by region into sharing/data, with credentials of any account. It changes nothing in AWS.
refresh: .venv/test  ## Read offers and prices from AWS into the tables
	.venv/bin/python -m tandem.prices.refresh $(REGIONS)
	.venv/bin/python docs/generate.py

# The workflow prices.yml runs it every week: from AWS's public price files and the Spot Advisor, without credentials. It writes what
# it can read, and fails if a file could not be read.
prices: .venv/test  ## Read the public price files of AWS into the tables
	.venv/bin/python -m tandem.prices.weekly; read=$$?; .venv/bin/python docs/generate.py && exit $$read

# Locked packages, images and charts as CycloneDX JSON.
sbom: .venv/test  ## Write the project's components as CycloneDX JSON
	@.venv/bin/python -m catalogue.sbom build/tandem.cdx.json
	@echo "Wrote build/tandem.cdx.json"

# Names, versions and hashes; no index address.
lock: .venv/test  ## Update the lock files
	.venv/bin/python -m uv pip compile pyproject.toml --extra build $(LOCK) -o requirements.txt
	.venv/bin/python -m uv pip compile pyproject.toml --extra dev -c requirements.txt $(LOCK) -o requirements-dev.txt
	.venv/bin/python -m uv pip compile --group docs -c requirements-dev.txt $(LOCK) -o requirements-docs.txt
	.venv/bin/python -m uv pip compile --group policy $(LOCK) -o policy/requirements.txt
LOCK = --upgrade --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url

clean:  ## Remove the files of these targets
	rm -rf .venv .tandem build *.egg-info

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "tandem needs Python 3.11 or later: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Making .venv"
	@$(PYTHON) -m venv .venv

# Without a network, pip repeats itself and then names the first package: `Retry(total=0` is its last attempt.
define INSTALL
$(PIP) install --require-hashes -r $(1) 2> .venv/pip.log || { \
  if grep -q 'Retry(total=0' .venv/pip.log; \
  then echo "error: cannot reach the package index. Check the network, the proxy and PIP_INDEX_URL, then try again."; \
  else cat .venv/pip.log; fi; exit 1; } >&2
endef

.venv/plan: .venv/bin/python requirements.txt pyproject.toml
	@echo "Installing the packages of the plan (about half a minute)"
	@$(call INSTALL,requirements.txt)
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.venv/test: .venv/plan requirements-dev.txt
	@echo "Installing the packages of the tests"
	@$(call INSTALL,requirements-dev.txt)
	@touch $@

.venv/site: .venv/test requirements-docs.txt
	@echo "Installing the packages of the site"
	@$(call INSTALL,requirements-docs.txt)
	@touch $@
