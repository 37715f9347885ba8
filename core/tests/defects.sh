#!/usr/bin/env bash
# Each patch in core/tests/defects/ puts a deliberate defect into the run or into its simulation.
# The tests are worth something only if they fail with every one of them; this script fails if they do not.
set -euo pipefail
cd "$(dirname "$0")/../.."
defects=$PWD/core/tests/defects
tree=$PWD/target/defects/tree
log=$PWD/target/defects/log
export CARGO_TARGET_DIR=$PWD/target/defects/build CARGO_INCREMENTAL=1 RUST_BACKTRACE=0
export SIM_SCHEDULES=${SIM_SCHEDULES:-2000}

build() { cargo test --offline --quiet --package mahabharatha-core "$@" --no-run; }
simulate() { timeout 300 cargo test --offline --quiet --package mahabharatha-core --test sim "$@"; }
unit_tests() { timeout 300 cargo test --offline --quiet --package mahabharatha-core --lib run::; }

fresh_tree() {
    rm -rf "$tree"
    mkdir -p "$tree"
    cp -R Cargo.lock clippy.toml core "$tree"
    sed 's/^members = .*/members = ["core"]/' Cargo.toml >"$tree/Cargo.toml"
}

verdict_on() {
    if ! build --test sim; then
        echo "DOES NOT COMPILE" >&3
    elif ! simulate every_schedule; then
        echo "caught by the simulation" >&3
    elif ! simulate totality; then
        echo "caught by the simulation" >&3
    elif ! build --lib; then
        echo "DOES NOT COMPILE" >&3
    elif ! unit_tests; then
        echo "caught by a unit test" >&3
    else
        echo "NOT CAUGHT" >&3
    fi
}

mkdir -p "$log"
fresh_tree
verdict=$(cd "$tree" && SIM_SCHEDULES=200 verdict_on 3>&1 >"$log/none" 2>&1)
echo "without a defect: $verdict"
[ "$verdict" = "NOT CAUGHT" ] || {
    cat "$log/none"
    echo "the tests fail without any defect"
    exit 1
}

missed=0
for patch in "$defects"/*.patch; do
    name=$(basename "$patch" .patch)
    if (cd "$tree" && patch --strip=1 --force) <"$patch" >"$log/$name" 2>&1; then
        verdict=$(cd "$tree" && verdict_on 3>&1 >>"$log/$name" 2>&1)
        (cd "$tree" && patch --strip=1 --force --reverse) <"$patch" >>"$log/$name"
    else
        verdict="DOES NOT APPLY"
        fresh_tree
    fi
    printf '%-28s %s\n' "$name" "$verdict"
    case $verdict in caught*) ;; *) missed=$((missed + 1)) ;; esac
done
[ "$missed" = 0 ] || {
    echo "$missed of the defects were not caught; see $log"
    exit 1
}
