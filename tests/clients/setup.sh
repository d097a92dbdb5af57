#!/bin/sh
# Installs the real clients that the tests drive: clickhouse-connect, OpenTelemetry's SDK and Prometheus's client for Python,
# @clickhouse/client and OpenTelemetry's SDK for Node. All go under target/, pinned by requirements.txt and package-lock.json; what is there
# already is kept.
# Arguments say which: `python`, `node`; none means both.
set -eu
[ $# -gt 0 ] || set -- python node
wants=$*
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}/clients
mkdir -p "$target"
target=$(cd "$target" && pwd)

wanted() { case " $wants " in *" $1 "*) true ;; *) false ;; esac; }

if wanted python && ! cmp -s "$here/requirements.txt" "$target/venv/installed.txt"; then
    rm -rf "$target/venv"
    python3 -m venv "$target/venv"
    "$target/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps \
        --only-binary :all: --requirement "$here/requirements.txt"
    cp "$here/requirements.txt" "$target/venv/installed.txt"
fi

if wanted node && ! cmp -s "$here/node/package-lock.json" "$target/node/installed.json"; then
    rm -rf "$target/node"
    mkdir -p "$target/node"
    cp "$here/node/package.json" "$here/node/package-lock.json" "$target/node/"
    (cd "$target/node" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --silent)
    cp "$here/node/package-lock.json" "$target/node/installed.json"
fi
