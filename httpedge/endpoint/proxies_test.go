package endpoint

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

func TestHopAddress(t *testing.T) {
	for sent, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:5678": "192.0.2.1", "2001:db8::1": "2001:db8::1", "[2001:db8::1]:443": "2001:db8::1",
		"[2001:db8::1]": "2001:db8::1",
	} {
		got, err := hopAddress(sent)
		require.NoError(t, err, sent)
		require.Equal(t, netip.MustParseAddr(want), got)
	}
	for _, sent := range []string{"", "unknown", "192.0.2.1:", "192.0.2.1:99999", "_hidden:80", "[2001:db8::1", "[]"} {
		_, err := hopAddress(sent)
		require.Error(t, err, sent)
	}
}

func TestClientBehindProxies(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}
	for name, c := range map[string]struct {
		header, peer string
		lines        []string // "name: value"
		want         string
	}{
		"no proxy":                     {"", "192.0.2.9", nil, "192.0.2.9"},
		"a stranger's word":            {"", "192.0.2.9", []string{"X-Forwarded-For: 198.51.100.7"}, "192.0.2.9"},
		"a proxy's word":               {"", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.7"}, "198.51.100.7"},
		"a proxy that says nothing":    {"", "10.0.0.1", nil, "10.0.0.1"},
		"what a client wrote before":   {"", "10.0.0.1", []string{"X-Forwarded-For: 203.0.113.1, 198.51.100.7"}, "198.51.100.7"},
		"two lines":                    {"", "10.0.0.1", []string{"X-Forwarded-For: 203.0.113.1", "X-Forwarded-For: 198.51.100.7"}, "198.51.100.7"},
		"two proxies":                  {"", "10.0.0.1", []string{"X-Forwarded-For: 203.0.113.1, 198.51.100.7, 10.0.0.2"}, "198.51.100.7"},
		"nonsense before it":           {"", "10.0.0.1", []string{"X-Forwarded-For: x, 10.0.0.2"}, "10.0.0.2"},
		"nonsense":                     {"", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.7, x"}, "10.0.0.1"},
		"with a port":                  {"", "10.0.0.1", []string{"X-Forwarded-For: 198.51.100.7:4711"}, "198.51.100.7"},
		"IPv4 in IPv6":                 {"", "::ffff:10.0.0.1", []string{"X-Forwarded-For: ::ffff:198.51.100.7"}, "198.51.100.7"},
		"a zone is not a new client":   {"", "10.0.0.1", []string{"X-Forwarded-For: fe80::1%a"}, "fe80::1"},
		"the other header":             {"", "10.0.0.1", []string{"Forwarded: for=203.0.113.1"}, "10.0.0.1"},
		"Forwarded":                    {"Forwarded", "2001:db8:1::1", []string{`Forwarded: for=203.0.113.1, For="[2001:db8::7]:443";proto=https`}, "2001:db8::7"},
		"Forwarded, not the other":     {"Forwarded", "10.0.0.1", []string{"X-Forwarded-For: 203.0.113.1", "Forwarded: proto=http;for=198.51.100.7"}, "198.51.100.7"},
		"Forwarded by an unknown":      {"Forwarded", "10.0.0.1", []string{"Forwarded: for=203.0.113.1, for=unknown"}, "10.0.0.1"},
		"Forwarded that names nobody":  {"Forwarded", "10.0.0.1", []string{"Forwarded: for=203.0.113.1, by=10.0.0.1"}, "10.0.0.1"},
		"Forwarded with a comma in it": {"Forwarded", "10.0.0.1", []string{`Forwarded: for="203.0.113.1,for=198.51.100.7"`}, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			var seen string
			mux := newTestMux(t, On("GET /a", "a:read", func(ctx context.Context, _ *struct{}) (*Empty, error) {
				seen = RequestFrom(ctx).RemoteIP()
				return nil, nil //nolint:nilnil // 204
			}, Status(204)))
			mux.config.Proxies = Proxies{Trusted: trusted, Header: c.header}
			var rc fasthttp.RequestCtx
			var request fasthttp.Request
			request.SetRequestURI("/x/a")
			for _, line := range c.lines {
				key, value, _ := strings.Cut(line, ": ")
				request.Header.Add(key, value)
			}
			rc.Init(&request, &net.TCPAddr{IP: net.ParseIP(c.peer), Port: 1}, nil)
			mux.Serve(&rc)
			require.Equal(t, c.want, seen, rc.Response.String())
		})
	}
}
