#!/usr/bin/env bash
# Checks that the simulation fails with each deliberate defect in core/tests/defects.txt.
# Copies core, inserts all defects, each behind a switch, builds the simulation once and runs it once per defect.
# With arguments it tries only the defects of these names.
set -euo pipefail
cd "$(dirname "$0")/../.."
list=core/tests/defects.txt
tree=$PWD/target/defects/tree
log=$PWD/target/defects/log
export CARGO_TARGET_DIR=$PWD/target/defects/build RUST_BACKTRACE=0
export SIM_SCHEDULES=${SIM_SCHEDULES:-6000}

# Only core, without the dependencies of its other tests.
copy_tree() {
    rm -rf "$tree" && mkdir -p "$tree"
    cp -R Cargo.lock core "$tree"
    sed 's/^members = .*/members = ["core"]/; /^default-members/d' Cargo.toml >"$tree/Cargo.toml"
    sed '/^\[dev-dependencies\]/,/^$/d' core/Cargo.toml >"$tree/core/Cargo.toml"
    cat >>"$tree/core/src/lib.rs" <<'RUST'

/// Whether the deliberate defect of this name is switched on.
pub fn defect(name: &str) -> bool {
    static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var("DEFECT").ok()).as_deref() == Some(name)
}
RUST
}

names=()
name='' file='' old='' new=''

# Puts the defect that was read into the copied tree.
insert() {
    local text rest check="crate::defect(\"$name\")"
    [ -n "$name" ] || return 0
    case $file in core/tests/*) check="mahabharatha_core::defect(\"$name\")" ;; esac
    text=$(cat "$tree/$file")
    old=${old%$'\n'} new=${new%$'\n'}
    rest=${text#*"$old"}
    if [ -z "$old" ] || [ "$rest" = "$text" ] || [ "${rest#*"$old"}" != "$rest" ]; then
        echo "$name DOES NOT APPLY: its text must occur exactly once in $file:"
        echo "$old"
        exit 1
    fi
    printf '%s\n' "${text%%"$old"*}${new//DEFECT/"$check"}$rest" >"$tree/$file"
    names+=("$name")
    name='' old='' new=''
}

insert_all() {
    local line
    while IFS= read -r line; do
        case $line in
            '# '*) insert && name=${line#'# '} && name=${name%%:*} ;;
            '@ '*) file=${line#'@ '} ;;
            -*) old+=${line#-}$'\n' ;;
            +*) new+=${line#+}$'\n' ;;
        esac
    done <"$list"
    insert
}

build() {
    (cd "$tree" && cargo test --offline --package mahabharatha-core --test sim --no-run) 2>&1 | tee "$log/build" |
        sed -n 's/.*Executable.*(\(.*\))$/\1/p'
}

# Runs the simulation with one defect, or with none; says in one line what came of it.
try() {
    local name=$1 verdict=caught promise=
    export DEFECT=$name
    for test in every_schedule totality; do
        if ! timeout 300 "$simulation" "$test"; then break; fi
        [ "$test" != totality ] || verdict="NOT CAUGHT"
    done >"$log/$name" 2>&1
    # The first promise that it broke.
    promise=$(sed -n '/panicked/{n;p;q};/overflowed/{p;q}' "$log/$name" | cut -c1-90)
    printf '%-28s %-10s %s\n' "$name" "$verdict" "$promise"
    [ "$verdict" = caught ]
}
export -f try

mkdir -p "$log"
copy_tree
insert_all
simulation=$(build) || { cat "$log/build" && exit 1; }
export simulation log
if SIM_SCHEDULES=200 try none >/dev/null; then
    cat "$log/none"
    echo "the simulation fails without any defect"
    exit 1
fi
for name in "$@"; do
    [[ " ${names[*]} " = *" $name "* ]] || { echo "there is no defect $name in $list" && exit 1; }
done
[ $# = 0 ] || names=("$@")
if ! printf '%s\n' "${names[@]}" | xargs -P 2 -I{} bash -c 'try {}'; then
    echo "not every defect was caught; see $log"
    exit 1
fi
echo "all ${#names[@]} defects were caught, within $SIM_SCHEDULES schedules each"
