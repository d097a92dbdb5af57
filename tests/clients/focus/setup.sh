#!/usr/bin/env bash
# Installs the official FOCUS validator into target/clients/focus-venv, pinned by requirements.txt and validator.txt; what is there
# already is kept. With `--look` it only says which Python it would take, and fails where there is none: the validator needs 3.12
# or newer, which `python3` of many distributions is not, so pyenv's are looked through, too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Whether a program is a Python for which the pinned builds are, and can make virtual environments.
fits() { "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info[:2] not in ((3, 12), (3, 13)))' 2>/dev/null; }

find_python() {
  local python
  for python in python3.13 python3.12 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
    if fits "$python"; then
      command -v "$python"
      return
    fi
  done
  return 1
}

python=$(find_python) || { echo "the FOCUS validator needs Python 3.12 or 3.13; none was found on PATH or by pyenv" >&2; exit 1; }
if [ "${1:-}" = --look ]; then
  echo "$python"
  exit
fi

target=${CARGO_TARGET_DIR:-$here/../../../target}/clients
venv=$target/focus-venv
mkdir -p "$target"
if ! cat "$here/requirements.txt" "$here/validator.txt" | cmp -s - "$venv/installed.txt"; then
  rm -rf "$venv"
  "$python" -m venv "$venv"
  pip=("$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps)
  "${pip[@]}" --requirement "$here/requirements.txt"
  "${pip[@]}" --no-build-isolation --requirement "$here/validator.txt"
  cat "$here/requirements.txt" "$here/validator.txt" >"$venv/installed.txt"
fi
