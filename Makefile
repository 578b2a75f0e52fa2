# make run: a whole co-evolution run.   make test: all tests.   Both set the environment up first.
ARGS ?=

.PHONY: run test setup check doctor clean

run: setup
	@.venv/bin/coda run $(ARGS)

test: setup
	@.venv/bin/pytest $(ARGS)

setup:
	@./setup.sh

check: setup # what CI checks before the tests
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

doctor: setup
	@.venv/bin/coda doctor

clean: # the environment and all caches; runs/ stays
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
