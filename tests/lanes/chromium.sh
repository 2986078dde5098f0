#!/bin/sh
# Sees to it that tests/browser finds a Chromium: the system's, or playwright's own. Usage: chromium.sh PYTHON, which has playwright.
set -u
python=$1

there() {
    for name in "${PYOPNB_CHROMIUM:-}" chromium chromium-browser google-chrome; do
        # A name on PATH proves nothing: Ubuntu's chromium is a stub that asks for snap.
        [ -n "$name" ] && command -v "$name" >/dev/null && "$name" --version >/dev/null 2>&1 && return 0
    done
    "$python" -c "import os, sys
from playwright.sync_api import sync_playwright
with sync_playwright() as playwright:
    sys.exit(not os.path.exists(playwright.chromium.executable_path))"
}

there && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -q && apt-get install -y -q chromium; } >/dev/null 2>&1
    there && exit 0
fi
"$python" -m playwright install chromium >/dev/null 2>&1 && there && exit 0
echo "No Chromium for tests/browser. Type: apt install chromium (or: $python -m playwright install --with-deps chromium)" >&2
exit 1
