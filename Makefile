# make lab       JupyterLab on the first notebook
# make demo      the notebook on a missing operator, executed, as a page in build/
# make test      everything that must pass
# make test-all  the same, with the long tests, on every Python, the corpus and the wheels
# make lint, make docs, make bench  one lane each
# make clean     removes everything that the others made
#
# The lanes are in noxfile.py: `.nox-tool/bin/nox -l` lists them.

.PHONY: lab demo test test-all lint docs bench clean
unexport PYTHONPATH VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
nox := .nox-tool/bin/nox

# No question about news between a newcomer and the first cell; binder/postBuild does the same.
lab: .venv/.made
	@.venv/bin/python -m jupyter labextension disable "@jupyterlab/apputils-extension:announcements"
	.venv/bin/python -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_first_op.ipynb

demo: .venv/.made
	.venv/bin/python -m nbconvert --execute --to html --output-dir build --output demo notebooks/03_missing_operator.ipynb
	@echo "The executed notebook is in $(CURDIR)/build/demo.html"

test: $(nox)
	@$(nox) -s test

test-all: $(nox)
	@PYOPNB_EVERYWHERE=yes $(nox) -s test

lint docs bench: $(nox)
	@$(nox) -s $@

native := $(shell find pyopnb -name '*.cpp' -o -name '*.h' -o -name CMakeLists.txt)
labextension := $(wildcard pyopnb/display/netron_page/*.js) pyopnb/display/netron_page/assets.py

.venv/.made: $(nox) pyproject.toml $(native) $(labextension)
	@$(nox) -s dev
	@touch $@

# nox, a pip that knows --group, and uv, if that can be had, which takes a fifth of the time.
python = $(lastword $(subst =, ,$(firstword $(shell tests/lanes/pythons.sh))))
$(nox):
	@[ -n "$(python)" ] || { echo "No Python 3.11, 3.12 or 3.13 with venv and headers. Type: apt install python3-venv python3-dev" >&2; exit 1; }
	@command -v "$${CXX:-g++}" >/dev/null || { echo "No C++ compiler. Type: apt install g++" >&2; exit 1; }
	rm -rf .nox-tool && $(python) -m venv .nox-tool
	.nox-tool/bin/python -m pip install -q --upgrade --only-binary=:all: 'pip>=25.1' nox uv || \
		.nox-tool/bin/python -m pip install -q --upgrade 'pip>=25.1' nox

clean:
	rm -rf build dist .venv .nox .nox-tool .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
