#!/bin/sh
# Plays a coding agent: reads its prompt, takes a moment, writes the files of its task. Two of its first attempts go
# wrong on purpose, as those of real agents do.
cat >/dev/null
sleep 0.3
mkdir -p lib bin tests docs

case "$MAHABHARATHA_TASK_ID" in
SUM) cat >lib/sum.sh <<'END'
sum() {
  total=0
  for number in "$@"; do total=$((total + number)); done
  echo "$total"
}
END
;;
COUNT) cat >lib/count.sh <<'END'
count() { echo "$#"; }
END
;;
MIN) cat >lib/min.sh <<'END'
min() {
  least=$1
  for number in "$@"; do [ "$number" -ge "$least" ] || least=$number; done
  echo "$least"
}
END
;;
MAX) cat >lib/max.sh <<'END'
max() {
  most=$1
  for number in "$@"; do [ "$number" -le "$most" ] || most=$number; done
  echo "$most"
}
END
;;
ORDER) cat >lib/order.sh <<'END'
order() { printf '%s\n' "$@" | sort -n; }
END
;;
MEAN) cat >lib/mean.sh <<'END'
. lib/sum.sh
. lib/count.sh
mean() { echo $(($(sum "$@") / $(count "$@"))); }
END
;;
MEDIAN)
if [ "$MAHABHARATHA_ATTEMPT" = 1 ]; then
  # Forgets to sort.
  cat >lib/median.sh <<'END'
median() {
  shift $((($# - 1) / 2))
  echo "$1"
}
END
else
  cat >lib/median.sh <<'END'
. lib/order.sh
. lib/count.sh
median() {
  order "$@" | sed -n "$((($(count "$@") + 1) / 2))p"
}
END
fi ;;
RANGE) cat >lib/range.sh <<'END'
. lib/min.sh
. lib/max.sh
range() { echo $(($(max "$@") - $(min "$@"))); }
END
;;
CLI) cat >bin/abacus <<'END'
#!/bin/sh
# abacus <function> <number>...
cd "$(dirname "$0")/.." || exit 1
function=$1
case "$function" in
'' | *[!a-z]*) echo "usage: abacus <function> <number>..." >&2; exit 2 ;;
esac
[ -f "lib/$function.sh" ] || { echo "abacus: unknown function $function" >&2; exit 2; }
shift
. "lib/$function.sh"
"$function" "$@"
END
chmod +x bin/abacus
;;
USAGE)
cat >docs/usage.md <<'END'
# Using abacus

    bin/abacus sum 1 2 3
    bin/abacus median 5 1 3
END
# Means well, and touches a file that belongs to nobody.
[ "$MAHABHARATHA_ATTEMPT" != 1 ] || echo 'See docs/usage.md.' >>README.md
;;
CLI-TEST) cat >tests/cli_test.sh <<'END'
expect() { [ "$2" = "$3" ] || { echo "$1: expected $2, got $3"; exit 1; }; }
expect sum 6 "$(bin/abacus sum 1 2 3)"
expect min -2 "$(bin/abacus min 4 -2 9)"
expect max 9 "$(bin/abacus max 4 -2 9)"
expect mean 5 "$(bin/abacus mean 4 -2 13)"
expect median 3 "$(bin/abacus median 5 1 3)"
expect range 11 "$(bin/abacus range 4 -2 9)"
bin/abacus nothing 2>/dev/null && { echo "an unknown function was accepted"; exit 1; }
exit 0
END
;;
esac
