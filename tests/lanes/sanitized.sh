# Sourced by asan.sh and tsan.sh, which set `python`, `site` and `sanitizers`.

# Path of one of the compiler's runtime libraries.
runtime() {
    local path
    path=$("${CXX:-g++}" -print-file-name="$1")
    if [ ! -e "$path" ]; then
        echo "$1 is missing. Type: apt install g++ (its libgcc-*-dev package holds it)" >&2
        return 1
    fi
    echo "$path"
}

# Fails unless Python imports the build in `site`, and its modules hold the symbol: a lane must not pass on plain ones.
instrumented() {
    local module
    for module in "$site"/pyopnb/engine/runtime/_bridge.*.so "$site"/pyopnb/diffs/arrays/_stats.*.so; do
        grep -q "$1" "$module" || { echo "$module is not built for this lane" >&2; return 1; }
    done
    PYTHONPATH=$site "$python" -P - "$site" <<'PY'
import importlib.util
import sys

found = importlib.util.find_spec("pyopnb").origin
assert found.startswith(sys.argv[1]), f"Python would import {found}"
PY
}

# pytest on the instrumented build. -P: the repository's root must not come before `site`. --capture=sys: a sanitizer writes
# its report to file descriptor 2 and ends the process; pytest would die with the report in its pocket. Ops in C++ are compiled for
# the sanitizer too, by a compiler without it.
tested() {
    CXX="env -u LD_PRELOAD ${CXX:-g++}" CXXFLAGS="-fsanitize=$sanitizers -fno-sanitize-recover=all -g" PYTHONPATH=$site "${without_aslr[@]}" "$python" -P -m pytest -q --hypothesis-seed=0 --capture=sys -p no:faulthandler -p no:cacheprovider "$@"
}
without_aslr=()
