# `make` lists the targets. Everything runs in a virtual environment, .venv.
PYTHON ?= python3
VENV := .venv
# pynq depends on libraries that do not support Python 3.13 and later; its tests are skipped there.
PYNQ := $(shell $(PYTHON) -c 'import sys; print("$(VENV)-pynq-z7 $(VENV)-pynq-zu" * (sys.version_info < (3, 13)))')
TORCH := $(VENV)-torch
LITEX := $(VENV)-litex
DOCS := $(VENV)-docs
LOWEST := $(VENV)-lowest
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
OUT ?= runs/demo
SPARSE_OUT ?= runs/sparse-demo
SPARSE_SECONDS ?= 90
MINUTES ?= 10
MUTANTS ?= 850
BOARD ?= pynq-z2
PAPER ?= zipml
PYTHONS ?=
PYTHON310 ?= python3.10
EXTRAS := sim cli datasets fast sparse metrics serve
BOARD_TESTS := $(addprefix tests/host/,contract driver reference selftest estimators/test_sgd.py estimators/test_sgd_tables.py)
EXTRAS_TESTS := $(addprefix tests/host/,data estimators/test_sgd_tables.py estimators/test_sklearn.py levels reporting \
    sparse/batches sparse/estimators sparse/parameters sparse/serving/test_messages.py sparse/serving/test_web.py)
RELEASE_TO ?= dist

# pytest keeps the tests that it has compiled, so that each process of a run need not compile all of them again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo sparse-demo test check slow pynq torch litex environments reproduce formal lint bench levels compression soak cov mutate synth netlist toolchain bitstream docs links plots dist release lowest nightly newcomer clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## train on handwritten digits at several precisions on the simulated hardware, and compare a fit with scikit-learn's
	$(BIN)/bitlane compare digits --bits 2,4,8,32 --sampling double,nearest,naive --learning-rate 0.05 \
	    --device rtl --out $(OUT)
	$(BIN)/python -m bitlane_studies.end_to_end --equal-epochs

sparse-demo: $(STAMP) ## train on a drifting click log while publishing, validating and serving for SPARSE_SECONDS (90); table and plot in SPARSE_OUT (runs/sparse-demo)
	$(BIN)/python -m bitlane_studies.sparse.loop --seconds $(SPARSE_SECONDS) --out $(SPARSE_OUT)

test: $(STAMP) $(firstword $(PYNQ:%=%/installed)) ## the quick tests, 8 minutes on two cores; lists the tests left for `make check`
	@[ -n "$(PYNQ)" ] || echo "tests of boards left out: pynq runs on Python 3.10 to 3.12 (make test PYTHON=python3.12)"
	@# `make check` and `make test pynq` run the board tests once, in the target pynq.
	$(if $(PYNQ),$(if $(filter pynq check,$(MAKECMDGOALS)),,$(firstword $(PYNQ))/bin/pytest -m "pynq and not slow"))
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" --hypothesis-profile quick

check: lint test docs slow pynq torch litex formal ## everything: style, types, all tests, proofs, documentation

slow: $(STAMP) ## the long tests, and the property tests with all examples: half an hour or more
	$(BIN)/pytest -n 2 --dist worksteal -rs -m "slow or hypothesis"

pynq: $(PYNQ:%=%/installed) ## the board tests, with both versions of pynq
	@for venv in $(PYNQ); do echo $$venv/bin/pytest -m pynq; $$venv/bin/pytest -m pynq || exit 1; done

torch: $(TORCH)/installed ## types and quick tests that need torch (networks, gradient compression), in a separate environment; `make check` adds the slow ones
	$(TORCH)/bin/mypy --cache-dir .mypy_cache/torch
	$(TORCH)/bin/pytest -m "torch$(if $(filter check,$(MAKECMDGOALS)),, and not slow)"

litex: $(LITEX)/installed ## digits trained in a simulated LiteX SoC, whose memory controller is LiteDRAM, in a separate environment
	$(LITEX)/bin/pytest -m litex

environments: $(STAMP) $(TORCH)/installed $(PYNQ:%=%/installed) $(DOCS)/installed ## install what `.ci/run` needs; --jobs=2 installs two at a time

reproduce: $(TORCH)/installed ## measure the claims of PAPER (zipml; lqsgd, micro, mqgrad) into docs/PAPER.md
	$(TORCH)/bin/bitlane reproduce $(PAPER) --out docs/$(PAPER).md

formal: $(STAMP) ## no path from an input to an output; stream and AXI protocols and data order, proved by induction
	$(BIN)/python -m bitlane_verify.formal.port_paths
	$(BIN)/python -m bitlane_verify.formal

lint: $(STAMP) ## style, types, import rules, and words with one meaning
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# The last numpy for Python 3.10 is 2.2, whose types are less exact.
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then echo $(BIN)/mypy; $(BIN)/mypy; \
	    else echo "types left out: they are checked on Python 3.11 and later (make lint PYTHON=python3.11)"; fi
	$(BIN)/lint-imports
	$(BIN)/python .ci/names.py

bench: $(STAMP) ## cycles against bounds, time to the 32-bit loss, staleness, simulation speed, levels, encoding
	@date -u +'measured %Y-%m-%d'
	$(BIN)/python -m bitlane_verify.benchmarks.throughput --wide
	$(BIN)/python -m bitlane_studies.time_to_loss
	$(BIN)/python -m bitlane_studies.staleness docs/staleness.svg
	$(BIN)/python -m bitlane_verify.benchmarks.sim_speed
	$(BIN)/python -m bitlane_studies.levels_speed
	$(BIN)/python -m bitlane_studies.encode_speed

levels: $(STAMP) ## training with optimal levels on nine data sets: about half an hour
	$(BIN)/python -m bitlane_studies.levels_training

compression: $(TORCH)/installed ## every gradient compressor in 2 to 8 processes: bytes at the socket, hangs, codec speed
	$(TORCH)/bin/python -m bitlane_studies.compression.wire_bytes
	$(TORCH)/bin/python -m bitlane_studies.compression.wire_bytes --values 600000 --steps 200 --timeout 1800
	$(TORCH)/bin/python -m bitlane_studies.compression.density --controllers quotas
	$(TORCH)/bin/bitlane bench-compress
	$(TORCH)/bin/python -m bitlane_studies.compression.stock

soak: $(STAMP) ## random runs of RTL against numpy reference for MINUTES (10)
	$(BIN)/python -m bitlane_verify.equivalence.soak --minutes $(MINUTES)

cov: $(STAMP) ## functional and code coverage of the RTL in random runs: 5 to 20 minutes
	$(BIN)/python -m bitlane_verify.coverage

synth: $(STAMP) ## area and speed from open tools, written to docs/results.md
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e './verify[synth]'
	$(BIN)/python -m bitlane_verify.implementation.area_and_timing

netlist: $(STAMP) ## random runs of the synthesised netlist against the numpy reference
	$(BIN)/python -m bitlane_verify.implementation.netlist

mutate: $(STAMP) ## mutation testing of the RTL with MUTANTS (850) mutants, into docs/mutation.md
	$(BIN)/python -m bitlane_verify.mutation --count $(MUTANTS)

toolchain: $(STAMP) ## install the bitstream tools into the cache (Yosys, project X-Ray, patched nextpnr): ten minutes
	$(BIN)/python -m bitlane_verify.implementation.bitstream.install

bitstream: $(STAMP) ## build bitstreams/CHIP for all boards with the chip of BOARD (pynq-z2), with open tools: ten minutes
	$(BIN)/python -m bitlane_verify.implementation.bitstream $(BOARD)

docs: $(DOCS)/installed ## build the documentation in build/docs; fails on warnings, broken links and undocumented names
	$(DOCS)/bin/python -m bitlane_hw.export.register_docs docs/registers.md
	$(DOCS)/bin/sphinx-build --fail-on-warning --keep-going --quiet -d build/doctrees -b html docs build/docs
	@echo "open build/docs/index.html"

links: $(DOCS)/installed ## check the external links of the documentation: needs the internet
	$(DOCS)/bin/sphinx-build --quiet -d build/doctrees -b linkcheck docs build/links

plots: $(STAMP) ## measure and draw the plots of the first page and of "When to use what": needs BITLANE_DATA, half an hour
	for plot in thesis which_data bits sampling draws learning_rate; do $(BIN)/python docs/plots/$$plot.py || exit 1; done

dist: $(STAMP) ## build sdist and wheel, install them for PYTHONS (every supported one) with numpy only, and train
	$(BIN)/python .ci/dist.py $(PYTHONS)

release: $(STAMP) ## after `make dist lowest`, tag VERSION and build the distributions and notes into RELEASE_TO (dist); publishes nothing
	@$(BIN)/python .ci/release.py "$(VERSION)" --to "$(RELEASE_TO)"

lowest: $(LOWEST)/installed ## tests with the lowest versions that pyproject.toml allows: numpy alone and a simulated board as on a PYNQ-Z2, then the extras; Python 3.10
	$(LOWEST)/board/bin/python -m bitlane.cli selftest --device emulator
	$(LOWEST)/board/bin/pytest -m "not slow" -k "not takes_less_than" --hypothesis-profile quick $(BOARD_TESTS)
	$(LOWEST)/pynq/bin/pytest -m "pynq and not slow"
	$(LOWEST)/extras/bin/pytest -m "not slow" --hypothesis-profile quick $(EXTRAS_TESTS)

nightly: $(STAMP) ## figures of proofs, coverage, random runs and speed, MINUTES (10) each, into docs/history/DATE.json
	$(BIN)/python .ci/nightly.py --minutes $(MINUTES)

newcomer: $(STAMP) ## seconds and megabytes of the README's first successes, with an empty home
	$(BIN)/python .ci/newcomer.py

clean: ## remove the environment and everything made, but the cache of built simulators
	rm -rf $(VENV) $(TORCH) $(LITEX) $(DOCS) $(LOWEST) $(PYNQ) docs/reference/api docs/gallery build dist runs .pytest_cache .mypy_cache .ruff_cache
	find host hw sim studies verify tests -name __pycache__ -type d -prune -exec rm -rf {} +

# pynq needs older versions of numpy, protobuf and setuptools than the rest, hence separate environments.
$(PYNQ:%=%/installed): $(VENV)-%/installed: $(STAMP)
	$(PYTHON) -m venv $(@D)
	grep -v -e ^numpy -e ^protobuf constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/pip install --quiet --disable-pip-version-check -c $(@D)/constraints.txt -e '.[sim,$*]' pytest pytest-timeout matplotlib
	$(@D)/bin/pip install --quiet --disable-pip-version-check --no-deps -e ./verify
	@touch $@

# torch is large, so it is installed only where it is needed.
$(TORCH)/installed: $(STAMP)
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sim,cli,datasets,fast,sparse,torch,gpu]' -e './studies[torch]' pytest pytest-timeout hypothesis mypy expecttest
	$(TORCH)/bin/pip install --quiet --disable-pip-version-check --no-deps -e ./verify
	@touch $@

# Only the SoC of this target needs LiteX.
$(LITEX)/installed: $(STAMP)
	$(PYTHON) -m venv $(LITEX)
	$(LITEX)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cocotb,cli,datasets]' -e './verify[litex]' pytest-timeout
	@touch $@

# uv writes the lowest versions that pyproject.toml allows together; what it does not name is the newest.
$(LOWEST)/installed: pyproject.toml
	@$(PYTHON310) -c 'import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null || \
	    { echo "make lowest needs Python 3.10 with its venv module: make lowest PYTHON310=/path/to/python3.10" >&2; exit 1; }
	@mkdir -p $(LOWEST)
	grep -e ^pytest -e ^hypothesis constraints.txt > $(LOWEST)/constraints.txt
	for venv in board extras; do \
	    $(PYTHON310) -m venv $(LOWEST)/$$venv && \
	    $(LOWEST)/$$venv/bin/pip install --quiet --disable-pip-version-check uv && \
	    $(LOWEST)/$$venv/bin/uv pip compile --quiet --resolution lowest-direct --python $(LOWEST)/$$venv/bin/python \
	        $$([ $$venv = board ] || echo $(EXTRAS:%=--extra %)) pyproject.toml --output-file $(LOWEST)/$$venv.txt >/dev/null && \
	    $(LOWEST)/$$venv/bin/pip install --quiet --disable-pip-version-check -c $(LOWEST)/constraints.txt \
	        -r $(LOWEST)/$$venv.txt pytest pytest-timeout hypothesis && \
	    $(LOWEST)/$$venv/bin/pip install --quiet --disable-pip-version-check --no-deps -e . || exit 1; \
	done
	$(PYTHON310) -m venv $(LOWEST)/pynq
	{ cat $(LOWEST)/constraints.txt; grep ^numpy== $(LOWEST)/board.txt; } > $(LOWEST)/pynq.txt
	$(LOWEST)/pynq/bin/pip install --quiet --disable-pip-version-check -c $(LOWEST)/pynq.txt -e '.[sim,pynq-z7]' pytest pytest-timeout matplotlib
	$(LOWEST)/pynq/bin/pip install --quiet --disable-pip-version-check --no-deps -e ./verify
	@touch $@

# The generator of the documentation and its forty packages are no business of the tests. It runs the examples.
$(DOCS)/installed: pyproject.toml studies/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs,cli,datasets,fast,sparse]'
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --no-deps -e ./studies
	@touch $@

$(STAMP): pyproject.toml studies/pyproject.toml verify/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	    { echo "bitlane needs Python 3.10 or later, and $(PYTHON) is not that: make PYTHON=python3.11" >&2; exit 1; }
	@for tool in g++ perl; do command -v $$tool >/dev/null || \
	    { echo "bitlane's simulator needs $$tool, which is not installed (Debian, Ubuntu: apt install g++ perl)" >&2; exit 1; }; done
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	    { echo "$(PYTHON) cannot make virtual environments (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[sim,cocotb,cli,datasets,fast,sparse,metrics,serve,ray,dev,dist]' -e ./verify -e ./studies
	@touch $@
