package accept_test

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/stretchr/testify/require"

	"parley/httpedge/accept"
)

// announce sends bytes over a socket and reads everything at the other end, which trusts some networks.
func announce(t *testing.T, trusted, sent string) (client, read string, err error) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	proxy, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(proxy, sent)
	require.NoError(t, err)
	require.NoError(t, proxy.Close())
	accepted, err := listener.Accept()
	require.NoError(t, err)
	conn := accept.Announce(accepted, []netip.Prefix{netip.MustParsePrefix(trusted)})
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	all, err := io.ReadAll(struct{ io.Reader }{conn})
	client, _, splitErr := net.SplitHostPort(conn.RemoteAddr().String())
	require.NoError(t, splitErr)
	return client, string(all), err
}

func header(t *testing.T, version byte, from, to string) string {
	t.Helper()
	source, err := net.ResolveTCPAddr("tcp", from)
	require.NoError(t, err)
	destination, err := net.ResolveTCPAddr("tcp", to)
	require.NoError(t, err)
	raw, err := proxyproto.HeaderProxyFromAddrs(version, source, destination).Format()
	require.NoError(t, err)
	return string(raw)
}

func TestAnnounced(t *testing.T) {
	t.Parallel()
	const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	v2 := header(t, 2, "198.51.100.1:4711", "192.0.2.1:80")
	local := "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	for name, c := range map[string]struct{ sent, client string }{
		"version 1":          {header(t, 1, "198.51.100.1:4711", "192.0.2.1:80"), "198.51.100.1"},
		"version 1, IPv6":    {header(t, 1, "[2001:db8::1]:4711", "[2001:db8::2]:80"), "2001:db8::1"},
		"version 1, unknown": {"PROXY UNKNOWN\r\n", "127.0.0.1"},
		"version 2":          {v2, "198.51.100.1"},
		"version 2, IPv6":    {header(t, 2, "[2001:db8::1]:4711", "[2001:db8::2]:80"), "2001:db8::1"},
		"its own request":    {local, "127.0.0.1"},
	} {
		client, read, err := announce(t, "127.0.0.0/8", c.sent+request)
		require.NoError(t, err, name)
		require.Equal(t, request, read, name)
		require.Equal(t, c.client, client, name)
	}
	for name, sent := range map[string]string{
		"none": request, "too long": "PROXY TCP4 " + strings.Repeat("1", 200) + "\r\n", "no addresses": "PROXY TCP4\r\n\r\n" + request,
		"a long addition": v2[:14] + "\xff\xff" + v2[16:] + request, "addresses of names": "PROXY TCP4 a.example b.example 1 2\r\n" + request,
	} {
		_, _, err := announce(t, "127.0.0.0/8", sent)
		require.ErrorIs(t, err, accept.ErrNoHeader, name)
	}
	for _, sent := range []string{"PROXY", "PROXY TCP4 198.51.100.1", v2[:13], v2[:20]} {
		_, read, err := announce(t, "127.0.0.0/8", sent)
		require.Empty(t, read)
		require.NotErrorIs(t, err, accept.ErrNoHeader, "a connection that ends is no news")
	}
	client, read, err := announce(t, "10.0.0.0/8", v2+request)
	require.NoError(t, err)
	require.Equal(t, v2+request, read, "not from others")
	require.Equal(t, "127.0.0.1", client)
}
