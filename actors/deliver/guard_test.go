package deliver_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"parley/actors/deliver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAddresses(t *testing.T) {
	t.Parallel()
	guard := deliver.NewGuard(deliver.GuardConfig{})
	for address, allowed := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "193.140.100.100": true, "172.15.255.255": true, "172.32.0.1": true, "100.63.255.255": true,
		"100.128.0.1": true, "192.0.1.1": true, "198.17.255.255": true, "223.255.255.255": true, "169.253.255.255": true,
		"2606:4700:4700::1111": true, "2a00:1450:4001:81b::200e": true,

		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "100.64.0.1": false, "100.100.100.200": false, "127.0.0.1": false,
		"127.255.255.254": false, "168.63.129.16": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.0.0.192": false, "192.0.2.1": false, "192.88.99.1": false, "192.168.1.1": false, "198.18.0.1": false,
		"198.19.255.255": false, "198.51.100.7": false, "203.0.113.9": false, "224.0.0.1": false, "239.255.255.255": false,
		"240.0.0.1": false, "255.255.255.255": false,

		"::": false, "::1": false, "::127.0.0.1": false, "::8.8.8.8": false, "fe80::1": false, "fe80::1%lo": false, "fc00::1": false,
		"fd00:ec2::254": false, "fec0::1": false, "ff02::1": false, "2001::1": false, "2001:db8::1": false, "3fff::1": false,
		"2002:7f00:1::": false, "2002:808:808::": false, "100::1": false, "5f00::1": false, "4000::1": false,

		"::ffff:8.8.8.8": true, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:10.0.0.1": false,
		"64:ff9b::8.8.8.8": true, "64:ff9b::127.0.0.1": false, "64:ff9b::10.0.0.1": false, "64:ff9b::169.254.169.254": false,
		"64:ff9b:1::8.8.8.8": false,
	} {
		require.Equal(t, allowed, guard.Allowed(netip.MustParseAddr(address)), address)
	}
	require.False(t, guard.Allowed(netip.Addr{}))
}

// TestJudge: where a URL leads is judged before anything is sent there, as far as that can be said.
func TestJudge(t *testing.T) {
	t.Parallel()
	guard := deliver.NewGuard(deliver.GuardConfig{
		Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, AllowHosts: []string{"hooks.test", "port.test:8080"},
	})
	for target, wanted := range map[string]error{
		"https://8.8.8.8/x": nil, "http://10.1.2.3/": nil, "https://[2606:4700:4700::1111]/": nil,
		"https://hooks.test/x": nil, "http://port.test:8080/": nil,
		"https://no-such-host.invalid/x": nil, // whoever connects will see
		"http://10.2.0.1/":               deliver.ErrForbiddenAddress, "http://169.254.169.254/latest": deliver.ErrForbiddenAddress,
		"http://[::1]:99/": deliver.ErrForbiddenAddress, "http://[::ffff:127.0.0.1]/": deliver.ErrForbiddenAddress,
		"http://localhost/": deliver.ErrForbiddenAddress, "https://LOCALHOST:8443/": deliver.ErrForbiddenAddress,
		"ftp://8.8.8.8/": deliver.ErrBadURL, "https:///x": deliver.ErrBadURL, "nonsense": deliver.ErrBadURL,
		"https://me:pw@8.8.8.8/": deliver.ErrBadURL,
	} {
		require.ErrorIs(t, guard.Judge(t.Context(), target), wanted, target)
	}
}

// An IPv4 address is judged alike in each of its spellings.
func TestSpellings(t *testing.T) {
	t.Parallel()
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	rapid.Check(t, func(t *rapid.T) {
		four := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		plain := netip.AddrFrom4(four)
		mapped := netip.AddrFrom16(plain.As16())
		require.Equal(t, guard.Allowed(plain), guard.Allowed(mapped), plain)
		if plain.IsPrivate() || plain.IsLoopback() || plain.IsLinkLocalUnicast() || plain.IsMulticast() || plain.IsUnspecified() {
			inside := netip.MustParsePrefix("10.1.0.0/16").Contains(plain)
			require.Equal(t, inside, guard.Allowed(plain), plain)
		}
	})
}

func TestAllowMapped(t *testing.T) {
	t.Parallel()
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("::ffff:127.0.0.0/104")}})
	require.True(t, guard.Allowed(netip.MustParseAddr("127.0.0.1")))
	require.False(t, guard.Allowed(netip.MustParseAddr("10.0.0.1")))
}

// get makes a request whose idle connections do not outlive the test.
func get(t *testing.T, guard *deliver.Guard, target string, header http.Header) error {
	t.Helper()
	t.Cleanup(guard.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	require.NoError(t, err)
	if header != nil {
		request.Header = header
	}
	response, err := guard.Client(0).Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.Body.Close()
}

func hostOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	parsed, err := url.Parse(server.URL)
	require.NoError(t, err)
	return parsed.Host
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestConnect(t *testing.T) {
	t.Parallel()
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(hostOf(t, server))
	require.NoError(t, err)

	t.Run("loopback_is_refused_by_address_and_by_name", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1", "2130706433", "0x7f.1"} {
			err := get(t, deliver.NewGuard(deliver.GuardConfig{}), "http://"+host+":"+port, nil)
			require.Error(t, err, host)
			if host[0] != '2' && host != "0x7f.1" && host != "127.1" { // these are names to Go, and do not resolve
				require.ErrorIs(t, err, deliver.ErrForbiddenAddress, host)
			}
		}
	})
	t.Run("the_operator_allows_addresses", func(t *testing.T) {
		t.Parallel()
		allow := deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		err := get(t, deliver.NewGuard(allow), server.URL, nil)
		require.NoError(t, err)
	})
	t.Run("the_operator_allows_hosts", func(t *testing.T) {
		t.Parallel()
		for _, host := range []string{"LocalHost", "localhost.:" + port, "localhost:" + port} {
			err := get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{host}}), "http://localhost:"+port, nil)
			require.NoError(t, err, host)
		}
		err := get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{"localhost:1"}}), "http://localhost:"+port, nil)
		require.ErrorIs(t, err, deliver.ErrForbiddenAddress)
	})
}

func TestNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	err := get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{hostOf(t, server)}}), server.URL, nil)
	require.NoError(t, err)
}

//nolint:tparallel // the subtests share what the last hop heard
func TestRedirects(t *testing.T) {
	t.Parallel()
	secret := func() http.Header {
		return http.Header{
			"Authorization": {"Bearer key"}, "X-Api-Key": {"key"}, "Cookie": {"a=b"}, "Accept": {"text/plain"}, "Idempotency-Key": {"1"},
		}
	}
	var last http.Header
	end := serve(t, func(_ http.ResponseWriter, request *http.Request) { last = request.Header })
	endHost := hostOf(t, end)

	t.Run("a_hop_to_a_private_address_is_refused", func(t *testing.T) {
		start := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, end.URL, http.StatusFound) })
		last = nil
		err := get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{hostOf(t, start)}}), start.URL, nil)
		require.ErrorIs(t, err, deliver.ErrForbiddenAddress)
		require.Nil(t, last)
	})
	t.Run("another_host_gets_no_credentials", func(t *testing.T) {
		start := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, end.URL+"/x", http.StatusTemporaryRedirect)
		})
		guard := deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{hostOf(t, start), endHost}})
		err := get(t, guard, start.URL+"/?token=secret", secret())
		require.NoError(t, err)
		require.Equal(t, []string{"text/plain"}, last["Accept"])
		require.Equal(t, []string{"1"}, last["Idempotency-Key"])
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Referer"} {
			require.Empty(t, last.Get(name), name)
		}
	})
	t.Run("not_even_back_home", func(t *testing.T) {
		var start *httptest.Server
		var home http.Header
		away := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, start.URL+"/home", http.StatusFound) })
		start = serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/home" {
				home = r.Header
				return
			}
			http.Redirect(w, r, away.URL, http.StatusFound)
		})
		guard := deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{hostOf(t, start), hostOf(t, away)}})
		err := get(t, guard, start.URL, secret())
		require.NoError(t, err)
		require.NotNil(t, home)
		require.Empty(t, home.Get("X-Api-Key"))
		require.Empty(t, home.Get("Authorization"))
	})
	t.Run("the_same_host_keeps_them", func(t *testing.T) {
		var kept http.Header
		start := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/there" {
				http.Redirect(w, r, "/there", http.StatusFound)
				return
			}
			kept = r.Header
		})
		err := get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{hostOf(t, start)}}), start.URL, secret())
		require.NoError(t, err)
		require.Equal(t, "key", kept.Get("X-Api-Key"))
	})
	t.Run("five_hops_and_no_more", func(t *testing.T) {
		hops := 0
		start := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if hops++; hops <= len(r.URL.Path)-1 {
				http.Redirect(w, r, r.URL.Path, http.StatusFound)
			}
		})
		allow := []string{hostOf(t, start)}
		err := get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: allow}), start.URL+"/12345", nil)
		require.NoError(t, err)
		hops = 0
		err = get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: allow}), start.URL+"/123456", nil)
		require.ErrorIs(t, err, deliver.ErrRedirect)
		hops = 0
		err = get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: allow, MaxRedirects: -1}), start.URL+"/1", nil)
		require.ErrorIs(t, err, deliver.ErrRedirect)
	})
	t.Run("other_schemes_and_users_are_refused", func(t *testing.T) {
		for _, to := range []string{"ftp://example.com/", "file:///etc/passwd", "http://user@" + endHost + "/"} {
			start := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", to)
				w.WriteHeader(http.StatusFound)
			})
			err := get(t, deliver.NewGuard(deliver.GuardConfig{AllowHosts: []string{hostOf(t, start), endHost}}), start.URL, nil)
			require.ErrorIs(t, err, deliver.ErrRedirect, to)
		}
	})
}
