// Package certs makes and loads the certificates for mutual TLS between nodes and the key of the gossip.
//
// Write makes a development authority for experiments and tests; in production operators bring their own certificates. In either
// case a node's certificate must be signed by the configured authority, allow both the server and the client side of TLS, and
// carry the name ServerName. The name distinguishes nodes from everything else that the authority may have signed; which node it
// is, the handshake of package peer establishes.
//
// Load checks all that, so that a wrong file is reported clearly at start and not in a handshake. The certificate and its key are
// reloaded when their files change, so they can be renewed without a restart; the authority is not: changing it takes a file with
// the old and the new one, and a rolling restart.
package certs
