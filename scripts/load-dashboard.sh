#!/usr/bin/env bash
# How many requests a second the dashboard answers on one core while a run goes on, by wrk.
#   scripts/load-dashboard.sh [PYTHON] [SECONDS]
# The server has core 0; the run (a round each half second) and wrk have core 1.
set -euo pipefail
python=${1:-.venv/bin/python}
seconds=${2:-20}
port=8099
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'kill "${server:-}" "${writer:-}" "${listener:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
export OMP_NUM_THREADS=1

cat > "$folder/writer.py" <<'PY'
import sys, time
from random import Random
from motifair.consortium.live import Live
from motifair.statements.accounts import Accounts
from motifair.statements.entry import Line, Terms
from motifair.consortium.store.ledger import open_ledger
from pathlib import Path

folder, names, random = Path(sys.argv[1]), [f"agent-{k:02}" for k in range(10)], Random(1)
terms = Terms(dict.fromkeys(names, ""), 10_000, 2, "EUR", 2_000, 3_000, 10_000, 2, "motifair")
accounts = Accounts("load")
(folder / "runs" / "load").mkdir(parents=True)
with open_ledger(folder / "ledger.sqlite", write=True) as ledger, Live(folder / "runs/load/live.json") as live:
    ledger.append(entry := accounts.agree(terms))
    accounts.add(entry)
    while True:
        live.asked(accounts.round + 1, names, 60)
        for name in names:
            live.heard(name)
            time.sleep(0.05 if accounts.round >= 200 else 0)
        lines = [Line(n, "present", "", int(1e11 * (1 + random.gauss(0, 0.1))), None, None, 0, 9, 0, "", "") for n in names]
        ledger.append(entry := accounts.settle(lines))
        accounts.add(entry)
PY
cat > "$folder/mixed.lua" <<'LUA'
local paths = {"/runs/load", "/api/runs/load", "/", "/api/runs/load/curves", "/api/runs/load/entries", "/api/runs"}
local k = 0
request = function() k = k % #paths + 1; return wrk.format("GET", paths[k]) end
LUA

PYTHONPATH="$here/src" taskset -c 1 "$python" "$folder/writer.py" "$folder" & writer=$!
until [ -f "$folder/ledger.sqlite" ]; do sleep 0.2; done; sleep 6
PYTHONPATH="$here/src" taskset -c 0 "$python" -c 'from motifair.cli import main; main()' \
  dashboard --ledger "$folder/ledger.sqlite" --runs "$folder" --port $port & server=$!
until curl -sf "localhost:$port/api/runs" > "$folder/before"; do sleep 0.3; done
curl -sN "localhost:$port/api/runs/load/events" > "$folder/pushed" & listener=$!
for path in /runs/load /api/runs/load; do
  echo "== $path"; taskset -c 1 wrk -t1 -c8 -d"${seconds}s" --latency "http://localhost:$port$path"
done
echo "== mixed"
taskset -c 1 wrk -t1 -c8 -d"${seconds}s" --latency -s "$folder/mixed.lua" "http://localhost:$port"
curl -sf "localhost:$port/api/runs" > "$folder/after"
echo "rounds before and after: $(grep -o '"round": [0-9]*' "$folder/before") $(grep -o '"round": [0-9]*' "$folder/after")"
echo "pushed to a listener meanwhile: $(grep -c '^event: parts' "$folder/pushed") states"
