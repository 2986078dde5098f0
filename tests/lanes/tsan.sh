#!/usr/bin/env bash
# tests/threads, and a few thousand random calls, with the native module built for ThreadSanitizer.
# Usage: tsan.sh PYTHON SITE, where SITE is the folder that holds the instrumented build; `nox -s sanitizers` makes both.
# CPython and onnxruntime are not instrumented, so it sees the accesses of our module only; the GIL is a pthread mutex, which
# it knows. Of onnxruntime's own threads it sees neither all accesses nor what orders them, and reports some of them at exit now
# and then, and under ORT_PARALLEL in each run. A suppression by library would cover our races as well, because onnxruntime stands
# in every stack that leads to us. So everything is recorded; what names our module counts, unless the accesses are
# onnxruntime's own, or the loader's to a thread that has ended.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 site=$(realpath "$2") sanitizers=thread
. tests/lanes/sanitized.sh
instrumented __tsan_init

# ThreadSanitizer of older gcc gives up when the kernel spreads addresses too far.
without_aslr=()
if setarch "$(uname -m)" -R true 2>/dev/null; then without_aslr=(setarch "$(uname -m)" -R); fi

export LD_PRELOAD="$(runtime libtsan.so):$(runtime libstdc++.so.6)"
logs=build/tsan/reports
rm -rf "$logs" && mkdir -p "$logs"
export TSAN_OPTIONS=halt_on_error=0:exitcode=0:log_path=$PWD/$logs/log
tested tests/threads tests/border/test_random_calls.py::test_no_call_lies_and_nothing_is_left_behind tests/border/test_compiled.py
unset LD_PRELOAD
ours=$("$python" - "$logs" <<'PY'
import pathlib
import re
import sys

for log in pathlib.Path(sys.argv[1]).iterdir():
    for report in log.read_text(errors="replace").split("=================="):
        if not re.search("_bridge|_stats|/compiled/[0-9a-f]{64}", report):
            continue
        # The stacks of the two accesses; then come those in which threads and memory were made.
        accesses = re.findall(r"^  (?:Previous |Atomic |Read |Write |Previous atomic ).*\n((?:    #.*\n)+)", report, re.M)
        frames = [[frame for frame in stack.splitlines() if "libtsan" not in frame] for stack in accesses]
        theirs = bool(frames) and all(stack and "onnxruntime" in stack[0] for stack in frames)
        # A pool's thread ended: the loader releases its thread-local memory, and orders that in a way that nobody sees.
        ended = any("_dl_deallocate_tls" in frame for stack in frames for frame in stack)
        if not theirs and not ended:
            print(report)
PY
)
if [ -n "$ours" ]; then
    printf '%s\n' "$ours" >&2
    exit 1
fi
