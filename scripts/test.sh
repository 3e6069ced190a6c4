#!/usr/bin/env bash
# The whole suite: the quick tests with their coverage, then the slow ones; real federations, which
# are mostly waiting, run file by file in the same time. Coverage is that of the quick tests alone:
# what only slow tests reach must not count. It is measured by probes in the bytecode (SlipCover),
# which are removed once passed: tracing every line took half as long again.
set -euo pipefail
bin=${1:?usage: test.sh BIN JOBS}
jobs=${2:?usage: test.sh BIN JOBS}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Compile modules and kernels once; the processes below would all do so at the same time.
"$bin/motifair" run --rounds 1 --agents 3 --set batch_size=8 --quiet --out "$scratch/run" >/dev/null

# Every process of the tests imports all files that it is given: here only those with federations.
# They are begun in the order given, and those that take longest first, else one of them would be
# left at the end with nothing beside it.
at=tests/consortium
"$bin/python" -m pytest -n "$jobs" --dist loadfile --no-loadscope-reorder -m federation \
  --durations=15 "$at/transports/test_federation.py" "$at"/deployment/test_{refused,stop,faults}.py \
  $(grep -rl --include='*.py' 'mark\.federation' tests) >"$scratch/federations" 2>&1 &
federation=$!
# The other tests' own modules are compiled by listing the files with slow tests, which are all that
# the processes of these have to import; what cannot be collected is said by the tests themselves.
slow="not quick and not federation"
"$bin/python" -m pytest --collect-only -q -m "$slow" tests >"$scratch/slow" 2>/dev/null || true
status=0
"$bin/python" -m slipcover --json --out "$scratch/quick.json" -m pytest -n "$jobs" \
  --dist worksteal -m quick -rs --durations=15 || status=$?
# One process more than cores: slow tests wait for browsers, databases and processes of their own.
"$bin/python" -m pytest -n "$((jobs + 1))" --dist worksteal -m "$slow" -rs --durations=15 \
  $(sed -n 's/^\(tests.*\.py\): [0-9]*$/\1/p' "$scratch/slow") || status=$?
"$bin/python" -m slipcover --merge "$scratch/quick.json" --out "$scratch/coverage.json" \
  --fail-under 90 || status=$?
echo "Real federations:"
wait "$federation" || status=$?
cat "$scratch/federations"
exit "$status"
