#!/usr/bin/env bash
# The numbers of RESULTS.md in one run: the disk's yardstick, then each scenario against a fresh server on this machine, then those of
# three nodes. Leave the machine alone meanwhile. Usage: bench/results.sh [FOLDER for data and logs]; QUICK=1 takes a tenth of the time,
# for trying the script; ONLY=node, ONLY=cluster, ONLY=people, ONLY=client or ONLY=webhooks runs one part. Exits 1 when a scenario on nodes of its own failed.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-$(mktemp -d)}
mkdir -p "$out"
parley=bin/parley
listen=127.0.0.1:18080 ops=127.0.0.1:18081
long=10s warm=3s rounds=5 soak=4m
if [ -n "${QUICK:-}" ]; then long=2s warm=1s rounds=2 soak=1m; fi
ulimit -n "$(ulimit -Hn)"

start() { # start the server on its data and wait until it is ready; prints the milliseconds that took
  local began
  began=$(date +%s%N)
  "$parley" serve --config bench/bench.yaml --data-dir "$out/data" --listen "$listen" --ops-listen "$ops" --log-level warn --http-max-connections 30000 --limits-streams-per-caller 0 \
    >"$out/server.log" 2>&1 &
  server=$!
  until curl -fs -o "$out/ready" "http://$ops/readyz"; do
    kill -0 "$server" || { cat "$out/server.log" >&2; exit 1; }
  done
  echo $((($(date +%s%N) - began) / 1000000))
}
stop() { kill "$server"; wait "$server" || true; }
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT
measure() { # measure TITLE SCENARIO [flags]
  printf '\n## %s\n\n    parley bench %s\n\n' "$1" "${*:2}"
  "$parley" bench "${@:2}" -url "http://$listen" -ops-url "http://$ops" -quiet | sed 's/^/    /'
}

together() { # together TITLE SCENARIO [flags]: on nodes that the harness starts itself
  printf '\n## %s\n\n    parley bench %s\n\n' "$1" "${*:2}"
  # One that fails says so and leaves the rest to be measured.
  { "$parley" bench "${@:2}" -dir "$out/cluster" -quiet 2>&1 || { echo "FAILED"; touch "$out/failed"; }; } | sed 's/^/    /'
  if [ -z "${KEEP:-}" ]; then rm -rf "$out/cluster"; fi
}

cluster() {
  local kills=20 minutes=10m faults=60 state=1073741824
  if [ -n "${QUICK:-}" ]; then kills=3 minutes=30s faults=4 state=67108864; fi
  local network=-network
  ip netns list >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || network=-network=false
  together "Three nodes: idle" idle -nodes 3
  together "One node: turns, 256 conversations (yardstick of the next)" turn -nodes 1 -concurrency 256 -records 256 -duration $long -warm-up $warm
  together "Three nodes: turns, 256 conversations" turn -nodes 3 -concurrency 256 -records 256 -duration $long -warm-up $warm
  together "Three nodes: forwarded and local requests, one caller" forward
  together "Three nodes: cancel from another node" cancel
  together "Three nodes: kill -9 of owners" failover -faults $kills
  together "Three nodes: rolling restart under 200 turns/s and 1,000 streams" rolling
  together "A fourth node joins" join -state-bytes $state
  together "Chaos" chaos $network -duration $minutes -faults $faults
}

people() { # people, money and files
  local sends=1000 kills=5 rounds=5 messages=10000 more=1000 files=5 size=104857600 quiet=10s logins=5 people=64
  if [ -n "${QUICK:-}" ]; then sends=60 kills=1 rounds=1 messages=400 more=50 files=1 size=20971520 quiet=2s logins=1 people=16; fi
  together "Budget: one conversation, owners killed" budget -count $sends -faults $kills
  together "Resolve after restart, one node" resolve -nodes 1 -faults $rounds
  together "Resolve after restart and after failover, three nodes" resolve -faults $rounds
  together "A long conversation: a window of 4,000 tokens" long -messages $messages -count $more
  together "A long conversation: a model that is sent no history" long -agent bench-files -messages $messages -count $more
  together "A long conversation: a window of 128,000 tokens" long -agent bench-wide -messages $messages -count $((more / 5))
  together "$people logins at once, one node" logins -count $people -duration $quiet -rounds $logins
  together "A large file, one node" upload -state-bytes $size -count $files
  together "A large file, three nodes" upload -nodes 3 -state-bytes $size -count $files
}

client() { # the Client API
  local warm=$warm sessions=100000 long=40s calls=20s pages=30s validations=1s rounds=8 answers=4 recordings=5 size=100000000 quiet=60s
  if [ -n "${QUICK:-}" ]; then sessions=1000 long=2s calls=1s pages=1s warm=500ms validations=100ms rounds=1 answers=1 recordings=1 size=5000000 quiet=0s; fi
  together "Chat completions through the gateway over the model itself, 500/s each" gateway -duration $calls -warm-up $warm
  together "Responses over the conversation server's own send, 64 callers" responses -duration $long -warm-up $warm
  together "A2A message/send over the conversation server's own send, 64 callers" a2a -duration $long -warm-up $warm
  together "Sessions: pages of 100, three nodes" sessions -records $sessions -duration $pages -warm-up $warm
  together "Spans of OpenTelemetry, 200 in a report, one node" spans -duration $calls -warm-up $warm
  together "Answers through a shield over the same without, 50 tokens a second each" guarded -rounds $rounds -count $answers
  together "Answers through a shield over the same without, 200 tokens at once" guarded -agent bench-flow -rounds $rounds -count $((answers * 10))
  together "A recording as a form and as base64, one node" audio -state-bytes $size -count $recordings -settle $quiet
  if [ -z "${QUICK:-}" ]; then # what the dead node's calls hold is free after 30 s
    together "1,000 calls at once against a daily budget, three nodes, one killed" spending
  fi
  printf '\n## A token that is known\n\n    go test ./httpedge/token -run x -bench Hit\n\n'
  go test ./httpedge/token -run '^$' -bench Hit -benchtime $validations | grep -E '^Benchmark' | sed 's/^/    /'
}

webhooks() {
  local long=30s pairs=200 kills=${KILLS:-20m} events=100000
  if [ -n "${QUICK:-}" ]; then long=3s pairs=10 kills=15s events=1000; fi
  together "Webhooks: a turn with a matching endpoint over one without, processor time" webhooks -scenario cost -duration $long -warm-up $warm
  together "Webhooks: event to receiver, idle, three nodes" webhooks -scenario latency -count $pairs
  together "Webhooks: deliveries a second, one node, 64 endpoints" webhooks -scenario rate -duration $long -warm-up $warm
  together "Webhooks: one endpoint of 64 that never answers" webhooks -scenario dead -duration $((2 * ${long%s}))s -warm-up $warm
  together "Webhooks: kill -9 of random nodes, 200 conversations, 20 endpoints" webhooks -scenario kills -duration $kills
  together "Webhooks: $events events to an endpoint that does not answer in time" webhooks -scenario burst -count $events
}

finish() { [ ! -e "$out/failed" ] || { echo "a scenario failed" >&2; exit 1; }; }

echo "# Raw results, $(date -u +%F), $(nproc) cores, $(go version | cut -d' ' -f3)"
if [ "${ONLY:-}" = cluster ]; then cluster; finish; exit; fi
if [ "${ONLY:-}" = people ]; then people; finish; exit; fi
if [ "${ONLY:-}" = client ]; then client; finish; exit; fi
if [ "${ONLY:-}" = webhooks ]; then webhooks; finish; exit; fi
printf '\n## Yardstick: the disk\n\n    parley bench disk\n\n'
"$parley" bench disk -dir "$out" -duration "${warm}" | sed 's/^/    /'
start >"$out/start"
measure "Turns, 256 conversations" turn -concurrency 256 -records 256 -duration $long -warm-up $warm
printf '\n## Yardstick again\n\n'
"$parley" bench disk -dir "$out" -writers 256 -duration "${warm}" | sed 's/^/    /'
measure "Turns, one caller" turn -concurrency 1 -duration $long -warm-up $warm
measure "Create" create -concurrency 64 -duration $long -warm-up $warm
measure "Read 20 messages" read -concurrency 64 -duration $long -warm-up $warm
measure "List 20 of 10,000" list -concurrency 64 -duration $long -warm-up $warm
stop; rm -rf "$out/data"; start >"$out/start"
measure "100 streams" stream -concurrency 100 -rounds $rounds -ramp 1s
measure "1,000 streams" stream -concurrency 1000 -rounds $rounds -ramp 1s
measure "3,000 streams" stream -concurrency 3000 -rounds $rounds -ramp 1s
stop; rm -rf "$out/data"; start >"$out/start"
measure "18,000 followers of 1,000 conversations" follow -concurrency 18000 -records 1000 -rounds 1 -ramp 5s -settle 12s
stop; rm -rf "$out/data"; start >"$out/start"
measure "18,000 followers of one conversation" follow -concurrency 18000 -records 1 -rounds $rounds -ramp 5s -settle 12s
stop; rm -rf "$out/data"; start >"$out/start"
measure "Fill with 1 GB" turn -concurrency 16 -records 512 -message-bytes 65000 -count 6000 -warm-up 0s
kill -9 "$server"; wait "$server" 2>/dev/null || true
start >"$out/start"
printf '\n## Restart after kill -9 with %s of data\n\n    ready after %s ms\n' "$(du -sh "$out/data" | cut -f1)" "$(cat "$out/start")"
stop
together "Soak: ever new conversations, and the memory a minute later" soak -duration "$soak"
printf '\n## Memory of an idle activated conversation; delta; ask\n\n    go test ./actors -run x -bench "Idle|Delta|Ask"\n\n'
go test ./actors -run '^$' -bench 'Idle|Delta|Ask' -benchtime 1s | grep -E '^Benchmark|ns/op' | sed 's/^/    /'
if [ "${ONLY:-}" != node ]; then cluster; people; client; KILLS=${KILLS:-3m} webhooks; fi
finish
