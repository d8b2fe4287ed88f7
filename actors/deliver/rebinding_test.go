package deliver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	// dnsmessage: the Go project's own packing of DNS messages.
	"golang.org/x/net/dns/dnsmessage"
)

// TestRebinding: a name that has a public address when it is judged and a private one when it is connected to is not reached.
func TestRebinding(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(server.Close)
	guard := NewGuard(GuardConfig{})
	t.Cleanup(guard.Close)
	guard.resolve = func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	}
	name := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	require.True(t, guard.Public(t.Context(), name))
	require.NoError(t, guard.Judge(t.Context(), name))
	poster, err := NewPoster(PosterConfig{Guard: guard, Stay: true})
	require.NoError(t, err)
	_, err = poster.Post(t.Context(), Post{URL: name, Body: []byte("{}")})
	require.ErrorIs(t, err, ErrForbiddenAddress)
}

// TestRebindingByDNS is the same with a name server: it gives a public address as long as it is asked for the judgement, and loopback
// from then on, as that of an attacker does.
func TestRebindingByDNS(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was reached") }))
	t.Cleanup(server.Close)
	names := newNameServer(t)
	guard := NewGuard(GuardConfig{})
	t.Cleanup(guard.Close)
	guard.resolver = names.resolver()
	guard.resolve = guard.resolver.LookupNetIP
	name := strings.Replace(server.URL, "127.0.0.1", "rebound.test", 1)

	names.answer(netip.MustParseAddr("93.184.215.14"))
	require.True(t, guard.Public(t.Context(), name))
	require.NoError(t, guard.Judge(t.Context(), name))
	judged := names.asked.Load()
	require.Positive(t, judged)

	names.answer(netip.MustParseAddr("127.0.0.1"))
	poster, err := NewPoster(PosterConfig{Guard: guard, Stay: true})
	require.NoError(t, err)
	_, err = poster.Post(t.Context(), Post{URL: name, Body: []byte("{}")})
	require.ErrorIs(t, err, ErrForbiddenAddress)
	require.Greater(t, names.asked.Load(), judged, "the connection was made by a new answer")
}

// nameServer is a DNS server on loopback with one A record for every name.
type nameServer struct {
	conn    net.PacketConn
	address atomic.Pointer[netip.Addr]
	asked   atomic.Int64 // questions for the A record
}

func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &nameServer{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

func (s *nameServer) answer(address netip.Addr) { s.address.Store(&address) }

// resolver asks this server and nobody else.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	packet := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFrom(packet)
		if err != nil {
			return
		}
		var message dnsmessage.Message
		if message.Unpack(packet[:n]) != nil || len(message.Questions) != 1 {
			continue
		}
		question := message.Questions[0]
		message.Response, message.Authoritative, message.Additionals = true, true, nil
		if question.Type == dnsmessage.TypeA {
			s.asked.Add(1)
			message.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.AResource{A: s.address.Load().As4()},
			}}
		}
		if reply, err := message.Pack(); err == nil {
			_, _ = s.conn.WriteTo(reply, from)
		}
	}
}
