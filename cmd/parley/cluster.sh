#!/bin/bash
# Starts three nodes on this machine and says how to play with them. Ctrl-C stops them all.
# A node that died is started again by: cmd/parley/cluster.sh start n2
set -euo pipefail
cd "$(dirname "$0")/../.."

DATA=${DATA:-parley-cluster}
NODES=(n1 n2 n3)
HTTP_PORT=${HTTP_PORT:-8080}       # n1; the others 10 and 20 above
CLUSTER_PORT=${CLUSTER_PORT:-7100} # the same; each node also uses the two ports above its own
JOIN=127.0.0.1:$CLUSTER_PORT,127.0.0.1:$((CLUSTER_PORT + 10)),127.0.0.1:$((CLUSTER_PORT + 20))

http() { echo $((HTTP_PORT + 10 * (${1#n} - 1))); }

# What all nodes have to know alike is made once and kept beside their data.
kept() {
  if [ ! -s "$DATA/$1" ]; then (umask 077 && echo "$2$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >"$DATA/$1"); fi
  cat "$DATA/$1"
}

start() {
  local name=$1 port
  port=$(http "$name")
  mkdir -p "$DATA"
  PROVIDER_ENCRYPTION_SECRET=$(kept encryption.secret "")
  PARLEY_BOOTSTRAP_TOKEN=$(kept api.token service_)
  export PROVIDER_ENCRYPTION_SECRET PARLEY_BOOTSTRAP_TOKEN
  ./bin/parley serve --node-name "$name" --data-dir "$DATA/$name" --join "$JOIN" \
    --listen "127.0.0.1:$port" --ops-listen "127.0.0.1:$((port + 1))" \
    --cluster-listen "127.0.0.1:$((CLUSTER_PORT + 10 * (${name#n} - 1)))" >>"$DATA/$name.log" 2>&1 &
  echo $! >"$DATA/$name.pid"
}

ready() {
  local port
  port=$(($(http "$1") + 1))
  for _ in $(seq 300); do
    if curl -sf -o /dev/null --max-time 1 "http://127.0.0.1:$port/readyz"; then return 0; fi
    if ! kill -0 "$(cat "$DATA/$1.pid")" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "$1 does not get ready:" >&2
  tail -n 5 "$DATA/$1.log" >&2
  return 1
}

if [ "${1:-}" = start ]; then
  start "$2"
  ready "$2"
  echo "$2 runs as process $(cat "$DATA/$2.pid")"
  disown
  exit 0
fi

stop() {
  trap - INT TERM EXIT
  echo "stopping"
  for n in "${NODES[@]}"; do kill "$(cat "$DATA/$n.pid")" 2>/dev/null || true; done
  # Those that were started anew are no children of ours.
  for n in "${NODES[@]}"; do while kill -0 "$(cat "$DATA/$n.pid")" 2>/dev/null; do sleep 0.1; done; done
}
trap stop INT TERM EXIT

for n in "${NODES[@]}"; do start "$n"; done
for n in "${NODES[@]}"; do ready "$n"; done

api() { echo "http://127.0.0.1:$(http "$1")/api/agents"; }
cat <<TEXT

Three nodes are ready.

  n1  http://127.0.0.1:$(http n1)/   log $DATA/n1.log   process $(cat "$DATA/n1.pid")
  n2  http://127.0.0.1:$(http n2)/   log $DATA/n2.log   process $(cat "$DATA/n2.pid")
  n3  http://127.0.0.1:$(http n3)/   log $DATA/n3.log   process $(cat "$DATA/n3.pid")

Open the page on one of them, or try it from another terminal:

  # made through n1, spoken to through n2, followed through n3; X-Served-By names the owner
  ID=\$(curl -s -X POST $(api n1)/conversations -d '{"agentId":"assistant","userId":"ada"}' | sed 's/.*"id":"\\(conv_[^"]*\\)".*/\\1/')
  curl -sN $(api n3)/conversations/\$ID/events/stream &
  curl -si -X POST $(api n2)/conversations/\$ID/messages -d '{"message":"Tell me a short story."}' | grep -i x-served-by

  # the Client API, through any of them
  curl -s -H "Authorization: Bearer \$(cat $DATA/api.token)" http://127.0.0.1:$(http n3)/api/client/v1/agents/responses -d '{"model":"assistant","input":"Hello!"}'

  # who owns what, and kill an owner
  ./bin/parley status --ops http://127.0.0.1:$(($(http n1) + 1))
  kill -9 \$(cat $DATA/n2.pid)
  cmd/parley/cluster.sh start n2        # and back again

Ctrl-C stops all three. Their data stays in $DATA; remove it to begin anew.

TEXT
while sleep 1; do :; done
