// Package agentpb is the data of agents. Beside the generated code it holds what of an agent may travel, and which header
// fields no policy of an agent lets through.
package agentpb

import "strings"

// WithheldHeader says whether a header field is never handed on with a runtime context: it belongs to the connection, or says
// on whose behalf another client speaks.
func WithheldHeader(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive",
		"expect", "accept-encoding", "proxy-authorization", "proxy-connection", "cookie", "forwarded", "via", "x-real-ip":
		return true
	}
	return strings.HasPrefix(name, "x-forwarded-")
}
