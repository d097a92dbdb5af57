#!/usr/bin/env bash
# Runs each fuzz target for a while (default 600 s) from its seeds, and prints one JSON line a target. Fails when one of them
# finds anything; what it found is in tests/fuzz/artifacts. Needs a nightly toolchain and cargo-fuzz
# (`cargo install --locked cargo-fuzz`). Called by `make fuzz`.
#
#   tests/fuzz/run.sh [SECONDS [TARGET…]]
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-600}
shift || true
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target/fuzz}
mapfile -t all < <(sed -n 's/^name = "\(.*\)"$/\1/p' Cargo.toml | tail -n +2)
targets=("${@:-${all[@]}}")
[ $# -gt 0 ] || targets=("${all[@]}")
failed=0
for target in "${targets[@]}"; do
  mkdir -p "corpus/$target" "artifacts/$target"
  seeds=()
  [ ! -d "seeds/$target" ] || seeds+=("seeds/$target")
  # The parsers have no unsafe code of their own, so that no sanitizer is needed; memory is bounded instead.
  log="artifacts/$target.log"
  status=0
  cargo +nightly fuzz run --fuzz-dir . --sanitizer none --release "$target" "corpus/$target" "${seeds[@]}" -- \
    -max_total_time="$seconds" -max_len=65536 -rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=20 -print_final_stats=1 \
    >"$log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  found=$(find "artifacts/$target" -type f | wc -l)
  printf '{"target":"%s","seconds":%s,"runs":%s,"exit":%s,"found":%s}\n' "$target" "$seconds" "${runs:-0}" "$status" "$found"
  [ "$status" = 0 ] || failed=1
done
exit "$failed"
