#!/usr/bin/env bash
# A federation on three hosts: server and two members, each in a network namespace of its own with a
# host name, joined by a bridge. Needs root on Linux, iproute2, and `motifair` on the PATH.
set -euo pipefail
folder=${1:?usage: three-hosts.sh FOLDER}
hosts=(server bank-a bank-b)

cleanup() {
  for host in "${hosts[@]}"; do
    ip netns exec "mf-$host" motifair federation stop --kit "$folder/kits/$host" || true
    ip netns del "mf-$host" || true
    rm -rf "/etc/netns/mf-$host"
  done
  ip link del mf-bridge || true
}
trap cleanup EXIT

ip link add mf-bridge type bridge
ip link set mf-bridge up
names=$(for n in 1 2 3; do echo "10.77.0.$n ${hosts[n-1]}.consortium.test"; done)
for n in 1 2 3; do
  host=${hosts[n-1]}
  ip netns add "mf-$host"
  ip link add "mf-v$n" type veth peer name eth0 netns "mf-$host"
  ip link set "mf-v$n" master mf-bridge up
  ip -n "mf-$host" addr add "10.77.0.$n/24" dev eth0
  ip -n "mf-$host" link set eth0 up
  ip -n "mf-$host" link set lo up
  mkdir -p "/etc/netns/mf-$host"
  printf '127.0.0.1 localhost\n%s\n' "$names" >"/etc/netns/mf-$host/hosts"
done

python - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import numpy as np

from motifair.graphs.planted import planted
from motifair.graphs.tu import write_tu

made = planted(agents=2, seed=0)
for k, name in enumerate(("bank-a", "bank-b")):
    write_tu(made.graphs.select(np.flatnonzero(made.owner == k)), Path(sys.argv[1], "graphs", name))
PYTHON

motifair federation init --folder "$folder" --like "$folder/graphs/bank-a" --members bank-a,bank-b
sed -i 's/^host = "localhost"/host = "server.consortium.test"/; s/^rounds = 200/rounds = 10/' \
  "$folder/federation.toml"
for host in bank-a bank-b; do # each member makes its own key
  motifair federation request "$host" --out "$folder/kits"
  install -D "$folder/kits/$host.csr" "$folder/requests/$host.csr"
done
motifair federation provision --folder "$folder"
ip netns exec mf-server motifair federation server start --folder "$folder" --detach
for host in bank-a bank-b; do
  ip netns exec "mf-$host" motifair federation agent start \
    --kit "$folder/kits/$host" --graphs "$folder/graphs/$host" --detach
done
echo "connections of bank-a:"
ip netns exec mf-bank-a ss -Htn state established | awk '{print "  " $3 " -> " $4}'
ip netns exec mf-server motifair federation run --folder "$folder" --run hosts
motifair ledger verify --ledger "$folder/ledger.sqlite"
