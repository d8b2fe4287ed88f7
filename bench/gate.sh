#!/usr/bin/env bash
# Processor time per turn, per streamed answer and per created conversation: this source over a named commit, in alternating pairs on
# this machine, each pair on fresh data. Exits 1 when the median of a row's ratios is above LIMIT. Leave the machine alone meanwhile.
# Usage: bench/gate.sh COMMIT; PAIRS=7 (odd), LONG=14s, LIMIT=1.07. The load is this source's, for both.
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git rev-parse --verify "${1:?usage: bench/gate.sh COMMIT}^{commit}") || exit 2
pairs=${PAIRS:-7} long=${LONG:-14s} limit=${LIMIT:-1.07}
out=$(mktemp -d)
listen=127.0.0.1:18082 ops=127.0.0.1:18083
server=
finish() {
  [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
  git worktree remove --force "$out/source" 2>/dev/null || true
  rm -rf "$out"
}
trap finish EXIT
git worktree add --quiet --detach "$out/source" "$base"
(cd "$out/source" && go build -o "$out/old" ./cmd/parley && cp bench/bench.yaml "$out/old.yaml")
go build -o "$out/new" ./cmd/parley && cp bench/bench.yaml "$out/new.yaml"
ulimit -n "$(ulimit -Hn)"

start() { # start old|new on fresh data
  rm -rf "$out/data"
  "$out/$1" serve --config "$out/$1.yaml" --data-dir "$out/data" --listen $listen --ops-listen $ops --log-level warn --limits-streams-per-caller 0 >"$out/$1.log" 2>&1 &
  server=$!
  until curl -fs -o "$out/ready" "http://$ops/readyz"; do kill -0 "$server" || { cat "$out/$1.log" >&2; exit 2; }; done
}
stop() { kill "$server"; wait "$server" || true; server=; }
measure() { # measure SCENARIO [flags]: prints microseconds of the server's processor per request
  "$out/new" bench "$@" -url "http://$listen" -ops-url "http://$ops" -quiet -json | grep -o '"server CPU us per request": *[0-9.]*' | grep -o '[0-9.]*$'
}
one() { # one old|new: a line of "ROW VALUE" for each row
  start "$1"
  echo "turn $(measure turn -concurrency 64 -records 64 -duration "$long" -warm-up 2s)"
  echo "stream $(measure stream -concurrency 64 -duration "$long" -warm-up 2s -ramp 1s)"
  echo "create $(measure create -concurrency 64 -duration "$long" -warm-up 2s)"
  stop
}

for ((pair = 1; pair <= pairs; pair++)); do
  order="old new"; [ $((pair % 2)) = 1 ] || order="new old" # what warms up or slows down the machine meets both
  for which in $order; do one "$which" >"$out/$which.$pair"; done
  paste "$out/old.$pair" "$out/new.$pair" | awk -v pair="$pair" '{ printf "pair %d: %-6s %8.1f -> %8.1f us, %.3f\n", pair, $1, $2, $4, $4 / $2 }' | tee -a "$out/pairs"
done
echo
for row in turn stream create; do
  awk -v row="$row" '$3 == row { print $NF }' "$out/pairs" | sort -n | awk -v row="$row" -v limit="$limit" '{ of[NR] = $1 }
    END { median = of[int((NR + 1) / 2)]; red = median > limit; printf "%-6s %.3f x (%.3f to %.3f)%s\n", row, median, of[1], of[NR], red ? "  above " limit : ""; exit red }' || touch "$out/red"
done
[ ! -e "$out/red" ]
