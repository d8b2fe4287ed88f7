package accept

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"

	// It reads both versions of the header, with what proxies add to them; released monthly, without dependencies of its own.
	"github.com/pires/go-proxyproto"
)

// Announced is a connection from a proxy that says at its beginning for whom it is: the PROXY protocol, versions 1 and 2
// (haproxy.org/download/3.2/doc/proxy-protocol.txt). Whoever trusts the proxy accepts it as such, and then it must say so. The header is
// read with the first bytes, so that accepting waits for nobody; until then RemoteAddr is the proxy.
type Announced struct {
	*net.TCPConn
	failed error // of the header; used by Read only
	client atomic.Pointer[net.Addr]
}

// Bounds of a header, in bytes. Version 1 has at most 107; what proxies add to version 2 is far below 2 KiB.
const (
	signature  = 12 // of version 2; version 1 is longer
	longestV1  = 107
	fixedV2    = 16
	maxAddedV2 = 2 << 10
)

// ErrNoHeader says that a proxy did not begin with a PROXY header.
var ErrNoHeader = errors.New("a connection of a trusted proxy does not begin with a PROXY protocol header")

// Announce returns conn as one that begins with a PROXY header, if it is a TCP connection from one of the trusted networks.
func Announce(conn net.Conn, trusted []netip.Prefix) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	peer, ok := tcp.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return conn
	}
	for _, network := range trusted {
		if network.Contains(peer.AddrPort().Addr().Unmap()) {
			return &Announced{TCPConn: tcp}
		}
	}
	return conn
}

// Socket returns the socket of a connection that may be an *Announced, whose header has been read.
func Socket(conn net.Conn) net.Conn {
	if a, ok := conn.(*Announced); ok {
		return a.TCPConn
	}
	return conn
}

// Returned is a socket, perhaps under another descriptor, as the connection that it was taken from.
func Returned(socket, from net.Conn) net.Conn {
	a, announced := from.(*Announced)
	tcp, ok := socket.(*net.TCPConn)
	if !announced || !ok {
		return socket
	}
	returned := &Announced{TCPConn: tcp}
	returned.client.Store(a.client.Load())
	return returned
}

// RemoteAddr is the client, or the proxy where it asks for itself.
func (a *Announced) RemoteAddr() net.Addr {
	if client := a.client.Load(); client != nil {
		return *client
	}
	return a.TCPConn.RemoteAddr()
}

// Read reads what follows the header. It is called from one goroutine at a time.
func (a *Announced) Read(into []byte) (int, error) {
	if a.client.Load() == nil {
		if a.failed == nil {
			a.failed = a.readHeader()
		}
		if a.failed != nil {
			return 0, a.failed
		}
	}
	return a.TCPConn.Read(into)
}

func (a *Announced) readHeader() error {
	frame, err := headerFrame(a.TCPConn)
	if err != nil {
		return err
	}
	header, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(frame)))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoHeader, err)
	}
	client := a.TCPConn.RemoteAddr()
	if tcp, ok := header.SourceAddr.(*net.TCPAddr); ok && !header.Command.IsLocal() && header.TransportProtocol.IsStream() {
		client = tcp
	}
	a.client.Store(&client)
	return nil
}

// headerFrame takes the bytes of a header from a connection, and none behind it. A connection that ends or breaks first is no news.
func headerFrame(conn io.Reader) ([]byte, error) {
	frame := make([]byte, signature, longestV1)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return nil, err
	}
	if bytes.Equal(frame, proxyproto.SIGV2) {
		frame = frame[:fixedV2]
		if _, err := io.ReadFull(conn, frame[signature:]); err != nil {
			return nil, err
		}
		added := int(binary.BigEndian.Uint16(frame[fixedV2-2:]))
		if added > maxAddedV2 {
			return nil, fmt.Errorf("%w: it has %d bytes", ErrNoHeader, added)
		}
		frame = append(frame, make([]byte, added)...)
		_, err := io.ReadFull(conn, frame[fixedV2:])
		return frame, err
	}
	if !bytes.HasPrefix(frame, proxyproto.SIGV1) {
		return nil, ErrNoHeader
	}
	for frame[len(frame)-1] != '\n' {
		if len(frame) == longestV1 {
			return nil, fmt.Errorf("%w: its line has no end", ErrNoHeader)
		}
		frame = frame[:len(frame)+1]
		if _, err := io.ReadFull(conn, frame[len(frame)-1:]); err != nil {
			return nil, err
		}
	}
	return frame, nil
}
