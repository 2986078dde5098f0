#!/usr/bin/env bash
# tests/threads with the native module built for ThreadSanitizer.
# Usage: tsan.sh PYTHON SITE, where SITE is the folder that holds the instrumented build; `make tsan` makes both.
# CPython and onnxruntime are not instrumented, so it sees the accesses of our module only; the GIL is a pthread mutex, which
# it knows. Of onnxruntime's own threads it sees neither all accesses nor what orders them, and reports some of them at exit now
# and then. A suppression by library would cover our races as well, because onnxruntime stands in every stack that leads to us.
# So everything is recorded and only what names our module counts.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$1 site=$(realpath "$2")
. tests/lanes/sanitized.sh
instrumented __tsan_init

# ThreadSanitizer of older gcc gives up when the kernel spreads addresses too far.
without_aslr=()
if setarch "$(uname -m)" -R true 2>/dev/null; then without_aslr=(setarch "$(uname -m)" -R); fi

export LD_PRELOAD="$(runtime libtsan.so):$(runtime libstdc++.so.6)"
logs=build/tsan/reports
rm -rf "$logs" && mkdir -p "$logs"
export TSAN_OPTIONS=halt_on_error=0:exitcode=0:log_path=$PWD/$logs/log
tested tests/threads
unset LD_PRELOAD
ours=$(find "$logs" -type f -exec cat {} + | awk 'BEGIN { RS = "==================" } /_bridge|_stats/')
if [ -n "$ours" ]; then
    printf '%s\n' "$ours" >&2
    exit 1
fi
