# make app: the page, in a virtual environment of its own.  make test: lint and the whole test suite.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip --quiet --disable-pip-version-check install
MODEL ?= embedded
HOST ?= 127.0.0.1
PORT ?= 7860

.PHONY: app test lint clean

app: $(VENV)/app.done
	$(VENV)/bin/python app.py --model $(MODEL) --host $(HOST) --port $(PORT)

test: $(VENV)/dev.done lint
	$(VENV)/bin/python -m pytest

lint: $(VENV)/dev.done
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "PCG Lab needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/app.done: requirements.txt requirements-nodeps.txt | $(VENV)/bin/python
	$(PIP) -r requirements.txt
	$(PIP) --no-deps -r requirements-nodeps.txt
	touch $@

$(VENV)/dev.done: requirements-dev.txt $(VENV)/app.done
	$(PIP) -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) cache/*
