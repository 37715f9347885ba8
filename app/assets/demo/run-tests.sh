#!/bin/sh
# Runs every tests/*_test.sh; each prints what it expected when it fails.
status=0
for test in tests/*_test.sh; do
  [ -e "$test" ] || continue
  sh "$test" || { echo "FAILED $test"; status=1; }
done
exit $status
