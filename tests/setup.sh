#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: Debian packages by apt-get (as root), then real clients of ClickHouse
# and OpenTelemetry's SDKs from PyPI and npm (clients/setup.sh), and the FOCUS validator (clients/focus/setup.sh). Without root it
# names the packages, and writes to target/test-deps/left-out the names of the tests that can't run without them. Called by
# `make test-deps` and `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
deps=target/test-deps
mkdir -p "$deps"
: >"$deps/left-out"

have_python() { python3 -c 'import ensurepip, venv' 2>/dev/null; }
have_npm() { command -v npm >/dev/null && command -v node >/dev/null; }
have_prometheus() { command -v prometheus >/dev/null && command -v promtool >/dev/null; }
have_slurm() { for program in slurmctld slurmd munged mungekey; do [ -x "/usr/sbin/$program" ] || command -v "$program" >/dev/null || return 1; done; }
# The FOCUS validator needs a newer Python than many distributions have; it is looked for, never installed.
have_focus_python() { tests/clients/focus/setup.sh --look >/dev/null; }

missing=()
command -v curl >/dev/null || missing+=(curl)
command -v openssl >/dev/null || missing+=(openssl)
have_python || missing+=(python3-venv)
have_npm || missing+=(nodejs npm)
have_prometheus || missing+=(prometheus)
have_slurm || missing+=(slurm-wlm munge)
command -v chromium >/dev/null || missing+=(chromium)

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # The tests run programs such as Prometheus themselves: no package may start a service, now or at the next boot.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
      trap 'rm -f "$policy"' EXIT
      printf '#!/bin/sh\nexit 101\n' >"$policy"
      chmod 755 "$policy"
    fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    case " ${missing[*]} " in *" prometheus "*)
      if command -v systemctl >/dev/null; then systemctl disable --quiet prometheus.service 2>/dev/null || true; fi ;;
    esac
    case " ${missing[*]} " in *" slurm-wlm "*)
      if command -v systemctl >/dev/null; then
        systemctl disable --quiet munge.service slurmctld.service slurmd.service 2>/dev/null || true
      fi ;;
    esac
  else
    echo "missing, and only root can install them: ${missing[*]}"
    echo "  sudo apt-get install ${missing[*]}"
  fi
fi

# The names of the tests in these files.
tests_in() { awk '/^#\[(tokio::)?test/ { wanted = 1 } wanted && match($0, /fn [a-z0-9_]+/) { print substr($0, RSTART + 3, RLENGTH - 3); wanted = 0 }' "$@"; }

{
  command -v curl >/dev/null || tests_in tests/tests/engine_{http,formats}.rs
  command -v openssl >/dev/null || echo the_api_server_is_reached_by_tls_with_a_token_that_changes
  have_python || { echo clickhouse_connect_finds_a_server; tests_in tests/tests/{otel_sdks,scrape_agent}.rs | grep python; }
  have_slurm || { tests_in tests/tests/slurm_real.rs; echo the_installed_sacct_has_these_columns; }
  have_focus_python || tests_in tests/tests/bill_focus.rs | grep validator
  command -v chromium >/dev/null || tests_in tests/tests/bill_pages.rs | grep chromium
  have_prometheus || tests_in tests/tests/{prometheus,cases_show}.rs
  if ! have_npm; then
    echo the_node_client_finds_a_server
    tests_in tests/tests/otel_sdks.rs | grep node
    # The embedded engine comes by npm, too.
    if [ -z "${CONTADOR_CHDB_LIB:-}" ]; then
      tests_in tests/tests/{engine_*,collector_*,otel_sdks,bill_*,demo,outage}.rs
    fi
  fi
} | sort -u >"$deps/left-out"

wanted=()
have_python && wanted+=(python)
have_npm && wanted+=(node)
[ ${#wanted[@]} -eq 0 ] || tests/clients/setup.sh "${wanted[@]}"
if have_focus_python; then tests/clients/focus/setup.sh; fi

# Licences are checked by cargo-deny. It takes minutes to build, so only CI installs it by itself.
if [ -n "${CI:-}" ] && ! PATH="$PWD/$deps/cargo/bin:$PATH" command -v cargo-deny >/dev/null; then
  CARGO_TARGET_DIR="$deps/cargo-build" cargo install --quiet --locked --root "$deps/cargo" cargo-deny --version 0.20.2 ||
    echo "cargo-deny could not be installed"
  rm -rf "$deps/cargo-build"
fi
