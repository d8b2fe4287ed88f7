package peer

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/proto/nodepb"
)

// Purposes of a connection, told in the Hello of the one who dials.
const (
	purposeGreet    = "greet"
	purposeFrames   = "frames"
	purposeSnapshot = "snapshot"
	purposeFetch    = "fetch"
)

const (
	// maxHello bounds a Hello. It also keeps the first byte of whatever connects at 0, which no TLS or HTTP starts with.
	maxHello = 64 << 10
	// readBuffer holds many small batches, or a record of TLS.
	readBuffer = 32 << 10
)

// RefusedError is the refusal of a connection by the other side, in its words.
type RefusedError struct {
	Name   string // of the node that refuses
	Reason string
}

// Error implements error.
func (e *RefusedError) Error() string { return fmt.Sprintf("node %s refuses: %s", e.Name, e.Reason) }

// Greet asks who is at addr, and returns what it says of itself. What is empty in hello is not known yet. dial nil is TCP; without
// clientTLS the connection is not encrypted. A refusal is a RefusedError. ctx bounds it all, at most for 3 seconds.
func Greet(ctx context.Context, dial DialFunc, clientTLS *tls.Config, addr string, hello *nodepb.Hello) (*nodepb.Hello, error) {
	if dial == nil {
		dial = dialTCP
	}
	d := dialer{dial: dial, tls: clientTLS, connect: time.Second, handshake: 2 * time.Second}
	l, err := d.open(ctx, addr, withWire(hello), purposeGreet)
	if err != nil {
		return nil, err
	}
	l.close()
	return l.peer, nil
}

// dialTCP leaves keep-alives off: the pings of the transport ask more, and sooner.
func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}, KeepAlive: -1}
	return d.DialContext(ctx, "tcp", addr)
}

// refuse returns why a node that says mine does not serve a caller that says theirs, or "".
func refuse(mine, theirs *nodepb.Hello) string {
	if theirs.GetWireMin() > mine.GetWireMax() || theirs.GetWireMax() < mine.GetWireMin() {
		return fmt.Sprintf("%s speaks the message formats %d to %d, %s speaks %d to %d",
			theirs.GetName(), theirs.GetWireMin(), theirs.GetWireMax(), mine.GetName(), mine.GetWireMin(), mine.GetWireMax())
	}
	here, there := mine.GetClusterId(), theirs.GetClusterId()
	switch {
	case here != "" && there != "" && here != there:
		return fmt.Sprintf("%s belongs to cluster %s, %s to cluster %s", theirs.GetName(), there, mine.GetName(), here)
	case here != "" && here == there && mine.GetShards() != 0 && theirs.GetShards() != 0 && mine.GetShards() != theirs.GetShards():
		return fmt.Sprintf("%s counts %d shards, %s counts %d", theirs.GetName(), theirs.GetShards(), mine.GetName(), mine.GetShards())
	}
	if why := tooOld(mine, theirs); why != "" {
		return why
	}
	switch theirs.GetPurpose() {
	case purposeGreet:
		if here != "" && theirs.GetDiskFormat() != 0 && theirs.GetDiskFormat() < mine.GetDiskFormat() {
			return fmt.Sprintf("%s keeps disk format %d, which %s does not know: it knows up to %d",
				mine.GetName(), mine.GetDiskFormat(), theirs.GetName(), theirs.GetDiskFormat())
		}
		return ""
	case purposeFrames, purposeSnapshot, purposeFetch:
		return refuseMember(mine, theirs)
	default:
		return fmt.Sprintf("%s does not know the purpose %q", mine.GetName(), theirs.GetPurpose())
	}
}

// tooOld says why theirs may not take part in the cluster of mine: its release lacks features that the cluster uses. A release
// that knows of levels may greet, and learns from the answer that it must not start.
func tooOld(mine, theirs *nodepb.Hello) string {
	if theirs.GetLevel() >= mine.GetClusterLevel() || theirs.GetPurpose() == purposeGreet && theirs.GetLevel() > 0 {
		return ""
	}
	return fmt.Sprintf("the release of %s has feature level %d, the cluster is at level %d: start a newer release",
		theirs.GetName(), theirs.GetLevel(), mine.GetClusterLevel())
}

// refuseMember is what only members of one cluster must fulfil.
func refuseMember(mine, theirs *nodepb.Hello) string {
	switch {
	case mine.GetClusterId() == "" || mine.GetNode() == 0:
		return mine.GetName() + " is not in a cluster yet"
	case theirs.GetClusterId() == "" || theirs.GetNode() == 0:
		return theirs.GetName() + " is not in a cluster yet"
	case theirs.GetWant() != 0 && theirs.GetWant() != mine.GetNode():
		// Said before the connection counts as the newest of its kind: it must not end one that works.
		return fmt.Sprintf("node %d is not here, this is %s, node %d", theirs.GetWant(), mine.GetName(), mine.GetNode())
	case theirs.GetNode() == mine.GetNode():
		return fmt.Sprintf("%s uses the number of %s, %d", theirs.GetName(), mine.GetName(), mine.GetNode())
	case theirs.GetPurpose() == purposeSnapshot && theirs.GetDiskFormat() > mine.GetDiskFormat():
		return fmt.Sprintf("%s sends disk format %d, %s knows up to %d",
			theirs.GetName(), theirs.GetDiskFormat(), mine.GetName(), mine.GetDiskFormat())
	}
	return ""
}

// dialer opens links.
type dialer struct {
	dial               DialFunc
	tls                *tls.Config
	connect, handshake time.Duration
}

// open dials addr and greets: it returns a link without deadline, or an error that says enough to an operator.
func (d *dialer) open(ctx context.Context, addr string, hello *nodepb.Hello, purpose string) (*link, error) {
	dialing, cancel := context.WithTimeout(ctx, d.connect)
	defer cancel()
	conn, err := d.dial(dialing, addr)
	if err != nil {
		return nil, err
	}
	l := newLink(conn)
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	if err := l.raw.SetDeadline(time.Now().Add(d.handshake)); err != nil {
		l.close()
		return nil, fmt.Errorf("greet %s: %w", addr, err)
	}
	hello = proto.CloneOf(hello)
	hello.Purpose = purpose
	if err := l.greet(d.tls, hello); err != nil {
		l.close()
		return nil, fmt.Errorf("greet %s: %w", addr, explain(err))
	}
	return l, nil
}

// greet is the dialling side of a handshake.
func (l *link) greet(config *tls.Config, hello *nodepb.Hello) error {
	if config != nil {
		l.conn = tls.Client(l.raw, config)
	}
	l.r = bufio.NewReaderSize(l, readBuffer)
	said := l.sayHello(hello)
	answer, err := l.readHello() // even if that failed: it may tell why
	switch {
	case said != nil && !isAlert(err):
		return said
	case err != nil:
		return err
	}
	if answer.GetRefusal() != "" {
		return &RefusedError{Name: answer.GetName(), Reason: answer.GetRefusal()}
	}
	l.peer = answer
	return l.raw.SetDeadline(time.Time{})
}

func (l *link) sayHello(hello *nodepb.Hello) error {
	payload, err := proto.Marshal(hello)
	if err != nil {
		return fmt.Errorf("encode hello: %w", err)
	}
	_, err = l.conn.Write(appendFrame(nil, kindHello, payload))
	return err
}

func (l *link) readHello() (*nodepb.Hello, error) {
	kind, payload, err := readFrame(l.r, maxHello, nil)
	if err != nil {
		return nil, err
	}
	if kind != kindHello {
		return nil, fmt.Errorf("%w: kind %d instead of a hello", errBadFrame, kind)
	}
	hello := &nodepb.Hello{}
	if err := proto.Unmarshal(payload, hello); err != nil {
		return nil, fmt.Errorf("decode hello: %w", err)
	}
	return hello, nil
}

// isAlert says whether err is what the other side of TLS has to say.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// explain puts what usually is behind the error of a handshake in front of it.
func explain(err error) error {
	var (
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		hostname x509.HostnameError
		record   tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("its certificate is not signed by our authority: %w", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("its certificate has expired or is not valid yet: %w", err)
	case errors.As(err, &invalid), errors.As(err, &hostname):
		return fmt.Errorf("its certificate is not one for a node: %w", err)
	case errors.As(err, &record):
		return fmt.Errorf("it does not speak TLS, and we do: %w", err)
	case isAlert(err):
		return fmt.Errorf("it does not accept our certificate: %w", err)
	case errors.Is(err, errBadFrame):
		return fmt.Errorf("it is not a node, or speaks TLS and we do not: %w", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer in time: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it ended the connection, perhaps because only one side uses TLS: %w", err)
	default:
		return err
	}
}
