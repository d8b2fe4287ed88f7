// Package opsapi serves operators on a listener of their own: /healthz (the process lives), /readyz (it takes
// traffic, else 503 with the reason), /metrics (Prometheus), /version, /debug/pprof, and the routes behind the
// binary's commands: /v1/status, /v1/nodes/{name}/drain, /v1/backup.
//
// It is separate from the public listener on purpose: plain net/http, few connections, limits of its own, so that it
// answers while the public listener is flooded, and cannot be reached through the public address.
//
// Invariants: no request waits longer than its deadline; routes that show memory or stored data, or change the cluster,
// are open to loopback only unless configured otherwise, and never to pages in a browser.
//
// It has no authentication and no TLS: keep it off the public network.
package opsapi
