#!/bin/sh
# Prints one line `3.x=/path/to/python` for each of Python 3.11, 3.12 and 3.13 that really runs here, can make a venv and has
# its headers. A name on PATH proves nothing: pyenv leaves shims that only print an error, Debian splits off venv and headers.
for version in 3.11 3.12 3.13; do
    for python in "python$version" python3 "$HOME/.pyenv/versions/$version".*/bin/python3; do
        path=$("$python" -c "import ensurepip, os, sys, sysconfig, venv
if '%d.%d' % sys.version_info[:2] == '$version' and os.path.exists(sysconfig.get_path('include') + '/Python.h'):
    print(sys.executable)" 2>/dev/null) || continue
        [ -n "$path" ] || continue
        echo "$version=$path"
        break
    done
done
