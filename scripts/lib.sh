# shellcheck shell=bash
# Shared by the scripts of this folder: sourced, not run.

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }

# venv DIR EXTRAS: a virtual environment with this checkout and the extras; uv when it is there, else venv + pip.
# An unchanged pyproject.toml installs nothing again.
venv() {
  local dir=$1 extras=$2 stamp
  stamp="$dir/.installed-$(printf '%s' "$extras" | tr -c 'a-z\n' '-')"
  if [ -x "$dir/bin/python" ] && [ -e "$stamp" ] && cmp -s pyproject.toml "$stamp"; then return; fi
  say "Installing into $dir"
  if command -v uv >/dev/null 2>&1; then
    [ -x "$dir/bin/python" ] || uv venv --quiet "$dir"
    uv pip install --quiet --python "$dir/bin/python" -e ".[$extras]"
  else
    if ! [ -x "$dir/bin/python" ]; then
      if ! "${PYTHON:-python3}" -m venv "$dir"; then
        echo "error: ${PYTHON:-python3} cannot make a virtual environment." >&2
        echo "  fix:    apt-get install python3-venv   (or: dnf install python3, then PYTHON=python3.11 $0)" >&2
        exit 2
      fi
    fi
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check -e ".[$extras]"
  fi
  cp pyproject.toml "$stamp"
}

need_python() {
  if ! "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "error: ${PYTHON:-python3} is not there, or is older than 3.10." >&2
    echo "  fix:    PYTHON=python3.11 $0" >&2
    exit 2
  fi
}
