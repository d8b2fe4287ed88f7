#!/usr/bin/env bash
# Processor time per turn, per streamed answer and per created conversation: this source over a named commit, in alternating pairs on
# this machine, each pair on fresh data. Exits 1 when the median of a row's ratios is above LIMIT; a row that is above it after PAIRS pairs
# is judged by twice as many. Exits 2 when it could not measure. Leave the machine alone meanwhile.
# Usage: bench/gate.sh COMMIT; PAIRS=7, LONG=14s, LIMIT=1.07. The load is this source's, for both.
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git rev-parse --verify --quiet "${1:?usage: bench/gate.sh COMMIT}^{commit}") || { echo "bench/gate.sh: no commit $1" >&2; exit 2; }
pairs=${PAIRS:-7} long=${LONG:-14s} limit=${LIMIT:-1.07}
out=$(mktemp -d)
port=$((20000 + $$ % 5000 * 2)) # two of them on one machine do not meet
listen=127.0.0.1:$port ops=127.0.0.1:$((port + 1))
server=
finish() {
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  git worktree remove --force "$out/source" 2>/dev/null || true
  rm -rf "$out"
}
trap finish EXIT
broken() { # broken WHAT: ends with the server's log
  echo "bench/gate.sh: $1" >&2
  tail -n 40 "$out/server.log" >&2 || true
  exit 2
}
git worktree add --quiet --detach "$out/source" "$base"
(cd "$out/source" && go build -o "$out/old" ./cmd/parley && cp bench/bench.yaml "$out/old.yaml")
go build -o "$out/new" ./cmd/parley && cp bench/bench.yaml "$out/new.yaml"
ulimit -n "$(ulimit -Hn)"

start() { # start old|new on fresh data
  rm -rf "$out/data"
  "$out/$1" serve --config "$out/$1.yaml" --data-dir "$out/data" --listen $listen --ops-listen $ops --log-level warn --limits-streams-per-caller 0 >"$out/server.log" 2>&1 &
  server=$!
  curl -fs -o "$out/ready" --retry 60 --retry-delay 1 --retry-connrefused --retry-max-time 60 "http://$ops/readyz" || broken "the server of $1 is not ready"
  kill -0 "$server" 2>/dev/null || broken "something else listens on $ops"
}
stop() { kill "$server"; wait "$server" || true; server=; }
measure() { # measure SCENARIO [flags]: prints microseconds of the server's processor per request
  "$out/new" bench "$@" -url "http://$listen" -ops-url "http://$ops" -quiet -json >"$out/report" || return
  sed -n 's/.*"server CPU us per request": *\([0-9.]*\).*/\1/p' "$out/report"
}
one() { # one old|new FILE: writes a line of "ROW VALUE" for each row
  start "$1"
  # 256 streams: with few of them what the server does anyway is most of what it does.
  { echo "turn $(measure turn -concurrency 64 -records 64 -duration "$long" -warm-up 2s)"
    echo "stream $(measure stream -concurrency 256 -duration "$long" -warm-up 2s -ramp 1s)"
    echo "create $(measure create -concurrency 64 -duration "$long" -warm-up 2s)"; } >"$2"
  [ "$(awk 'NF == 2 && $2 > 0' "$2" | wc -l)" = 3 ] || { cat "$out/report" >&2; broken "$1 was not measured: $(tr '\n' ';' <"$2")"; }
  stop
}
measured=0
measure_pairs() {
  for ((i = 0; i < pairs; i++)); do
    order="old new"; [ $((++measured % 2)) = 1 ] || order="new old" # what warms up or slows down the machine meets both
    for which in $order; do one "$which" "$out/$which.one"; done
    paste "$out/old.one" "$out/new.one" |
      awk -v pair="$measured" '{ printf "pair %d: %-6s %8.1f -> %8.1f us, %.3f\n", pair, $1, $2, $4, $4 / $2 }' | tee -a "$out/pairs"
  done
}
verdict() { # prints the medians; fails when one is above the limit
  for row in turn stream create; do
    awk -v row="$row" '$3 == row { print $NF }' "$out/pairs" | sort -n | awk -v row="$row" -v limit="$limit" -v pairs="$measured" '{ of[NR] = $1 + 0 }
      END { if (NR != pairs) exit 2
        median = (of[int((NR + 1) / 2)] + of[int((NR + 2) / 2)]) / 2
        printf "%-6s %.3f x (%.3f to %.3f of %d pairs)%s\n", row, median, of[1], of[NR], NR, (median > limit + 0) ? ", above " limit : "" }' || broken "the pairs of $row cannot be judged"
  done >"$out/verdict"
  cat "$out/verdict"
  ! grep -q above "$out/verdict"
}

measure_pairs
echo
verdict && exit 0
echo "again, to judge by twice as many"
measure_pairs
echo
verdict
