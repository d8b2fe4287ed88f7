package peer

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/proto/nodepb"
)

// link is a connection whose ends have greeted each other.
type link struct {
	raw  net.Conn      // to close: at once, without a word to a peer that may not read
	conn net.Conn      // to write: TLS over raw, or raw
	r    *bufio.Reader // to read
	peer *nodepb.Hello // who is there

	pulse pulse
}

// pulse makes the reading side of a link show that it is alive. Zero does nothing.
type pulse struct {
	timeout time.Duration
	bytes   int       // read since the clock was looked at
	last    time.Time // of the last answer
}

// pulseBytes are read between two looks at the clock: a peer that sends less than this per Timeout is as good as dead.
const pulseBytes = 32 << 10

func newLink(conn net.Conn) *link { return &link{raw: conn, conn: conn} }

func (l *link) close() { _ = l.raw.Close() }

// Read reads for l.r. In the middle of a long batch it is what keeps the connection alive.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.conn.Read(p)
	if l.pulse.timeout == 0 {
		return n, err
	}
	l.pulse.bytes += n
	if l.pulse.bytes < pulseBytes || err != nil {
		return n, err
	}
	l.pulse.bytes = 0
	if now := time.Now(); now.Sub(l.pulse.last) >= pingEvery(l.pulse.timeout) {
		return n, l.beat(now)
	}
	return n, nil
}

// beat tells the sender that it is heard, and gives it another Timeout.
func (l *link) beat(now time.Time) error {
	l.pulse.last = now
	if err := l.raw.SetDeadline(now.Add(l.pulse.timeout)); err != nil {
		return err
	}
	var pong [headerSize]byte
	seal(pong[:], kindPong)
	_, err := l.conn.Write(pong[:])
	return err
}

// pingEvery is the time between two pings.
func pingEvery(timeout time.Duration) time.Duration { return timeout / 4 }

// limitSilence lets the kernel give up too, also on what was written before a close. Not for streams: to the kernel a
// receiver that takes its time, and lets its window close, is silent.
func (l *link) limitSilence(timeout time.Duration) {
	if tcp, ok := l.raw.(*net.TCPConn); ok {
		setUserTimeout(tcp, timeout)
	}
}

// dialNode opens a link to a node by its number.
func (t *Transport) dialNode(ctx context.Context, to uint64, purpose string) (l *link, addr string, err error) {
	mine := t.hello.Load()
	if t.stopped() {
		return nil, "", fmt.Errorf("dial node %d: the transport is stopped", to)
	}
	if mine.GetClusterId() == "" || mine.GetNode() == 0 {
		return nil, "", fmt.Errorf("dial node %d: this node is not in a cluster yet", to)
	}
	addr, known := t.cfg.Address(to)
	if !known {
		return nil, "", fmt.Errorf("dial node %d: its address is not known", to)
	}
	d := dialer{dial: t.cfg.Dial, tls: t.cfg.ClientTLS, connect: t.cfg.DialTimeout, handshake: t.cfg.HandshakeTimeout}
	hello := proto.CloneOf(mine)
	hello.Want = to
	if l, err = d.open(ctx, addr, hello, purpose); err != nil {
		return nil, addr, fmt.Errorf("dial node %d: %w", to, err)
	}
	if why := check(mine, l.peer, to); why != "" {
		l.close()
		return nil, addr, fmt.Errorf("dial node %d: %s: %s", to, addr, why)
	}
	return l, addr, nil
}

// check is what the dialling side asks of an answer. The answering side has asked its own.
func check(mine, theirs *nodepb.Hello, want uint64) string {
	switch {
	case theirs.GetNode() != want:
		return fmt.Sprintf("there is node %d (%s) instead", theirs.GetNode(), theirs.GetName())
	case theirs.GetClusterId() != mine.GetClusterId():
		return fmt.Sprintf("%s belongs to cluster %q, %s to cluster %q", theirs.GetName(), theirs.GetClusterId(), mine.GetName(), mine.GetClusterId())
	}
	return tooOld(mine, theirs)
}
