# Sourced by windows.sh and aarch64.sh: Debian 13 in a folder, with Wine 10 and qemu-user 10, and commands in it.
# The mounts are private to each command, and whatever it has started ends with it.
set -euo pipefail
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
repository=$(realpath "$here/../../..")

fail() { echo "$*" >&2; exit 1; }

# 77: nox skips the session, and says why.
check_machine() {
    [ "$(id -u)" = 0 ] || { echo "Wine and qemu run in a chroot, which only root can make."; exit 77; }
    command -v debootstrap >/dev/null || { echo "no debootstrap here. Try: apt install debootstrap"; exit 77; }
}

# Debian signs its packages, and debootstrap and apt check that.
make_chroot() {
    [ ! -e "$cache/chroot/made" ] || return 0
    rm -rf "$cache/chroot"
    mkdir -p "$cache"
    debootstrap --variant=minbase --include=ca-certificates trixie "$cache/chroot" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" \
        >"$cache/debootstrap.log" || fail "debootstrap: $(tail -3 "$cache/debootstrap.log")"
    cp /etc/resolv.conf "$cache/chroot/etc/"
    inside sh -c 'dpkg --add-architecture arm64 && apt-get -q update &&
        DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends wine64 wine qemu-user' \
        >"$cache/apt.log" 2>&1 || fail "apt: $(tail -3 "$cache/apt.log")"
    touch "$cache/chroot/made"
}

# inside COMMAND...: runs it in the chroot, in the current folder, which the repository or the cache has.
inside() {
    export cache repository
    nice unshare --mount --pid --fork --kill-child bash -c '
        set -e
        root=$cache/chroot
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount --rbind /sys "$root/sys"
        for folder in "$repository" "$cache"; do mkdir -p "$root$folder"; mount --rbind "$folder" "$root$folder"; done
        chroot "$root" sh -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "$@"' - "$@" &
    # SIGTERM ends neither unshare nor the first process in its namespace.
    trap "kill -KILL $!" INT TERM
    wait $!
}

# tools: a Python with zig, nanobind and pefile, checked by their digests.
make_tools() {
    [ ! -e "$cache/tools/made" ] || return 0
    rm -rf "$cache/tools"
    python3 -m venv "$cache/tools"
    "$cache/tools/bin/python" -m pip install -q --require-hashes -r "$here/tools.txt" 2>"$cache/pip.log" || fail "pip: $(tail -3 "$cache/pip.log")"
    touch "$cache/tools/made"
}

zig() {
    ZIG_GLOBAL_CACHE_DIR=$cache/zig ZIG_LOCAL_CACHE_DIR=$cache/zig nice "$cache/tools/bin/python" -m ziglang "$@"
}

# compiler TARGET: what compiler/ziglang.py, which Python finds by its PYTHONPATH, gives to zig.
compiler() {
    export ZIG_GLOBAL_CACHE_DIR=$cache/zig ZIG_LOCAL_CACHE_DIR=$cache/zig PYOPNB_ZIG_TARGET=$1
    PYOPNB_ZIG=$(echo "$cache"/tools/lib/python3*/site-packages/ziglang/zig)
    export PYOPNB_ZIG
}

# install SITE LIST PLATFORM...: packages of another system, checked by their digests. Which Python a package needs, pip would check of its own.
install() {
    local site=$1 list=$2
    shift 2
    "$cache/tools/bin/python" -m pip install -q --no-deps --require-hashes --only-binary=:all: --no-compile --python-version 3.13 --ignore-requires-python \
        --implementation cp --target "$site" "${@/#/--platform=}" -r "$list" 2>"$cache/pip.log" || fail "pip: $(tail -3 "$cache/pip.log")"
}

# modules TARGET SUFFIX SITE INCLUDE OUT OPTION...: the native modules by zig, from the sources, if they have changed.
modules() {
    local target=$1 suffix=$2 site=$3 include=$4 out=$5 source digest flags nanobind
    shift 5
    source=$repository/pyopnb
    digest=$(cd "$source" && find . -name '*.cpp' -o -name '*.h' | sort | xargs cat "$here/chroot.sh" | sha256sum)
    [ "$(cat "$out/digest" 2>/dev/null)" != "$digest" ] || return 0
    mkdir -p "$out"
    nanobind=$("$cache/tools/bin/python" -c 'import nanobind, pathlib; print(pathlib.Path(nanobind.__file__).parent)')
    flags=(-std=c++17 -O3 -DNDEBUG -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -Wno-pass-failed)
    [ "$target" != x86_64-windows-gnu ] || flags=("${flags[@]/-fPIC/}")
    flags=(${flags[@]} "-I$nanobind/include" "-I$nanobind/ext/robin_map/include" "-I$include" "-I$source" -isystem "$site/numpy/_core/include")
    zig c++ -target "$target" "${flags[@]}" -fno-strict-aliasing -DNB_COMPACT_ASSERTIONS -DNB_BUILD -c "$nanobind/src/nb_combined.cpp" -o "$out/nanobind.o"
    zig c++ -target "$target" "${flags[@]}" "-I$source/engine/runtime/include" -c "$source/engine/runtime/bridge/bridge.cpp" -o "$out/bridge.o"
    zig c++ -target "$target" "${flags[@]}" -fopenmp-simd -fno-trapping-math -ffp-contract=off \
        -c "$source/diffs/arrays/native/stats.cpp" -o "$out/stats.o"
    if [ "$target" != x86_64-windows-gnu ]; then
        # As in the wheels: an empty library in place of the one whose unwinder ends threads.
        zig cc -target "$target" -shared -s -nostdlib -Wl,-soname,libgcc_s.so.1 "$here/../wheels/libgcc_s.c" -o "$out/libgcc_s.so.1"
        set -- "$out/libgcc_s.so.1"
    fi
    zig c++ -target "$target" -shared -s "$out/bridge.o" "$out/nanobind.o" "$@" -o "$out/_bridge.$suffix"
    zig c++ -target "$target" -shared -s "$out/stats.o" "$out/nanobind.o" "$@" -o "$out/_stats.$suffix"
    echo "$digest" >"$out/digest"
}

# package SITE MODULES SUFFIX: the Python sources with the native modules, where pip would have put the wheel.
package() {
    local site=$1 modules=$2 suffix=$3
    rm -rf "$site/pyopnb"
    (cd "$repository" && find pyopnb -name __pycache__ -prune -o -type f ! -name '*.cpp' ! -name CMakeLists.txt ! -name portable.h \
        ! -path '*/bridge/*.h' -print0 | tar c --null -T - ) | tar x -C "$site"
    cp "$modules/_bridge.$suffix" "$site/pyopnb/engine/runtime/"
    cp "$modules/_stats.$suffix" "$site/pyopnb/diffs/arrays/"
    mkdir -p "$site/pyopnb-0.1.0.dist-info"
    {
        printf 'Metadata-Version: 2.1\nName: pyopnb\nVersion: %s\n' "$(sed -n 's/^__version__ = "\(.*\)"/\1/p' "$repository/pyopnb/__init__.py")"
        "$cache/tools/bin/python" -c 'import sys, tomllib
for need in tomllib.load(sys.stdin.buffer)["project"]["dependencies"]: print("Requires-Dist:", need)' <"$repository/pyproject.toml"
    } >"$site/pyopnb-0.1.0.dist-info/METADATA"
}
