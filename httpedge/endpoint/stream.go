package endpoint

import (
	"net"

	"parley/actors/machine"
)

// Stream lets the handler of an OnStream route answer with an event stream in place of a body.
//
// Until Start the handler may answer as any other: return an error, or a result. After Start it must return
// (nil, nil); the connection then leaves HTTP and serve gets it. The context of the request ends when the handler
// returns: what the stream needs longer must not hang on it.
type Stream interface {
	// Admit takes one of the caller's places for open streams. Call it before anything that cannot be undone, such
	// as sending a message. Start does it where the handler did not. The place is given back by Takeover.Release, or
	// when the handler returns without having started.
	Admit() error
	// Start schedules serve. It is called exactly once, on its own goroutine, after the handler has returned.
	Start(serve func(Takeover)) error
}

// Takeover is a connection that has left HTTP.
type Takeover struct {
	// Conn is the raw connection (*net.TCPConn, or *tls.Conn), with no deadline set, for the receiver to write the
	// response to and to close. It is nil when the connection died before it could be handed over: then only Release
	// is to be called.
	Conn net.Conn
	// Head holds the header lines which the edge adds to every response (request id, CORS, ...), each ending in
	// CRLF, to be put between the status line and the receiver's own headers.
	Head []byte
	// Release gives back the caller's place and counts the stream as ended. Call it once the connection is closed;
	// twice is harmless.
	Release func()
	// Reuse gives a connection on which the response has ended cleanly back to HTTP, for the client's next request.
	// Whoever calls it must not touch the connection afterwards. It does not block. It is nil when the connection must be
	// closed: the client has said so, or has not sent all of this request's body. What the client has sent meanwhile of its next
	// request must be left unread; what HTTP had read of it is not lost.
	Reuse func(conn net.Conn)
	// Still says why the caller would not be let in any more, nil = it would; a nil function = it always would. The receiver
	// asks at least as often as it pings, and ends the stream. It does not wait.
	Still func() *machine.Failure
	// Plain says that the client speaks HTTP/1.0: the response must not be in chunks, it ends with the connection.
	Plain bool
}
