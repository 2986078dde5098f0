#!/usr/bin/env bash
# A wheel as it could be given away, checked, and used where there is no compiler.
# Usage: use.sh TOOLS SYSTEM BUILT OUT CACHE PYTHON...: an environment with auditwheel and the like, what cross.py has built for the system in
# the folder BUILT, the folder for the result, the folder of the systems' lanes, and the Pythons of this machine that the wheel is for.
set -euo pipefail
cd "$(dirname "$0")/../../.."
tools=$(realpath "$1") system=$2 built=$(realpath "$3") out=$4 cache=$5
shift 5

fail() { echo "wheel: $*" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
wheel=$(echo "$built"/*.whl)
mkdir -p "$out"
case $system in
linux-*)
    PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair -w "$scratch/repaired" "$wheel" >"$scratch/repair.log" 2>&1 ||
        fail "auditwheel: $(tail -3 "$scratch/repair.log")"
    wheel=$(echo "$scratch"/repaired/*.whl)
    case $wheel in *-manylinux_*.whl | *-manylinux2014_*.whl) ;; *) fail "of no Linux but this one: $(basename "$wheel")" ;; esac
    # Nothing goes along: what the modules need, every Linux of that tag has.
    if "$tools/bin/python" -m zipfile -l "$wheel" | grep -F pyopnb.libs; then fail "it brings libraries of this machine"; fi
    ;;
macos) "$tools/bin/python" -P tests/lanes/wheels/mach_o.py "$wheel" ;;
esac
cp "$wheel" "$out"
wheel=$(realpath "$out/$(basename "$wheel")")
"$tools/bin/check-wheel-contents" "$wheel"
case $wheel in *-abi3-*) "$tools/bin/abi3audit" --strict "$wheel" ;; esac
echo "wheel: $wheel, $(($(stat -c %s "$wheel") / 1024)) KB"

# In Wine and qemu, in place of the package that their lanes have put there.
emulated() {
    local lane=tests/lanes/systems/$1.sh site=$cache/$2
    case $wheel in *-abi3-*) ;; *) echo "wheel: not used, as Python is 3.13 there"; return ;; esac
    [ -e "$cache/$1/digest" ] || { echo "wheel: not used, for lack of $cache/$1 (nox -s $1)"; return; }
    rm -rf "$site"/pyopnb "$site"/pyopnb-*.dist-info
    "$tools/bin/python" -m zipfile -e "$wheel" "$site"
    # -E: without the compiler that the lane gives by PYTHONPATH.
    "$lane" "$cache" python -B -E -P tests/lanes/used_wheel.py --no-compiler
}

# Of the programs of the machine, none: what the environment has must do.
native() {
    local python alone
    cp tests/lanes/used_wheel.py "$scratch"
    for python in "$@"; do
        rm -rf "$scratch/env" "$scratch/home"
        mkdir "$scratch/home"
        "$python" -m venv --without-pip "$scratch/env"
        "$tools/bin/python" tests/lanes/install.py "$scratch/env" --only-binary=:all: "$wheel"
        alone=(env -i HOME="$scratch/home" PATH="$scratch/env/bin" "$scratch/env/bin/python" -P -W error)
        (cd "$scratch/home" && "${alone[@]}" "$scratch/used_wheel.py" --no-compiler && "${alone[@]}" -m pyopnb --version >/dev/null)
    done
}

case $system in
linux-x86_64) native "$@" ;;
linux-aarch64) emulated aarch64 aarch64/root/usr/lib/python3/dist-packages ;;
windows) emulated windows windows/cp313/Lib/site-packages ;;
esac
