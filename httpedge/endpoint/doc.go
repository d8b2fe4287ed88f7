// Package endpoint turns one row per route into everything the edge needs of that route: the router entry, decoding
// and validation of the input, the access and limit checks, encoding of the output, error rendering, the metric label,
// the log field and the operation of the OpenAPI document.
//
// A row names a typed function:
//
//	endpoint.On("GET /conversations/{id}", "conversation:read", a.getConversation, endpoint.Summary("Read one"))
//
// with func(context.Context, *In) (*Out, error). In says by tags where its fields come from (path, query, header,
// json), Out says how it is encoded. Handlers see a fresh context with a deadline, who calls (CallerFrom) and the
// request id (RequestIDFrom); never the connection, and never bytes that the server will reuse.
//
// Invariants: nothing reaches a handler that is not valid UTF-8, within its limits and of the type it asked for; a
// refusal or a fault is rendered by its surface's one table; a panic in a handler answers 500 and is logged.
//
// The package declares what handlers need of the rest of the node (Runtime, Reader, Agents, IDs) and does not know
// who implements it. It owns no listener and no timeout: that is package httpedge.
package endpoint
