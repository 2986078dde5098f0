#!/usr/bin/env bash
# A notebook in the environment that repo2docker would make of binder/, without docker.
# Usage: binder.sh VENV: the pinned Python with binder/requirements.txt, which `nox -s binder` makes.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=$(realpath "$1") pinned=$(sed s/python-// binder/runtime.txt)

fail() { echo "binder: $*" >&2; exit 1; }

echo "binder: the environment of the lock, as it is without pyopnb"
"$venv/bin/python" -c "import sys; assert '%d.%d' % sys.version_info[:2] == '$pinned', sys.version"
"$venv/bin/python" -m pip uninstall -q -y pyopnb 2>/dev/null
"$venv/bin/python" -m pip check

# A copy, so that what postBuild leaves behind is not left here; it stands at its place, where the notebooks' kernel finds it. Without
# the caches that other lanes write meanwhile.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar --exclude='./.*' --exclude=./build --exclude='*.so' --exclude=__pycache__ -cf - . | tar -xf - -C "$copy"
cd "$copy"
export PATH=$venv/bin:$PATH
# It is built to see that it can be, and not to be fast: without optimizing, the compiler takes half the time.
export SKBUILD_CMAKE_DEFINE="CMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"

echo "binder: postBuild"
binder/postBuild
python -m pip check

echo "binder: a notebook, and a console in the root"
jupyter execute notebooks/00_first_op.ipynb
python -c "import pyopnb.engine.runtime.session.session"

echo "binder: postBuild fails where the bridge does not compile"
sed -i '1i #error on purpose' pyopnb/engine/runtime/bridge/bridge.cpp
# One file after the other, the bridge first: what is compiled beside it would be compiled to its end, for nothing.
if CMAKE_BUILD_PARALLEL_LEVEL=1 binder/postBuild >broken.log 2>&1; then fail "postBuild went on after an error of the compiler"; fi
grep -q "on purpose" broken.log || fail "postBuild failed for another reason: $(tail -1 broken.log)"
