# make app: the page, in a virtual environment of its own.  make test: lint and the whole test suite.
PYTHON ?= python3
VENV := .venv
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

$(VENV)/app.done: requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/dev.done: requirements-dev.txt requirements.txt | $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@ $(VENV)/app.done

clean:
	rm -rf $(VENV) cache/*
