package placement

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/cluster"
	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// Member is a live node.
type Member struct {
	Name    string
	Boot    string // identifies the start of its process
	Address string // host:port of its actors
}

// Owners returns the owner of a shard. It does not block.
type Owners interface {
	Owner(in shard.ID) (cluster.Owner, bool)
}

// Config is what a System needs. Zero values mean the defaults; Name, Boot, Cluster, Listen, Shards, Members, Owners,
// Serve, Encode and Decode are required.
type Config struct {
	Name, Boot, Cluster string
	// Listen is the address (host:port) of this node's actors.
	Listen string
	// ServerTLS and ClientTLS secure the connections, both or none. Anyone who can connect can stop actors: without TLS only
	// loopback is safe.
	ServerTLS, ClientTLS *tls.Config
	// Shards is the map of the cluster: there is a gate for each of its shards and for the directory.
	Shards shard.Map
	// Members returns the live nodes, including this one. It must not call the System.
	Members func() []Member
	// Owners names the node that a caller should ask instead.
	Owners Owners
	// Serve is the shell of this node.
	Serve cluster.Local
	// Encode encodes an error of the shell for the wire; it is never called for "not the owner".
	Encode func(error) *nodepb.Fault
	// Decode is its inverse on the calling node.
	Decode func(*nodepb.Fault) error
	// OnLinks is called when a node is reached or lost; see System.Unreached. It must not block. Optional.
	OnLinks func()
	// Dial makes connections; tests cut them. Nil = TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Beat is the interval of heartbeats. Default 500 ms.
	Beat time.Duration
	// Silence is how long a node may be silent before calls that wait for it fail as lost. Shorter fails faster, but mistakes
	// more busy nodes for dead ones. Default 2 s.
	Silence time.Duration
	// ReachWait is how long a call waits for a node that is not connected. Default 100 ms.
	ReachWait time.Duration
	// CallLimit bounds the handling of a call from another node without a deadline. Default 15 min.
	CallLimit time.Duration
	// Serving bounds the calls from other nodes that are served at a time; more are refused. Default 8192.
	Serving int
	// MessageBytes bounds one call or answer. Default 16 MiB.
	MessageBytes int
	// QueueBytes bounds what waits to be sent to one node; more is refused. Default 32 MiB, and MessageBytes at least.
	QueueBytes int
	// FollowChanges and FollowBytes bound the changes of one follow that wait to be sent. One that falls further behind is closed
	// and may follow again. Default 1024, 1 MiB.
	FollowChanges, FollowBytes int
	// NewsBytes bounds the changes of all follows of one node that wait to be sent. Default 32 MiB.
	NewsBytes int
	// NewsWindow bounds the news sent to one node that it has not acknowledged. Default 4 MiB.
	NewsWindow int
	// NewsPause is the shortest time between two batches of news to one node; the first after a pause is sent at once. Longer
	// takes less CPU, shorter has less latency. Default 5 ms.
	NewsPause time.Duration
	// Follows bounds the follows that one other node may have here. Default 131072.
	Follows int

	Logger     *slog.Logger          // nil = silent
	Registerer prometheus.Registerer // nil = metrics are private
}

func (c *Config) setDefaults() {
	orDefault(&c.Beat, 500*time.Millisecond)
	orDefault(&c.Silence, 2*time.Second)
	orDefault(&c.ReachWait, 100*time.Millisecond)
	orDefault(&c.CallLimit, 15*time.Minute)
	orDefault(&c.Serving, 8192)
	orDefault(&c.MessageBytes, 16<<20)
	orDefault(&c.QueueBytes, 32<<20)
	orDefault(&c.FollowChanges, 1024)
	orDefault(&c.FollowBytes, 1<<20)
	orDefault(&c.NewsBytes, 32<<20)
	orDefault(&c.NewsWindow, 4<<20)
	orDefault(&c.NewsPause, 5*time.Millisecond)
	orDefault(&c.Follows, 1<<17)
	if c.Dial == nil {
		dialer := &net.Dialer{}
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	if c.OnLinks == nil {
		c.OnLinks = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

func (c *Config) validate() error {
	switch {
	case c.Name == "" || c.Boot == "" || c.Cluster == "" || c.Listen == "":
		return errors.New("placement: Name, Boot, Cluster and Listen are required")
	case c.Shards.Count() == 0 || c.Members == nil || c.Owners == nil || c.Serve == nil || c.Encode == nil || c.Decode == nil:
		return errors.New("placement: Shards, Members, Owners, Serve, Encode and Decode are required")
	case (c.ServerTLS == nil) != (c.ClientTLS == nil):
		return errors.New("placement: ServerTLS and ClientTLS belong together")
	case c.Beat < 0 || c.Silence < 2*c.Beat || c.ReachWait < 0 || c.CallLimit < 0 || c.NewsPause < 0:
		return errors.New("placement: times must not be negative, and Silence is at least two beats")
	case c.Serving < 0 || c.MessageBytes < 0 || c.QueueBytes < c.MessageBytes || c.Follows < 0:
		return errors.New("placement: bounds must not be negative, and QueueBytes is at least MessageBytes")
	case c.FollowChanges < 0 || c.FollowBytes < 0 || c.NewsBytes < 0 || c.NewsWindow < 0:
		return errors.New("placement: bounds of follows must not be negative")
	}
	return nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("placement: address %q: %w", address, err)
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("placement: address %q: %w", address, err)
	}
	return host, int(number), nil
}
