// Package certs makes and loads what nodes show each other: certificates for mutual TLS and the key of gossip.
//
// Write makes a development authority, for trying things out and for tests; production brings certificates of its own.
// Whatever their source, a certificate of a node must be signed by the authority given, allow both the server and the
// client side of TLS, and carry the name ServerName. The name is what tells a node from everything else the same
// authority may have signed: which node it is, is not the certificate's business but the handshake's above.
//
// Load checks all that at once, so that a wrong file is found at start and with a clear text, not in a handshake. The
// certificate and its key are read again when the file changes, so they can be renewed without a restart; the authority
// is not: changing it takes a file with the old and the new one, and a rolling restart.
package certs
