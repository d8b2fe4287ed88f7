package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/proto/nodepb"
)

// Formats of messages between nodes that this program speaks. Those of format 1 do not know the directory's questions, nor rows
// of usage in the log, those of format 2 no guards of the directory's writes: they are not for one cluster with those of 3.
const (
	WireMin = 3
	WireMax = 3
)

// DialFunc opens a connection to HOST:PORT.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// Config is everything a Transport needs. Zero values of the optional fields take the default named beside them.
type Config struct {
	// Hello is what this node says of itself. Its cluster and node may be empty until SetIdentity: until then only Greet is
	// answered, and nothing is sent. An empty wire range is filled with WireMin and WireMax. Required.
	Hello *nodepb.Hello
	// Listener takes the connections of the others; Stop closes it. Required.
	Listener net.Listener
	// Dial opens a connection to another. Default: TCP.
	Dial DialFunc
	// ServerTLS and ClientTLS are for mutual TLS; both or none.
	ServerTLS, ClientTLS *tls.Config
	// Address is the newest known HOST:PORT of a node, also of one that is down. It must be cheap. Required.
	Address func(node uint64) (addr string, known bool)

	// Named is the node that this one has on record under a name, and the version of that record; 0 = none. Whoever greets
	// learns what is on record under its own name. It must be cheap. Optional.
	Named func(name string) (node, version uint64)

	// OnFrames takes a batch, which it may keep. Called from a goroutine per sending node, in order; it must not block. Required.
	OnFrames func(from uint64, kind Kind, frames [][]byte)
	// OnUnreachable tells that frames to a node were lost: its connection broke, cannot be made (told at most once a second), or takes
	// less than is sent (the same). It must not block. Optional.
	OnUnreachable func(node uint64)
	// OnReachable tells that a connection to a node is made, so that news need not wait for their turn. It must not block. Optional.
	OnReachable func(node uint64)
	// OnDown tells that nobody listens where a node was: its process is gone. Told with the first attempts to reach it again. It must not block. Optional.
	OnDown func(node uint64)
	// OnSnapshot takes a snapshot and returns when it is kept for good; its error travels back. ctx ends when the sender is gone. Optional.
	OnSnapshot func(ctx context.Context, from uint64, header []byte, r io.Reader) error
	// OnFetch answers a request with a stream; its error travels back. ctx ends when the caller is gone. Optional.
	OnFetch func(ctx context.Context, from uint64, request []byte, w io.Writer) error

	// QueueBytes may wait for a peer, beside as much that is being written. Default 32 MiB. More rides out longer stalls; memory is only taken when needed.
	QueueBytes int
	// MaxFrameBytes bounds one frame; a larger one is not sent, and not taken. Default 40 MiB. Must be the same on all nodes.
	MaxFrameBytes int
	// Timeout of silence ends a connection. Default 2s. Shorter finds a dead peer sooner, and a slow one dead.
	Timeout time.Duration
	// DialTimeout bounds making a connection, DialTimeout and HandshakeTimeout together the greeting too. Defaults 500ms and 2s.
	DialTimeout, HandshakeTimeout time.Duration
	// MinBackoff and MaxBackoff bound the time from one attempt to reach a node to the next. Defaults 50ms and 1s. A node that refuses
	// connections, because its process is not there, is tried at least every 2*MinBackoff, since that costs nothing.
	MinBackoff, MaxBackoff time.Duration
	// IdleAfter without anything to send, the connection to a node is closed. Default 30s.
	IdleAfter time.Duration
	// MaxStreams of other nodes are served at once. Default 16; more are refused.
	MaxStreams int

	// Logger takes what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
	// Registerer takes the metrics. Nil keeps them private.
	Registerer prometheus.Registerer
}

const (
	defaultQueueBytes       = 32 << 20
	defaultMaxFrameBytes    = 40 << 20
	defaultTimeout          = 2 * time.Second
	defaultDialTimeout      = 500 * time.Millisecond
	defaultHandshakeTimeout = 2 * time.Second
	defaultMinBackoff       = 50 * time.Millisecond
	defaultMaxBackoff       = time.Second
	defaultIdleAfter        = 30 * time.Second
	defaultMaxStreams       = 16
)

func (c *Config) setDefaults() {
	setDefault(&c.QueueBytes, defaultQueueBytes)
	setDefault(&c.MaxFrameBytes, defaultMaxFrameBytes)
	setDefault(&c.Timeout, defaultTimeout)
	setDefault(&c.DialTimeout, defaultDialTimeout)
	setDefault(&c.HandshakeTimeout, defaultHandshakeTimeout)
	setDefault(&c.MinBackoff, defaultMinBackoff)
	setDefault(&c.MaxBackoff, defaultMaxBackoff)
	setDefault(&c.IdleAfter, defaultIdleAfter)
	setDefault(&c.MaxStreams, defaultMaxStreams)
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	c.ServerTLS, c.ClientTLS = wholeRecords(c.ServerTLS), wholeRecords(c.ClientTLS)
	if c.Named == nil {
		c.Named = func(string) (uint64, uint64) { return 0, 0 }
	}
	if c.OnUnreachable == nil {
		c.OnUnreachable = func(uint64) {}
	}
	if c.OnReachable == nil {
		c.OnReachable = func(uint64) {}
	}
	if c.OnDown == nil {
		c.OnDown = func(uint64) {}
	}
	if c.OnSnapshot == nil {
		c.OnSnapshot = func(context.Context, uint64, []byte, io.Reader) error {
			return errors.New("this node takes no snapshots")
		}
	}
	if c.OnFetch == nil {
		c.OnFetch = func(context.Context, uint64, []byte, io.Writer) error {
			return errors.New("this node gives nothing out")
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// wholeRecords lets a small batch be one record, and so one write, also after a pause.
func wholeRecords(config *tls.Config) *tls.Config {
	if config == nil {
		return nil
	}
	config = config.Clone()
	config.DynamicRecordSizingDisabled = true
	return config
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) validate() error {
	switch {
	case c.Hello == nil:
		return errors.New("hello is required")
	case c.Listener == nil:
		return errors.New("listener is required")
	case c.Address == nil:
		return errors.New("address is required")
	case c.OnFrames == nil:
		return errors.New("on frames is required")
	case (c.ServerTLS == nil) != (c.ClientTLS == nil):
		return errors.New("TLS is for both directions or none")
	case c.QueueBytes < 1 || c.MaxFrameBytes < 1 || c.MaxFrameBytes > 1<<30 || c.MaxStreams < 1:
		return errors.New("bounds must be positive, and a frame at most 1 GiB")
	case c.Timeout < 20*time.Millisecond || c.DialTimeout <= 0 || c.HandshakeTimeout <= 0 || c.IdleAfter <= 0:
		return errors.New("timeouts must be positive, and that of silence at least 20ms")
	case c.MinBackoff < time.Millisecond || c.MaxBackoff < c.MinBackoff:
		return errors.New("backoff must be at least 1ms and end behind its start")
	}
	return nil
}

// withWire is hello with the wire range of this program if it names none.
func withWire(hello *nodepb.Hello) *nodepb.Hello {
	hello = proto.CloneOf(hello)
	if hello.GetWireMax() == 0 {
		hello.WireMin, hello.WireMax = WireMin, WireMax
	}
	return hello
}
