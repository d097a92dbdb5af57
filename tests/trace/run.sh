#!/usr/bin/env bash
# Bills a public GPU trace month by month and compares each total, to the last digit, with what plain fractions say
# (bill.py). Needs an engine (CONTADOR_CLICKHOUSE_URL, or a new one in a folder that is removed), and Python 3.11.
#
#   tests/trace/run.sh PODS.csv        openb_pod_list of the Alibaba cluster trace GPU v2023
#
# CONTADOR names the program (target/debug/contador).
set -euo pipefail
pods=$(realpath "$1")
cd "$(dirname "$0")/../.."
contador=${CONTADOR:-$PWD/target/debug/contador}
folder=$(mktemp -d)
engine=
trap 'if [ -n "$engine" ]; then kill "$engine" 2>/dev/null; wait "$engine" 2>/dev/null; fi; rm -rf "$folder"' EXIT
if [ -z "${CONTADOR_CLICKHOUSE_URL:-}" ]; then
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export CONTADOR_CLICKHOUSE_URL="http://127.0.0.1:$port"
  "$contador" clickhouse --path "$folder/clickhouse" --listen "127.0.0.1:$port" 2>"$folder/engine.log" &
  engine=$!
  for _ in $(seq 600); do curl -sf "$CONTADOR_CLICKHOUSE_URL/ping" >/dev/null && break; sleep 0.1; done
fi
bill() { python3 tests/trace/bill.py "$@"; }
timed() { local from; from=$(date +%s%N); "$@"; printf '%s ms: %s\n' $((($(date +%s%N) - from) / 1000000)) "${*:2:6}" | sed "s#$folder/##g"; }

"$contador" migrate >/dev/null
bill prices >"$folder/prices.toml"
bill allocations "$pods" >"$folder/allocations.csv"
timed "$contador" import --format allocations "$folder/allocations.csv"
timed "$contador" import --format allocations "$folder/allocations.csv"
for month in $(bill months "$pods"); do
  timed "$contador" report --month "$month" --time-zone Asia/Shanghai --prices "$folder/prices.toml" --format json --out "$folder/$month.json"
  bill compare "$pods" "$month" "$folder/$month.json"
done
read -r from to < <(bill span "$pods")
timed "$contador" report --from "$from" --to "$to" --time-zone Asia/Shanghai --prices "$folder/prices.toml" --format json --out "$folder/all.json"
bill compare "$pods" all "$folder/all.json"
