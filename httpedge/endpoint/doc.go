// Package endpoint makes of one declaration all that the edge needs of a route: the router entry, decoding
// and validation of the input, the access and limit checks, encoding of the output, error rendering, the metric label,
// the log field and the operation of the OpenAPI document.
//
// A route names its handler, a typed function:
//
//	endpoint.On("GET /conversations/{id}", "conversation:read", a.getConversation, endpoint.Summary("Read one"))
//
// with func(context.Context, *In) (*Out, error). In says by tags where its fields come from (path, query, header,
// json), Out says how it is encoded. Handlers see a fresh context with a deadline, who calls (CallerFrom) and the
// request id (RequestIDFrom); never the connection, and never bytes that the server will reuse.
//
// Bodies come as streams. A route that takes JSON has its body read whole, after the caller was let in, within MaxBody; those
// above the server's usual size are held a few at a time. An OnUpload route gets the stream itself: it ends with io.EOF only
// when the whole body has come, and a client that makes no progress is an error. A File is sent the other way, with ranges,
// while it is read. What a handler left of a body is read away before the answer, or the connection is closed.
//
// Invariants: nothing reaches a handler that is not valid UTF-8, within its limits and of the type it asked for; a
// refusal or a fault is rendered by its surface's one table; a panic in a handler answers 500 and is logged.
//
// The package declares what handlers need of the rest of the node (Runtime, Reader, Files, Agents, IDs) and does not know
// who implements it. It owns no listener and no timeout: that is package httpedge.
package endpoint
