# make app: the page, in a virtual environment of its own.
# make test: lint and the fast tests.  make test-all: the slow ones and Ray's, too (many draws, many visitors, long runs).
# make audit: faults that bandit knows, licences, known vulnerabilities.  make lock: requirements.lock anew.
# make gpu-check: on a machine with CUDA, exactness, costs of rounds and batches, as one line of JSON.
# make hub-generate: what the Hub serves to generate(custom_generate=...), in build/hub.
# make space: a Hugging Face Space in OUT.  make space-test: install and start it, as a Space would.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/pip --quiet --disable-pip-version-check install
MODEL ?= embedded
DRAFT ?=
DEVICE ?=
HOST ?= 127.0.0.1
PORT ?= 7860
OUT ?= build/space

OTHERS := $(foreach name,nodeps dev mcp train cluster int8,-r requirements-$(name).txt)

.PHONY: app test test-all lint audit lock gpu-check hub-generate space space-test clean

app: $(VENV)/app.done
	MODEL=$(MODEL) DRAFT=$(DRAFT) DEVICE=$(DEVICE) $(VENV)/bin/python app.py --host $(HOST) --port $(PORT)

test: $(VENV)/dev.done lint
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: $(VENV)/cluster.done lint
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/dev.done
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/deptry .

# requirements.lock names what the others bring; --strict fails where a package could not be looked up.
audit: $(VENV)/dev.done
	$(VENV)/bin/bandit --quiet --recursive --configfile pyproject.toml app.py pcg explorers
	$(VENV)/bin/pip-licenses --packages $$(sed -n 's/^\([a-z0-9._-]*\)==.*/\1/p' requirements.lock)
	@mkdir -p build
	@for files in "--require-hashes -r requirements.lock" "--no-deps $(OTHERS)"; do \
		$(VENV)/bin/pip-audit --strict --disable-pip $$files 2> build/audit.log && tail -n 1 build/audit.log && continue; \
		if grep -q '^Traceback' build/audit.log; then \
			echo "Known vulnerabilities could not be looked up: pip-audit needs the network; what it said is in build/audit.log."; \
		else cat build/audit.log; fi >&2; exit 1; \
	done

lock: $(VENV)/dev.done
	$(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command "make lock: Linux x86_64, Python 3.11 or newer; pip install --no-deps --require-hashes -r requirements.lock" \
		--output-file requirements.lock requirements.txt requirements-nodeps.txt

gpu-check: $(VENV)/dev.done
	$(VENV)/bin/python -m pcg.bench.gpu

hub-generate: $(VENV)/app.done
	$(VENV)/bin/python -m pcg.serving.staging hub build/hub

space: $(VENV)/app.done
	$(VENV)/bin/python -m pcg.serving.staging space $(OUT) --model $(MODEL)

space-test: space $(VENV)/dev.done
	$(PYTHON) -m venv --clear $(OUT).venv
	$(OUT).venv/bin/pip --quiet --disable-pip-version-check install -r $(OUT)/requirements.txt
	SPACE=$(OUT) SPACE_PYTHON=$(OUT).venv/bin/python $(VENV)/bin/python -m pytest tests/serving/space/test_space.py -k as_a_space_would

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

$(VENV)/cluster.done: requirements-cluster.txt $(VENV)/dev.done
	$(PIP) -r requirements-cluster.txt
	touch $@

clean:
	rm -rf $(VENV) cache/* build
