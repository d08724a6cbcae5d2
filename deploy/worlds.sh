#!/usr/bin/env bash
# Adds the packages of worlds to .venv: every pin of requirements/worlds.lock that can be had.
#
#   deploy/worlds.sh            after deploy/setup.sh; `make setup WORLDS=1` calls both
#
# Nothing is resolved. A package that cannot be had is a line that says why, and the others are installed:
# a world without its package is refused in one line, and its tests say that they were left out.
# .venv/.ready-worlds is written when all are there, so that those missing are tried again next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

lock=requirements/worlds.lock
ready=.venv/.ready-worlds
log=.venv/worlds.log

[[ -x .venv/bin/python ]] || { echo "worlds: there is no .venv yet: make setup WORLDS=1" >&2; exit 1; }
exec 9<"$lock"
flock -w 1800 9 || { echo "worlds: another setup of this checkout has been running for 30 minutes" >&2; exit 1; }
fingerprint=$(cat "$lock" deploy/worlds.sh | sha256sum | cut -d' ' -f1)
if [[ -f $ready && $(<"$ready") == "$fingerprint" ]]; then
    touch "$ready"
    exit 0
fi
rm -f "$ready"
: >"$log"

missing=0
while read -r pin; do
    started=$(($(wc -l <"$log") + 1))
    if ! .venv/bin/python -m pip install --no-deps --no-input --disable-pip-version-check --progress-bar off \
        --retries 2 "$pin" </dev/null >>"$log" 2>&1; then
        reason=$(tail -n "+$started" "$log" | grep -E '^ *(ERROR|error)' | head -1 | sed -E 's/^ *(ERROR|error): *//' || true)
        echo "worlds: $pin cannot be had: ${reason:-pip failed} (all of it: $log)"
        missing=$((missing + 1))
    fi
done < <(grep == "$lock")
((missing)) || echo "$fingerprint" >"$ready"
pins=$(grep -c == "$lock" || true)
((pins)) || { echo "worlds: all that they need is in .venv already"; exit 0; }
echo "worlds: $((pins - missing)) of $pins packages are installed"
