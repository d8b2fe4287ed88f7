// Package opsapi serves operators on a listener of their own: /healthz (the process lives), /readyz (it takes
// traffic, else 503 with the reason), /metrics (Prometheus), /version and /debug/pprof.
//
// It stands apart from the public listener on purpose: plain net/http, few connections, its own limits, so that it
// answers while the public side is flooded, and is never reached through the public address.
//
// Invariants: no request waits longer than its deadline; profiles are shown to loopback only unless configured
// otherwise, because they may hold what is in memory; nothing here changes anything.
//
// It has no authentication, no TLS and no write routes: keep it off the public network.
package opsapi
