package sse

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller notifies connections that their client has left or their socket has become writable. Its epoll instance is
// itself watched by Go's network poller, so waiting costs no thread.
type poller struct {
	file *os.File // the epoll instance
	fd   int

	mu    sync.Mutex
	conns []*conn // by descriptor
	gen   uint32
}

// Receive buffers of a client that will send nothing more, and of one that may send another request. The kernel doubles
// them.
const (
	listenerBuffer = 16 << 10
	senderBuffer   = 128 << 10
)

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // makes os.NewFile register it with Go's poller
		_ = unix.Close(fd)
		return nil, fmt.Errorf("set epoll non-blocking: %w", err)
	}
	return &poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}, nil
}

// add takes over the socket. For a lean stream, and one that does not return to HTTP, the descriptor is duplicated and
// Go's connection closed, which saves a kilobyte.
func (p *poller) add(c *conn, tcp *net.TCPConn, userTimeout time.Duration) error {
	control, err := tcp.SyscallConn()
	if err != nil {
		return fmt.Errorf("reach socket: %w", err)
	}
	fd := -1
	bare := c.lean || c.reuse == nil
	var inner error
	err = control.Control(func(own uintptr) {
		fd = int(own)
		if bare {
			if fd, inner = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0); errors.Is(inner, unix.EMFILE) {
				fd, inner, bare = int(own), nil, false // it costs a kilobyte, and no descriptor
			}
		}
		if inner == nil {
			if c.lean { // nobody reads what this client sends
				_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, listenerBuffer)
			}
			// A client that vanishes silently is given up after this time, not after the kernel's 15 minutes.
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
		}
	})
	if err = errors.Join(err, inner); err != nil {
		return fmt.Errorf("take descriptor: %w", err)
	}
	if bare {
		_ = tcp.Close()
	} else {
		c.raw = tcp
	}
	c.fd = int32(fd)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen++
	c.gen = p.gen
	for len(p.conns) <= fd {
		p.conns = append(p.conns, nil)
	}
	p.conns[fd] = c
	// Edge-triggered and armed once: the kernel reports "writable" only after a write has failed with EAGAIN.
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLOUT | unix.EPOLLET, Fd: c.fd, Pad: int32(c.gen)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		p.conns[fd] = nil
		if bare {
			_ = unix.Close(fd)
		}
		return fmt.Errorf("watch descriptor: %w", err)
	}
	return nil
}

// forget stops watching and leaves the socket open, as c.raw. If there is no descriptor left to build a connection from
// a bare socket, it is closed and c.raw is nil.
func (p *poller) forget(c *conn) bool {
	p.drop(c)
	_ = unix.SetsockoptInt(int(c.fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0)
	if c.lean {
		_ = unix.SetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_RCVBUF, senderBuffer)
	}
	if unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, int(c.fd), nil) != nil {
		return false
	}
	if c.raw == nil {
		file := os.NewFile(uintptr(c.fd), "stream")
		c.raw, _ = net.FileConn(file) // has a descriptor of its own
		_ = file.Close()
	}
	return true
}

// close closes the socket. A clean close first discards what the client has sent: closing with unread bytes would reset
// the connection, and the client could lose the end of its stream.
func (p *poller) close(c *conn) {
	p.drop(c)
	fd := int(c.fd)
	if c.clean {
		_ = unix.Shutdown(fd, unix.SHUT_WR)
		var sink [4 << 10]byte
		for range 16 {
			if n, err := unix.Read(fd, sink[:]); n <= 0 || err != nil {
				break
			}
		}
	}
	if c.raw != nil {
		_ = c.raw.Close()
		return
	}
	_ = unix.Close(fd)
}

func (p *poller) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[c.fd] == c {
		p.conns[c.fd] = nil
	}
}

func (p *poller) find(event *unix.EpollEvent) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int(event.Fd) >= len(p.conns) {
		return nil
	}
	c := p.conns[event.Fd]
	if c == nil || c.gen != uint32(event.Pad) {
		return nil
	}
	return c
}

func (p *poller) run() {
	control, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	events := make([]unix.EpollEvent, 256)
	_ = control.Read(func(fd uintptr) bool { // ends when stop closes the file
		for {
			n, err := unix.EpollWait(int(fd), events, 0)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return true
			}
			if n == 0 {
				return false
			}
			for i := range events[:n] {
				p.handle(&events[i])
			}
		}
	})
}

func (p *poller) handle(event *unix.EpollEvent) {
	c := p.find(event)
	if c == nil {
		return
	}
	if event.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.kill(endClient)
		return
	}
	c.writable()
}

func (p *poller) stop() { _ = p.file.Close() }

// writeSocket writes to a non-blocking socket. The call is short and never waits, so it bypasses the scheduler, which
// would cost a tenth of the call, and the loop its processor whenever the thread is preempted.
func writeSocket(fd int, data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}
