#!/usr/bin/env bash
# The whole suite with its coverage. Real federations, which are mostly waiting, run file by file,
# and everything else in the same time.
set -euo pipefail
bin=${1:?usage: test.sh BIN JOBS}
jobs=${2:?usage: test.sh BIN JOBS}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
rm -f .coverage .coverage-*

COVERAGE_FILE=.coverage-federation "$bin/python" -m pytest --cov --cov-report= \
  -n "$jobs" --dist loadfile -m federation --durations=15 tests/consortium >"$log" 2>&1 &
federation=$!
status=0
COVERAGE_FILE=.coverage-rest "$bin/python" -m pytest --cov --cov-report= \
  -n "$jobs" --dist worksteal -m "not federation" -rs --durations=15 || status=$?
echo "Real federations:"
wait "$federation" || status=$?
cat "$log"
"$bin/coverage" combine -q .coverage-federation .coverage-rest
"$bin/coverage" report --fail-under=90 || status=$?
exit "$status"
