#!/bin/sh
# Fuzzes every reader for so many seconds each (60 unless told), from another seed each time, and tells the counts.
set -eu
cd "$(dirname "$0")/../.."
FUZZ_SECONDS=${1:-60} FUZZ_SEED=${2:-$(date +%s)}
export FUZZ_SECONDS FUZZ_SEED
echo "seed $FUZZ_SEED, $FUZZ_SECONDS s for each reader"
cargo test --locked -p mahabharatha --test fuzz -- --nocapture
