package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// reader is the client side of a stream. Its methods are called from one loop and must not block.
type reader interface {
	frame(now time.Time, f frame)
	comment(now time.Time, text []byte)
	// end is called when the stream is over: with the status and body of a response that was no stream, or the error
	// that broke it.
	end(now time.Time, status int, body []byte, err error)
}

// fleet serves many SSE connections with a few goroutines: raw sockets in epoll loops, so that the harness costs less
// than what it measures.
type fleet struct {
	addrs   []*net.TCPAddr
	hosts   []string
	loops   []*fleetLoop
	timeout time.Duration
	ended   sync.WaitGroup
}

type fleetLoop struct {
	epoll int
	wake  int // eventfd
	mu    struct {
		sync.Mutex
		conns map[int32]*fleetConn
		idle  map[int]*fleetConn // by the caller whose last response ended on it
		stop  bool
	}
}

type fleetConn struct {
	fd     int
	caller int
	host   int
	parser parser
	reader reader // nil while idle; changes under the loop's lock
	last   time.Time
}

func newFleet(o *Options) (*fleet, error) {
	f := &fleet{timeout: o.Timeout}
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" {
			return nil, fmt.Errorf("streams need an http base URL, got %q", raw)
		}
		port := u.Port()
		if port == "" {
			port = "80"
		}
		addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(u.Hostname(), port))
		if err != nil {
			return nil, fmt.Errorf("resolve %q: %w", raw, err)
		}
		f.addrs = append(f.addrs, addr)
		f.hosts = append(f.hosts, u.Host)
	}
	for range min(2, runtime.GOMAXPROCS(0)) {
		loop, err := newFleetLoop()
		if err != nil {
			f.close()
			return nil, err
		}
		f.loops = append(f.loops, loop)
		f.ended.Go(func() { loop.run(f.timeout) })
	}
	return f, nil
}

// sockaddr returns a new one for each connect, since it holds scratch space.
func sockaddr(addr *net.TCPAddr) (family int, sa unix.Sockaddr) {
	if v4 := addr.IP.To4(); v4 != nil {
		sa := &unix.SockaddrInet4{Port: addr.Port}
		copy(sa.Addr[:], v4)
		return unix.AF_INET, sa
	}
	v6 := &unix.SockaddrInet6{Port: addr.Port}
	copy(v6.Addr[:], addr.IP.To16())
	return unix.AF_INET6, v6
}

func newFleetLoop() (*fleetLoop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("eventfd: %w", err), unix.Close(epoll))
	}
	l := &fleetLoop{epoll: epoll, wake: wake}
	l.mu.conns, l.mu.idle = make(map[int32]*fleetConn), make(map[int]*fleetConn)
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &event); err != nil {
		return nil, errors.Join(fmt.Errorf("epoll add: %w", err), unix.Close(epoll), unix.Close(wake))
	}
	return l, nil
}

// open sends a request to the caller's host and leaves the stream to a loop; see openAt.
func (f *fleet) open(n int, request []byte, r reader) error {
	return f.openAt(n%len(f.addrs), n, request, r)
}

// openAt sends a request to a host and leaves the stream to a loop: like a browser on the caller's own connection if
// its last response ended cleanly, otherwise on a new one. It only blocks for the connect.
func (f *fleet) openAt(host, n int, request []byte, r reader) error {
	loop := f.loops[n%len(f.loops)]
	if loop.again(n, host, request, r) {
		return nil
	}
	family, addr := sockaddr(f.addrs[host])
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := connect(fd, addr, request); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	return loop.add(&fleetConn{fd: fd, caller: n, host: host, reader: r, last: time.Now()})
}

func connect(fd int, addr unix.Sockaddr, request []byte) error {
	if err := unix.Connect(fd, addr); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// Best effort: without it the kernel delays small packets.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	for len(request) > 0 {
		n, err := unix.Write(fd, request)
		if err != nil {
			return fmt.Errorf("send request: %w", err)
		}
		request = request[n:]
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("set non-blocking: %w", err)
	}
	return nil
}

// again sends a request on the caller's idle connection to that host, if there is one.
func (l *fleetLoop) again(n, host int, request []byte, r reader) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.mu.idle[n]
	if c == nil {
		return false
	}
	delete(l.mu.idle, n)
	if c.host != host {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // the loop hears of its end
		return false
	}
	if sent, err := unix.Write(c.fd, request); err != nil || sent != len(request) {
		return false // the loop hears of its end
	}
	c.parser, c.reader, c.last = parser{}, r, time.Now()
	return true
}

func (l *fleetLoop) add(c *fleetConn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stop {
		return errors.Join(net.ErrClosed, unix.Close(c.fd))
	}
	l.mu.conns[int32(c.fd)] = c
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(c.fd)}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.fd, &event); err != nil {
		delete(l.mu.conns, int32(c.fd))
		return errors.Join(fmt.Errorf("epoll add: %w", err), unix.Close(c.fd))
	}
	return nil
}

func (l *fleetLoop) run(timeout time.Duration) {
	events := make([]unix.EpollEvent, 512)
	buffer := make([]byte, 64<<10)
	swept := time.Now()
	for {
		n, err := unix.EpollWait(l.epoll, events, 1000)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		now := time.Now()
		for _, event := range events[:max(n, 0)] {
			if event.Fd == int32(l.wake) {
				l.closeAll(now)
				return
			}
			l.mu.Lock()
			c := l.mu.conns[event.Fd]
			var r reader
			if c != nil {
				r = c.reader
			}
			l.mu.Unlock()
			if c != nil {
				l.read(c, r, buffer)
			}
		}
		if now.Sub(swept) > time.Second {
			swept = now
			l.sweep(now, timeout)
		}
	}
}

func (l *fleetLoop) read(c *fleetConn, r reader, buffer []byte) {
	n, err := unix.Read(c.fd, buffer)
	now := time.Now()
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return
	case err != nil:
		l.drop(c, now, fmt.Errorf("read: %w", err))
		return
	case n == 0 || r == nil:
		l.drop(c, now, nil)
		return
	}
	c.last = now
	err = c.parser.feed(buffer[:n], func(f frame) { r.frame(now, f) }, func(text []byte) { r.comment(now, text) })
	switch {
	case err != nil, c.parser.ended && c.parser.closing:
		l.drop(c, now, err)
	case c.parser.ended:
		l.rest(c)
		r.end(now, c.parser.status, c.parser.body, nil)
	}
}

// rest keeps an idle connection for its caller's next request.
func (l *fleetLoop) rest(c *fleetConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.reader = nil
	l.mu.idle[c.caller] = c
}

func (l *fleetLoop) drop(c *fleetConn, now time.Time, err error) {
	l.mu.Lock()
	delete(l.mu.conns, int32(c.fd))
	if l.mu.idle[c.caller] == c {
		delete(l.mu.idle, c.caller)
	}
	r := c.reader
	l.mu.Unlock()
	// Closing also removes the descriptor from epoll.
	_ = unix.Close(c.fd)
	if r != nil {
		r.end(now, c.parser.status, c.parser.body, err)
	}
}

func (l *fleetLoop) sweep(now time.Time, timeout time.Duration) {
	var silent []*fleetConn
	l.mu.Lock()
	for _, c := range l.mu.conns {
		if c.reader != nil && now.Sub(c.last) > timeout {
			silent = append(silent, c)
		}
	}
	l.mu.Unlock()
	for _, c := range silent {
		l.drop(c, now, context.DeadlineExceeded)
	}
}

func (l *fleetLoop) closeAll(now time.Time) {
	l.mu.Lock()
	l.mu.stop = true
	left := l.mu.conns
	l.mu.conns = map[int32]*fleetConn{}
	l.mu.Unlock()
	for _, c := range left {
		_ = unix.Close(c.fd)
		if c.reader != nil {
			c.reader.end(now, c.parser.status, nil, net.ErrClosed)
		}
	}
}

func (f *fleet) close() {
	for _, l := range f.loops {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd takes eight bytes and never blocks here
	}
	f.ended.Wait()
	for _, l := range f.loops {
		_ = unix.Close(l.epoll)
		_ = unix.Close(l.wake)
	}
	f.loops = nil
}
