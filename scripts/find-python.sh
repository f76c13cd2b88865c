# Sourced by bin/faber and tests/run. `find_python` sets `python` to a Python 3.11 or newer, or says in one line
# on stderr what to do and returns 1; `find_installed_python` does not use uv, which may download one. Uses only
# shell builtins until a candidate is tried: PATH may lack the usual tools.
# shellcheck shell=sh

# 0: can install packages; 2: cannot, for example without Debian's python3-venv; anything else: unusable.
# A candidate on PATH may be a version manager's shim that fails, so it counts only if it runs.
_try_python() {
    # On macOS without developer tools, this one opens a dialog that offers to install them.
    if [ "$1" = /usr/bin/python3 ] && [ -x /usr/bin/xcode-select ]; then
        /usr/bin/xcode-select -p >/dev/null 2>&1 || return 1
    fi
    "$1" -I -c '
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
from importlib.util import find_spec
sys.exit(0 if find_spec("pip") or find_spec("ensurepip") else 2)' </dev/null >/dev/null 2>&1
}

find_installed_python() {
    python=
    if [ -n "${FABER_PYTHON:-}" ]; then
        _try_python "$FABER_PYTHON"
        case $? in
            0 | 2) python=$FABER_PYTHON ;;
            *) echo "faber: FABER_PYTHON=$FABER_PYTHON is not Python 3.11 or newer: set it to one that is, or unset it." >&2 ;;
        esac
        [ -n "$python" ]
        return
    fi
    for _name in python3.14 python3.13 python3.12 python3.11 python3 python; do
        # Every directory, not only the first match: a working Python may come after a broken shim.
        _rest=${PATH:-}:
        while [ -n "$_rest" ]; do
            _candidate=${_rest%%:*}/$_name
            _rest=${_rest#*:}
            [ -x "$_candidate" ] && [ ! -d "$_candidate" ] || continue
            _try_python "$_candidate"
            case $? in
                0)
                    python=$_candidate
                    return 0
                    ;;
                2) : "${python:=$_candidate}" ;;
            esac
        done
    done
    [ -n "$python" ]
}

find_python() {
    find_installed_python && return
    [ -z "${FABER_PYTHON:-}" ] || return # already reported as unusable
    if command -v uv >/dev/null 2>&1; then
        # --system: not the environment of the project in the current directory.
        python=$(uv python find --system '>=3.11' 2>/dev/null) ||
            { uv python install --quiet 3.13 >/dev/null 2>&1 && python=$(uv python find --system '>=3.11' 2>/dev/null); } ||
            python=
    fi
    if [ -z "$python" ]; then
        echo "faber: needs Python 3.11 or newer and found none: install it (uv can), or set FABER_PYTHON to its path." >&2
        return 1
    fi
}
