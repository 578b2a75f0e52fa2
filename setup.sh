#!/bin/sh
# Make or refresh the environment in .venv: Python 3.11 or newer, and the versions of constraints.txt.
# Does nothing when it is up to date. Another Python: PYTHON=/path/to/python3.12 ./setup.sh
set -eu
cd "$(dirname "$0")"
venv=.venv
stamp=$venv/.coda-stamp

fail() {
    echo "setup: $1" >&2
    exit 1
}

usable() { # is $1 a Python of 3.11 or newer that runs?
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

pick_python() {
    if [ -n "${PYTHON:-}" ]; then
        usable "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.11 or newer; name one that is."
        echo "$PYTHON"
        return
    fi
    for name in python3.11 python3.12 python3.13 python3; do
        if usable "$name"; then
            echo "$name"
            return
        fi
    done
    fail "no Python 3.11 or newer found; install one, or name it: PYTHON=/path/to/python3.12 make run"
}

# What the environment was made from: the two files, and where it stands (its scripts hold full paths).
want=$(cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)@$(pwd -P)
if [ -x $venv/bin/coda ] && [ "$(cat $stamp 2>/dev/null)" = "$want" ]; then
    exit 0
fi

python=$(pick_python)
"$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    fail "$python has no venv module; install it (Debian and Ubuntu: apt-get install python3-venv)."
free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
[ -d $venv ] || [ "$free_mb" -ge 6000 ] ||
    fail "the environment needs up to 6 GB here and $free_mb MB are free; make room."

echo "setup: installing into $venv with $("$python" --version), once; a few minutes ..." >&2
case "$(cat $stamp 2>/dev/null)" in
    "" | *@"$(pwd -P)") ;;
    *) rm -f $venv/bin/python ;; # the checkout has moved: begin again
esac
[ -x $venv/bin/python ] && $venv/bin/python -c 'import pip' >/dev/null 2>&1 ||
    "$python" -m venv --clear $venv
rm -f $stamp
PIP_DISABLE_PIP_VERSION_CHECK=1 $venv/bin/python -m pip install -qq --no-input \
    -c constraints.txt -e ".[dev]" >&2 ||
    fail "the installation failed (see above); run the same command again to go on."
echo "$want" >$stamp
echo "setup: done." >&2
