#!/usr/bin/env bash
# Everything that CI runs, in the order in which a fault is cheapest to find. Called by `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/target/test-deps/cargo/bin:$PATH"

step() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }

step "what the tests need"
tests/setup.sh
mapfile -t left_out <target/test-deps/left-out

step "formatting"
make --no-print-directory fmt

step "lints"
make --no-print-directory clippy

step "build"
make --no-print-directory build

if [ -n "${CONTADOR_CHDB_LIB:-}" ] || command -v npm >/dev/null; then
  step "embedded engine"
  make --no-print-directory engine
fi

step "tests"
skip=()
for name in "${left_out[@]}"; do skip+=(--skip "$name"); done
if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --locked --workspace --no-fail-fast -- "${skip[@]}"
else
  cargo test --locked --workspace --all-targets --no-fail-fast -- "${skip[@]}"
fi

step "documentation"
make --no-print-directory docs

step "licences"
if cargo deny --version >/dev/null 2>&1; then
  make --no-print-directory deny
else
  echo "cargo-deny is not installed: licences were not checked (cargo install --locked cargo-deny)"
fi

if [ ${#left_out[@]} -gt 0 ]; then
  printf '\nleft out, since this machine lacks what these tests need (see the top of this output):\n'
  printf '  %s\n' "${left_out[@]}"
fi
step "done"
