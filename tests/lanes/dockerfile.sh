#!/usr/bin/env bash
# The Dockerfile that repo2docker would build of binder/ has what binder/ asks for.
# Usage: dockerfile.sh PYTHON, the version of binder/runtime.txt, with jupyter-repo2docker on PATH; `nox -s repo2docker` runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
pinned=$1

fail() { echo "binder: $*" >&2; exit 1; }

mkdir -p build
jupyter-repo2docker --no-build --debug . >build/Dockerfile.txt 2>&1 || fail "repo2docker: $(tail -1 build/Dockerfile.txt)"
for line in "Building conda environment for python=$pinned" 'install --yes --no-install-recommends g++ ' \
    'bin/pip install --no-cache-dir -r "binder/requirements.txt"' 'RUN ./binder/postBuild'; do
    grep -qF -- "$line" build/Dockerfile.txt || fail "build/Dockerfile.txt has no line with: $line"
done
