#!/usr/bin/env bash
# Makes .venv: one exact version of everything, from requirements/<device>.lock, and `parley` itself.
#
#   deploy/setup.sh [cpu|gpu]        PYTHON=/path/to/python3.12 chooses the interpreter
#
# Nothing is resolved: pip installs the lock's pins and only those. Safe to repeat and to interrupt:
# .venv/.ready-<device> is written last, after `import vllm` has worked.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

device=${1:-cpu}
lock=requirements/$device.lock
ready=.venv/.ready-$device
log=.venv/setup.log
started=$SECONDS

die() { echo "setup: $*" >&2; exit 1; }

[[ -f $lock ]] || die "no lock $lock; DEVICE is cpu or gpu, not '$device'"
exec 9<"$lock"
flock -w 1800 9 || case $? in
    1) die "another setup of this checkout has been running for 30 minutes" ;;
    *) echo "setup: $lock cannot be locked: see that no other setup of this checkout runs" >&2 ;;
esac
inputs="$lock setup.cfg pyproject.toml deploy/setup.sh"
# Another setup may have finished while this one waited; a touched file may have the same content.
fingerprint=$(cat $inputs | sha256sum | cut -d' ' -f1)
if [[ -f $ready && $(<"$ready") == "$fingerprint" ]]; then
    touch "$ready"
    exit 0
fi

# --- a Python that can do it, and a compiler ------------------------------------------------------
judge() {  # prints "usable", or why interpreter $1 is not
    "$1" - <<'PYTHON' 2>/dev/null | grep . || echo "is no Python"
import os, sys, sysconfig
version = ".".join(map(str, sys.version_info[:3]))
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    print(f"is {version}; 3.11, 3.12 or 3.13 is needed")
elif not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("has no Python.h, which kernels are compiled against (Debian: apt-get install python3-dev)")
else:
    try:
        import ensurepip, venv
        print("usable")
    except ImportError:
        print("cannot make virtual environments (Debian: apt-get install python3-venv)")
PYTHON
}

python=""
refused=""
for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
    verdict="is not found"
    command -v "$candidate" >/dev/null && verdict=$(judge "$candidate")
    [[ $verdict == usable ]] && { python=$candidate; break; }
    refused+=" $candidate $verdict;"
done
[[ -n $python ]] || die "no usable Python:${refused%;}"
command -v "${CXX:-c++}" >/dev/null ||
    die "no C++ compiler: '${CXX:-c++}' is not found, and packages are compiled with it (Debian: apt-get install g++)"

# --- the environment ------------------------------------------------------------------------------
fresh=()
if [[ ! -x .venv/bin/python ]] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    fresh=(--clear)  # absent, cut short, or its Python has gone
elif [[ $device == cpu && -f .venv/.ready-gpu || $device == gpu && -f .venv/.ready-cpu ]]; then
    fresh=(--clear)  # the two devices' packages overwrite each other's files
elif [[ -n ${PYTHON:-} && $(.venv/bin/python -V) != $("$PYTHON" -V) ]]; then
    fresh=(--clear)
fi
if ((${#fresh[@]})); then
    echo "setup: making .venv with $("$python" -V)"
    "$python" -m venv --clear .venv || die "$python -m venv failed"
fi
rm -f .venv/.ready-*
: >"$log"

# The tests of the report's page look at it in a real browser. Debian has one that root can install without asking
# anybody (not with CHROMIUM=no); Ubuntu's package of that name is none. It comes while pip works.
browser=""
if [[ $device == cpu && $(id -u) == 0 && ${CHROMIUM:-} != no ]] && grep -qs '^ID=debian' /etc/os-release && ! command -v chromium >/dev/null; then
    echo "setup: Chromium, for the tests of the report's page (apt-get)"
    DEBIAN_FRONTEND=noninteractive timeout 300 bash -c \
        'apt-get install -y chromium || { apt-get update && apt-get install -y chromium; }' \
        </dev/null >".venv/chromium.log" 2>&1 9<&- &
    browser=$!
fi

pip_install() {
    .venv/bin/python -m pip install --no-deps --no-input --disable-pip-version-check --progress-bar off \
        --retries 2 "$@" >>"$log" 2>&1
}
failed() { die "$1: $(grep -E '^ *(ERROR|error)' "$log" | tail -1 || true) (all of it: $log)"; }

if [[ $device == cpu ]]; then
    # Installed by hand beside the lock, these make `import vllm` die with `operator torchvision::nms does not exist`.
    .venv/bin/python -m pip uninstall -y torchvision torchaudio torchcodec >>"$log" 2>&1
    # The CPU build is not on the ordinary index: take it where pip is configured to look, else from PyTorch's own.
    torch=$(grep '^torch==' "$lock")
    echo "setup: $torch"
    pip_install "$torch" ||
        pip_install "$torch" --timeout 20 --index-url https://download.pytorch.org/whl/cpu ||
        failed "the CPU build $torch was found neither where pip looks nor on PyTorch's CPU wheel index"
fi
echo "setup: $(grep -c == "$lock") pinned packages from $lock (about 2 minutes the first time)"
# These come as source only; their builds need the others in place and nothing from outside. DeepSpeed's asks every
# CUDA op whether it fits, which fails without the CUDA toolkit, though none of them is built; so it is not to ask.
export DS_IGNORE_CUDA_DETECTION=1
sources='^(chess|deepspeed|jericho|rlcard)=='
grep -vE "$sources" "$lock" >.venv/wheels.txt
pip_install --no-compile --only-binary :all: -r .venv/wheels.txt || failed "cannot install $lock"
# Byte code is made by all cores, and meanwhile the sources are built. Some packages ship templates that do not compile.
timeout 300 .venv/bin/python -m compileall -qq -j 0 -x '/tests?/' .venv/lib >/dev/null 2>&1 9<&- &
byte_code=$!
grep -E "$sources" "$lock" | while read -r package; do
    pip_install --no-build-isolation "$package" || failed "cannot build $package"
done
pip_install --no-build-isolation -e . || failed "cannot install parley itself"

wait "$byte_code" || true
[[ -z $browser ]] || wait "$browser" ||
    echo "setup: Chromium could not be installed; the tests of the report's page will not run (all of it: .venv/chromium.log)"
.venv/bin/python -c 'import vllm' >>"$log" 2>&1 || die "vllm does not import: $(tail -1 "$log") (all of it: $log)"
[[ $device != cpu ]] || .venv/bin/python -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>>"$log" ||
    die "vLLM's kernels need libnuma.so.1: apt-get install libnuma1, or dnf install numactl-libs"
echo "$fingerprint" >"$ready"
echo "setup: ready in $((SECONDS - started)) s"
