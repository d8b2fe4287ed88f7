// Package opsapi serves operators on a listener of their own: /healthz (the process lives), /readyz (it takes
// traffic, else 503 with the reason), /metrics (Prometheus), /version, /debug/pprof, and what the commands of the
// binary ask for: /v1/status, /v1/nodes/{name}/drain, /v1/backup.
//
// It stands apart from the public listener on purpose: plain net/http, few connections, its own limits, so that it
// answers while the public side is flooded, and is never reached through the public address.
//
// Invariants: no request waits longer than its deadline; what shows memory or stored data, and what changes the cluster,
// is for loopback only unless configured otherwise, and never for pages in a browser.
//
// It has no authentication and no TLS: keep it off the public network.
package opsapi
