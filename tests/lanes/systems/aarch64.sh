#!/usr/bin/env bash
# CPython for Linux on aarch64, in qemu. Usage: aarch64.sh CACHE make, or aarch64.sh CACHE python ARGUMENT..., in a folder of the
# repository. Exit code 77: this machine cannot, for the reason that is printed.
# Debian 13 has Python 3.13; qemu 7 of Debian 12 crashes when onnx is imported.
cache=$(realpath -m "$1") command=$2
shift 2
. "$(dirname "$0")/chroot.sh"
root=$cache/aarch64/root
site=$root/usr/lib/python3/dist-packages
suffix=cpython-313-aarch64-linux-gnu.so
packages=(libc6 libgcc-s1 libstdc++6 libpython3.13-minimal libpython3.13-stdlib libpython3.13 libpython3.13-dev python3.13-minimal python3.13
    libexpat1 zlib1g libbz2-1.0 liblzma5 libffi8 libssl3t64 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 libreadline8t64 libzstd1 libgomp1)

make_python() {
    local digest
    digest=$(cat "$here"/aarch64.{txt,sh} | sha256sum)
    [ "$(cat "$cache/aarch64/digest" 2>/dev/null)" != "$digest" ] || return 0
    rm -rf "$cache/aarch64"
    mkdir -p "$root" "$cache/aarch64/packages"
    (cd "$cache/aarch64/packages" && inside apt-get download -q "${packages[@]/%/:arm64}") >"$cache/apt.log" 2>&1 ||
        fail "apt: $(tail -3 "$cache/apt.log")"
    for package in "$cache"/aarch64/packages/*.deb; do dpkg-deb -x "$package" "$root"; done
    [ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
    cp "$root/usr/include/aarch64-linux-gnu/python3.13/pyconfig.h" "$root/usr/include/python3.13"
    # Python takes its argv[0] for its own path, so that processes that tests start are run by qemu, too.
    printf '#!/bin/sh\nexec qemu-aarch64 -cpu neoverse-n1 -L %s -0 "$0" %s/usr/bin/python3.13 "$@"\n' "$root" "$root" >"$root/usr/bin/python"
    chmod +x "$root/usr/bin/python"
    install "$site" "$here/aarch64.txt" manylinux_2_{17,24,26,27,28}_aarch64 manylinux2014_aarch64
    echo "$digest" >"$cache/aarch64/digest"
}

case $command in
make)
    check_machine
    mkdir -p "$cache"
    exec 9>"$cache/lock" && flock 9 # lanes run at once
    make_chroot
    make_tools
    make_python
    modules aarch64-linux-gnu.2.28 "$suffix" "$site" "$root/usr/include/python3.13" "$cache/aarch64/modules"
    package "$site" "$cache/aarch64/modules" "$suffix"
    ;;
python)
    export HOME=/root PYTHONPYCACHEPREFIX=$cache/aarch64/bytecode ORT_LOGGING_LEVEL=3
    export PYTHONPATH=$here/compiler
    compiler aarch64-linux-gnu
    inside "$root/usr/bin/python" "$@" </dev/null
    ;;
*) fail "aarch64.sh CACHE make, or aarch64.sh CACHE python ARGUMENT..." ;;
esac
