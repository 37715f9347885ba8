#!/usr/bin/env bash
# Makes the pictures of the documentation (docs/pictures/): the screen and the page during a run of the example project, in
# which one agent asks a question and others are still working. Needs tmux, python3 and chromium.
#
#   docs/pictures.sh [PROGRAM]    by default target/release/mahabharatha
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-target/release/mahabharatha}")
dir=$(mktemp -d)
project=$dir/abacus
terminal() { tmux -u -S "$dir/tmux" -f /dev/null "$@"; }
server=
clean_up() {
  [ -z "$server" ] || kill "$server" || true
  "$program" -C "$project" stop --force --quiet || true
  terminal kill-server 2>/dev/null || true
  rm -rf "$dir"
}
trap clean_up EXIT

# The example project of `demo`, with an agent that asks in one task and takes long in two.
place() { mkdir -p "$(dirname "$project/$2")" && cp "app/assets/demo/$1" "$project/$2"; }
place readme.md README.md
place run-tests.sh tests/run.sh
place scripted-agent.sh tools/scripted-agent.sh
place config.yaml .mahabharatha/config.yaml
place project.md .gsd/PROJECT.md
for spec in requirements.md design.md task-graph.json; do place "$spec" ".gsd/specs/statistics/$spec"; done
question='Should the mean of 1 and 2 be rounded down, or to the nearest number?'
sed -i "s/^sleep 0.3\$/case \$MAHABHARATHA_TASK_ID in MEAN) echo '$question'; exit 3 ;; CLI | RANGE) sleep 600 ;; esac; sleep 1/" \
  "$project/tools/scripted-agent.sh"
git -C "$project" init --quiet --initial-branch=main
git -C "$project" config user.name Ada
git -C "$project" config user.email ada@example.com
git -C "$project" add --all
git -C "$project" commit --quiet --message 'The example project'

export HOME=$dir/home LANG=C.UTF-8
mkdir "$HOME"
terminal new-session -d -x 110 -y 29 -c "$project" "env -u NO_COLOR COLORTERM=truecolor '$program' run statistics"
shows() {
  for _ in $(seq 600); do
    ! terminal capture-pane -p | grep -q "$1" || return 0
    sleep 0.1
  done
  echo "the screen does not show $1:" >&2
  terminal capture-pane -p >&2
  exit 1
}
shows 'rounded down'
shows '✓ MEDIAN'
shows 'RANGE .* 12s'
terminal capture-pane -p -e | python3 docs/pictures/svg.py 110 >docs/pictures/screen.svg

mkfifo "$dir/said"
"$program" -C "$project" serve --json >"$dir/said" &
server=$!
read -r said <"$dir/said"
url=$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["url"])' "$said")
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1280,860 \
  --screenshot="$PWD/docs/pictures/page.png" "$url" 2>"$dir/chromium" || { cat "$dir/chromium" >&2 && exit 1; }
echo "docs/pictures/screen.svg docs/pictures/page.png" >&2
