#!/bin/bash
# Starts three nodes on this machine and says how to play with them. Ctrl-C stops them all. DATA is where they keep their data.
# A node that died is started again by: cmd/parley/cluster.sh start n2
set -euo pipefail
cd "$(dirname "$0")/../.."

DATA=${DATA:-parley-cluster}
NODES=(n1 n2 n3)

# The ports are kept beside the data, so that every later start takes the same ones: HTTP_PORT is n1's, its operations one above,
# those of n2 and n3 10 and 20 above. CLUSTER_PORT likewise; each node also uses the two ports above its own.
kept_http='' kept_cluster=''
if [ -s "$DATA/ports" ]; then read -r kept_http kept_cluster <"$DATA/ports"; fi
if [ "${1:-}" = start ]; then HTTP_PORT=$kept_http CLUSTER_PORT=$kept_cluster; fi # where the others look for it
HTTP_PORT=${HTTP_PORT:-${kept_http:-8080}}
CLUSTER_PORT=${CLUSTER_PORT:-${kept_cluster:-7100}}
if ((HTTP_PORT + 21 >= CLUSTER_PORT && CLUSTER_PORT + 22 >= HTTP_PORT)); then
  echo "HTTP_PORT $HTTP_PORT and CLUSTER_PORT $CLUSTER_PORT are too close: the nodes use the 22 ports above them." >&2
  exit 2
fi
JOIN=127.0.0.1:$CLUSTER_PORT,127.0.0.1:$((CLUSTER_PORT + 10)),127.0.0.1:$((CLUSTER_PORT + 20))

http() { echo $((HTTP_PORT + 10 * (${1#n} - 1))); }
cluster() { echo $((CLUSTER_PORT + 10 * (${1#n} - 1))); }

listens() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# runs says whether the process of a node is there: a number alone could be another program's by now.
runs() { [ -s "$DATA/$1.pid" ] && ps -o args= -p "$(cat "$DATA/$1.pid")" | grep -qF -- "--data-dir $DATA/$1 "; }

# gone waits for what was just killed, or is about to end.
gone() {
  for _ in $(seq 20); do
    "$@" || return 0
    sleep 0.1
  done
  return 1
}

# free fails, and says why, unless a node can start: it does not run, and nobody listens on its ports.
free() {
  local at port
  if ! gone runs "$1"; then
    echo "$1 runs already, as process $(cat "$DATA/$1.pid")." >&2
    return 1
  fi
  at=$(cluster "$1")
  for port in "$(http "$1")" $(($(http "$1") + 1)) "$at" $((at + 1)) $((at + 2)); do
    if ! gone listens "$port"; then
      echo "$1 cannot start: port $port is taken by another program. Stop that program, or start all three nodes" >&2
      echo "on other ports: HTTP_PORT=9080 CLUSTER_PORT=9200 make cluster" >&2
      return 1
    fi
  done
}

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
  JWT_SECRET=$(kept session.secret "")
  PARLEY_BOOTSTRAP_TOKEN=$(kept api.token service_)
  export PROVIDER_ENCRYPTION_SECRET JWT_SECRET PARLEY_BOOTSTRAP_TOKEN
  ./bin/parley serve --node-name "$name" --data-dir "$DATA/$name" --join "$JOIN" \
    --listen "127.0.0.1:$port" --ops-listen "127.0.0.1:$((port + 1))" \
    --cluster-listen "127.0.0.1:$(cluster "$name")" >>"$DATA/$name.log" 2>&1 &
  echo $! >"$DATA/$name.pid"
}

ready() {
  local port
  port=$(($(http "$1") + 1))
  for _ in $(seq 300); do
    if curl -sf -o /dev/null --max-time 1 "http://127.0.0.1:$port/readyz"; then return 0; fi
    # Not runs: for a moment the process is still this script, about to become the node.
    if ! kill -0 "$(cat "$DATA/$1.pid")" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "$1 does not get ready:" >&2
  tail -n 5 "$DATA/$1.log" >&2
  return 1
}

if [ "${1:-}" = start ]; then
  if [[ ! " ${NODES[*]} " == *" ${2:-} "* ]]; then
    echo "usage: cluster.sh [start n1|n2|n3]" >&2
    exit 2
  fi
  if [ ! -s "$DATA/ports" ]; then
    echo "There is no cluster in $DATA yet: make cluster" >&2
    exit 1
  fi
  free "$2"
  start "$2"
  if ! ready "$2"; then
    kill "$(cat "$DATA/$2.pid")" 2>/dev/null || true
    exit 1
  fi
  echo "$2 runs as process $(cat "$DATA/$2.pid")"
  disown
  exit 0
fi

stop() {
  trap - EXIT
  echo "stopping"
  for n in "${NODES[@]}"; do if runs "$n"; then kill "$(cat "$DATA/$n.pid")" || true; fi; done
  # Those that were started anew are no children of ours.
  for n in "${NODES[@]}"; do while runs "$n"; do sleep 0.1; done; done
}

for n in "${NODES[@]}"; do free "$n"; done
mkdir -p "$DATA"
echo "$HTTP_PORT $CLUSTER_PORT" >"$DATA/ports"
trap stop EXIT
trap 'exit 0' INT TERM

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

Ctrl-C stops all three. Their data and ports stay in $DATA; remove it to begin anew.

TEXT
while sleep 1; do :; done
