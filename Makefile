# Everything here starts from nothing but Python 3.11 or newer and the package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ./data
export OTTLA_TESTS
# Hundreds of tests start a broker in a process of its own: without a cache each compiles all that it loads.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest --quiet --numprocesses logical $(if $(SHUFFLE),--shuffle $(SHUFFLE))

.PHONY: run test test-broker check lint types docs pages example format schemas compat-quick nightly bench release clean help

help:
	@echo "make run           a broker on localhost:9092, data in ./data"
	@echo "make test          all tests, on all processors; SHUFFLE=7: in a random order, the same for each number"
	@echo "make test-broker   those of the broker: neither Spark nor a JDK is downloaded for them"
	@echo "make check         format, lint, types, import contracts, tests"
	@echo "make docs          the site of docs/, in build/docs"
	@echo "make pages         the pages of docs/ that are made from the code, written anew"
	@echo "make example       a change feed, Spark's Structured Streaming into a table, nightly compaction and snapshots"
	@echo "make schemas       fetch Apache Kafka's message definitions, which a test compares ours with (needs Maven)"
	@echo "make compat-quick  other programs judge us, about six minutes"
	@echo "make nightly       all of that, at full length"
	@echo "make bench         Ottla beside Apache Kafka, kfake and librdkafka's mock cluster: compat/bench/REPORT.md, WAITS.md"
	@echo "make release       what is published of the last commit, into dist/ (docs/releasing.md; needs Python 3.11)"

# What an earlier build left would be taken for the new kernel if its compilation failed.
STALE := build storage/kernel.c storage/kernel*.so

# All that the tests need; and what the broker's tests need alone.
$(BIN)/.ready: EXTRA := dev
$(BIN)/.ready-broker: EXTRA := test
$(BIN)/.ready $(BIN)/.ready-broker: pyproject.toml storage/kernel.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer; call make with PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	rm -rf $(STALE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRA)]'
	@touch $@

# The broker alone: no test tools.
$(VENV)-run/.ready: pyproject.toml storage/kernel.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ottla needs Python 3.11 or newer; call make with PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)-run
	rm -rf $(STALE)
	$(VENV)-run/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

run: $(VENV)-run/.ready
	@$(VENV)-run/bin/ottla serve --profile dev --listener localhost:9092 --data $(DATA) --hello

test: $(BIN)/.ready
	$(PYTEST)

test-broker: $(BIN)/.ready-broker
	$(PYTEST) tests/protocol tests/storage tests/server

# What takes seconds comes first; then types beside the tests.
check: lint
	$(MAKE) --jobs types test

lint: $(BIN)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache

types: $(BIN)/.ready
	$(BIN)/mypy

# The generator has an environment of its own, so that tests need none of it.
$(VENV)-docs/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' >$(VENV)-docs/requirements.txt
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check -r $(VENV)-docs/requirements.txt
	@touch $@

# Those that are made from the code; tests compare them with it.
pages: $(BIN)/.ready
	cd tests && for page in broker.calls_listed broker.reference_pages commands.commands_page authorization.rights_page \
		texts.compaction_picture texts.configuration_page texts.metrics_page texts.python_api_page texts.read_options_table; do \
		../$(BIN)/python -m support.$$page || exit 1; done

docs: $(VENV)-docs/.ready
	@$(VENV)-docs/bin/python docs/site/build.py

# Python and the package index are enough; with Maven the job reads through Spark's own Kafka connector.
example: $(BIN)/.ready
	$(BIN)/python examples/change_feed/run.py

# The messages are compared with the definitions in these jars; without them that test is skipped.
schemas:
	@command -v mvn >/dev/null || { echo "make schemas needs Maven (mvn)" >&2; exit 1; }
	mvn -B -q dependency:get -Dtransitive=false -Dartifact=org.apache.kafka:kafka-clients:4.4.0
	mvn -B -q dependency:get -Dtransitive=false -Dartifact=org.apache.kafka:kafka-group-coordinator:4.4.0
	mvn -B -q dependency:get -Dtransitive=false -Dartifact=org.apache.kafka:kafka-share-coordinator:4.4.0
	mvn -B -q dependency:get -Dtransitive=false -Dartifact=org.apache.kafka:kafka-transaction-coordinator:4.4.0

format: $(BIN)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

compat-quick: $(BIN)/.ready
	$(BIN)/python -m compat.run quick

nightly: $(BIN)/.ready
	$(MAKE) test OTTLA_TESTS=full SHUFFLE=$(shell date +%Y%m%d)
	$(BIN)/python -m compat.run nightly

# What is missing of Java, Maven, Go and a C compiler is named, and the rest measured. BENCH="--quick --rows small", say.
bench: $(BIN)/.ready
	$(BIN)/python -m compat.bench.race $(or $(BENCH),--write)
	$(if $(BENCH),,$(BIN)/python -m compat.bench.mixed)
	$(if $(BENCH),,$(BIN)/python -m compat.bench.waits --write)

# The tools' versions are pinned, as they decide the bytes.
$(VENV)-release/.ready: compat/release/requirements.txt
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement compat/release/requirements.txt
	@touch $@

release: $(VENV)-release/.ready
	$(VENV)-release/bin/python -m compat.release $${TAG:+--tag "$$TAG"}

clean:
	rm -rf $(VENV) $(VENV)-run $(VENV)-docs $(VENV)-release $(STALE) dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
