#!/usr/bin/env bash
# Each patch in core/tests/defects/ puts a deliberate defect into the run or into its simulation.
# The simulation is worth something only if it fails with every one of them; this script fails if it does not.
# With arguments it tries only the defects of these names; with --third a third of them, another one each day.
set -euo pipefail
cd "$(dirname "$0")/../.."
defects=$PWD/core/tests/defects
tree=$PWD/target/defects/tree
log=$PWD/target/defects/log
export CARGO_TARGET_DIR=$PWD/target/defects/build CARGO_INCREMENTAL=1 RUST_BACKTRACE=0
export SIM_SCHEDULES=${SIM_SCHEDULES:-2000}

# The core alone, without what the simulation has no use for: it is built anew for every defect.
fresh_tree() {
    rm -rf "$tree"
    mkdir -p "$tree"
    cp -R Cargo.lock clippy.toml core "$tree"
    sed -e 's/^members = .*/members = ["core"]/' -e '/^\[profile\.dev\.package/,/^$/d' Cargo.toml >"$tree/Cargo.toml"
    sed '/^\[dev-dependencies\]/,/^$/d' core/Cargo.toml >"$tree/core/Cargo.toml"
}

simulation() { timeout 300 cargo test --offline --quiet --package mahabharatha-core --test sim "$@"; }

verdict_on_tree() {
    cd "$tree"
    if ! simulation --no-run; then
        echo "DOES NOT COMPILE" >&3
    elif simulation every_schedule && simulation totality; then
        echo "NOT CAUGHT" >&3
    else
        echo "caught" >&3
    fi
}

mkdir -p "$log"
fresh_tree
verdict=$(SIM_SCHEDULES=200 verdict_on_tree 3>&1 >"$log/none" 2>&1)
if [ "$verdict" != "NOT CAUGHT" ]; then
    cat "$log/none"
    echo "the simulation fails without any defect"
    exit 1
fi

mapfile -t names < <(basename --suffix .patch "$defects"/*.patch)
if [ "${1:-}" = --third ]; then
    day=$(($(date +%s) / 86400))
    mapfile -t names < <(printf '%s\n' "${names[@]}" | awk -v third=$((day % 3)) 'NR % 3 == third')
elif [ $# -gt 0 ]; then
    names=("$@")
fi
missed=0
for name in "${names[@]}"; do
    patch=$defects/$name.patch
    if patch --directory="$tree" --strip=1 --force <"$patch" >"$log/$name" 2>&1; then
        verdict=$(verdict_on_tree 3>&1 >>"$log/$name" 2>&1)
        patch --directory="$tree" --strip=1 --force --reverse <"$patch" >>"$log/$name"
    else
        verdict="DOES NOT APPLY"
        fresh_tree
    fi
    # Why it was caught, in the words of the first promise that it broke.
    printf '%-28s %-10s %s\n' "$name" "$verdict" "$(grep -A1 -m1 panicked "$log/$name" | tail -n +2 | cut -c1-90)"
    [ "$verdict" = caught ] || missed=$((missed + 1))
done
if [ "$missed" != 0 ]; then
    echo "$missed of the defects were not caught; see $log"
    exit 1
fi
echo "all ${#names[@]} defects were caught, within $SIM_SCHEDULES schedules each"
