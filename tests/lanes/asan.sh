#!/usr/bin/env bash
# tests/border and the runs on ONNX Runtime's threads with the native module built for AddressSanitizer and UndefinedBehaviorSanitizer, then once more for leaks.
# Usage: asan.sh PYTHON SITE, where SITE is the folder that holds the instrumented build; `nox -s sanitizers` makes both.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 site=$(realpath "$2") sanitizers=address,undefined
export PYOPNB_TEST_LIMIT=3600  # seconds for one script: everything is several times slower here
. tests/lanes/sanitized.sh
instrumented __asan_init

# libstdc++ has to be preloaded too: without it the first C++ exception that onnxruntime throws ends the process.
export LD_PRELOAD="$(runtime libasan.so):$(runtime libubsan.so):$(runtime libstdc++.so.6)"
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export PYTHONMALLOC=malloc  # CPython's own arenas would hide a read after free
options=halt_on_error=1:abort_on_error=1:allocator_may_return_null=1:detect_stack_use_after_return=1

echo "asan: errors"
left_out=()
if [ -z "${PYOPNB_EVERYWHERE:-}" ]; then
    # The 200 operators that ops share their names with take minutes here, and what they once did wrong, a plain process shows as well.
    left_out+=(--ignore=tests/border/test_namesakes.py -m "not everywhere and not plain")
fi
ASAN_OPTIONS=$options:detect_leaks=0 tested tests/border tests/threads/test_parallel.py "${left_out[@]}"

# Python and onnxruntime leave hundreds of allocations behind at exit, and a suppression by library would cover ours as well,
# because every stack runs through libpython. Walking the stacks is slow: one file, which takes every way through the border,
# stands for all, and 20 frames reach from what compute made to the code that called it. So everything is recorded and only what
# names our source or module counts. Its scripts are looked at, and not pytest, which starts them; unless everything is asked for,
# with one case of each way through the border.
echo "asan: leaks"
shortened=()
if [ -z "${PYOPNB_EVERYWHERE:-}" ]; then
    export PYOPNB_ONE_OF_EACH=yes
    shortened=(-m "not plain")
fi
logs=build/asan/leaks
rm -rf "$logs" && mkdir -p "$logs"
unset PYTHONMALLOC
PYOPNB_SCRIPTS_ASAN_OPTIONS=$options:detect_leaks=1:fast_unwind_on_malloc=0:malloc_context_size=20:exitcode=0:log_path=$PWD/$logs/log \
    ASAN_OPTIONS=$options:detect_leaks=0 tested tests/border/test_misbehavior.py "${shortened[@]}"
unset LD_PRELOAD
if ! ls "$logs"/log.* >/dev/null 2>&1; then
    echo "asan: the leak run recorded nothing, not even Python's own: it did not look" >&2
    exit 1
fi
ours=$(awk 'BEGIN { RS = "" } /runtime\/bridge\/|\/compiled\/|arrays\/native\/|_(bridge|stats)\.[^ ]*\.so/' "$logs"/log.*)
if [ -n "$ours" ]; then
    printf '%s\n' "$ours" >&2
    exit 1
fi
