# Sourced by scripts that install programs for the tests. Run it from the root of the repository.

# <from> <to> <file>: installs what a lock file pins, from the registry of npm, and checks that the file is there.
install_locked() {
  local from=$1 to=$2 file=$3
  cmp -s "$from/package-lock.json" "$to/installed" && return
  command -v npm >/dev/null || { echo "npm is not installed" >&2; return 1; }
  echo "installing $to" >&2
  rm -rf "$to" && mkdir -p "$to" && cp "$from"/package*.json "$to" || return
  (cd "$to" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) || return
  # It may be in an optional package, without which npm is content.
  ls "$to"/node_modules/$file >/dev/null || return
  cp "$from/package-lock.json" "$to/installed"
}
