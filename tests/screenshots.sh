#!/usr/bin/env bash
# Pictures of `contador report --format html`, to look at: of a screen, of a telephone, dark, and of the printed page. Pages come from
# the example `report_pages` on a real engine; Chromium and pdftoppm (Debian: chromium, poppler-utils) must be there.
# Usage: tests/screenshots.sh [FOLDER]   (default: target/screenshots)
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-target/screenshots}")
for program in chromium pdftoppm; do
  command -v "$program" >/dev/null || { echo "$program is missing: apt-get install chromium poppler-utils" >&2; exit 1; }
done
mkdir -p "$out"
cargo build --quiet -p contador --bins
cargo run --quiet -p contador-tests --example report_pages "$out"

profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
browse() { # arguments of Chromium
  chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" --no-first-run "$@" 2>/dev/null >/dev/null
}
shoot() { # page, picture, width, height, more arguments of Chromium
  browse --window-size="$3,$4" --screenshot="$out/$2.png" "${@:5}" "file://$out/$1.html"
}
# Chromium has no window narrower than 500 px, so frames have the width of a telephone: the page's top, and two places in it.
phones() { # page, picture
  {
    printf '<!doctype html><meta charset="utf-8"><style>body{margin:0;padding:16px;background:#c9d1db;display:flex;gap:16px}'
    printf 'iframe{border:0;width:390px;height:780px}</style>'
    printf "<iframe src=\"$1.html%s\"></iframe>" "" "#departments" "#d0"
  } >"$out/$2.html"
  shoot "$2" "$2" 1234 812
}

shoot fleet report 1280 1330
shoot fleet fleet 1280 3600
shoot fleet fleet-dark 1280 3600 --blink-settings=preferredColorScheme=0
shoot fleet-es fleet-es 1280 3600
shoot department department 1280 2600
shoot open open-es 1280 2400
shoot odd odd 1280 3000
shoot many many 1280 3000
phones open report-phone
phones odd odd-phone
browse --print-to-pdf="$out/fleet.pdf" --no-pdf-header-footer "file://$out/fleet-es.html"
pdftoppm -r 70 -png "$out/fleet.pdf" "$out/print"
echo "$out"
