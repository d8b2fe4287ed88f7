package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/proto/nodepb"
)

func TestRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		purpose string
		change  func(mine, theirs *nodepb.Hello)
		want    string
	}{
		"member":            {purpose: purposeFrames},
		"overlapping wires": {purpose: purposeFrames, change: func(mine, theirs *nodepb.Hello) { theirs.WireMin, theirs.WireMax, mine.WireMax = 4, 5, 4 }},
		"newer wire": {
			purpose: purposeFrames, change: func(_, theirs *nodepb.Hello) { theirs.WireMin, theirs.WireMax = 4, 5 },
			want: "n2 speaks the message formats 4 to 5, n1 speaks 3 to 3",
		},
		"older wire": {
			purpose: purposeGreet, change: func(mine, _ *nodepb.Hello) { mine.WireMin, mine.WireMax = 4, 5 },
			want: "n2 speaks the message formats 3 to 3, n1 speaks 4 to 5",
		},
		"foreign": {
			purpose: purposeFrames, change: func(_, theirs *nodepb.Hello) { theirs.ClusterId = "other" },
			want: "n2 belongs to cluster other, n1 to cluster test",
		},
		"foreign greets": {
			purpose: purposeGreet, change: func(_, theirs *nodepb.Hello) { theirs.ClusterId = "other" },
			want: "n2 belongs to cluster other, n1 to cluster test",
		},
		"other shards":             {purpose: purposeFrames, change: func(_, theirs *nodepb.Hello) { theirs.Shards = 8 }, want: "n2 counts 8 shards, n1 counts 16"},
		"new node greets":          {purpose: purposeGreet, change: func(_, theirs *nodepb.Hello) { theirs.ClusterId, theirs.Node, theirs.Shards = "", 0, 4 }},
		"new node greets new":      {purpose: purposeGreet, change: func(mine, theirs *nodepb.Hello) { theirs.ClusterId, mine.ClusterId = "", "" }},
		"member greets new node":   {purpose: purposeGreet, change: func(mine, _ *nodepb.Hello) { mine.ClusterId = "" }},
		"new node sends frames":    {purpose: purposeFrames, change: func(_, theirs *nodepb.Hello) { theirs.ClusterId = "" }, want: "n2 is not in a cluster yet"},
		"frames for a new node":    {purpose: purposeFrames, change: func(mine, _ *nodepb.Hello) { mine.ClusterId = "" }, want: "n1 is not in a cluster yet"},
		"no number":                {purpose: purposeFetch, change: func(_, theirs *nodepb.Hello) { theirs.Node = 0 }, want: "n2 is not in a cluster yet"},
		"same number":              {purpose: purposeFrames, change: func(_, theirs *nodepb.Hello) { theirs.Node = 1 }, want: "n2 uses the number of n1, 1"},
		"snapshot":                 {purpose: purposeSnapshot},
		"older snapshot":           {purpose: purposeSnapshot, change: func(_, theirs *nodepb.Hello) { theirs.DiskFormat = 1 }},
		"newer snapshot":           {purpose: purposeSnapshot, change: func(_, theirs *nodepb.Hello) { theirs.DiskFormat = 3 }, want: "n2 sends disk format 3, n1 knows up to 2"},
		"newer disk greets":        {purpose: purposeGreet, change: func(_, theirs *nodepb.Hello) { theirs.DiskFormat = 3 }},
		"older disk wants to join": {purpose: purposeGreet, change: func(_, theirs *nodepb.Hello) { theirs.DiskFormat = 1 }, want: "n1 keeps disk format 2, which n2 does not know: it knows up to 1"},
		"same level":               {purpose: purposeFrames, change: func(mine, theirs *nodepb.Hello) { mine.ClusterLevel, theirs.Level = 2, 2 }},
		"older release": {
			purpose: purposeFrames, change: func(mine, theirs *nodepb.Hello) { mine.ClusterLevel, theirs.Level = 2, 1 },
			want: "the release of n2 has feature level 1, the cluster is at level 2: start a newer release",
		},
		"older release greets": {purpose: purposeGreet, change: func(mine, theirs *nodepb.Hello) { mine.ClusterLevel, theirs.Level = 2, 1 }},
		"release without levels greets": {
			purpose: purposeGreet, change: func(mine, _ *nodepb.Hello) { mine.ClusterLevel = 2 },
			want: "the release of n2 has feature level 0, the cluster is at level 2: start a newer release",
		},
		"unknown purpose": {purpose: "chess", want: `n1 does not know the purpose "chess"`},
	} {
		t.Run(name, func(t *testing.T) {
			mine, theirs := withWire(testHello(1)), withWire(testHello(2))
			theirs.Purpose = test.purpose
			if test.change != nil {
				test.change(mine, theirs)
			}
			require.Equal(t, test.want, refuse(mine, theirs))
		})
	}
}

// The side that dials asks the same of the answer.
func TestAnswerOfAnOlderRelease(t *testing.T) {
	mine, theirs := withWire(testHello(1)), withWire(testHello(2))
	mine.ClusterLevel = 1
	require.Contains(t, check(mine, theirs, 2), "the release of n2 has feature level 0")
	theirs.Level = 1
	require.Empty(t, check(mine, theirs, 2))
}

func TestGreet(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, nil)
	answer, err := Greet(t.Context(), nil, nil, a.addr, &nodepb.Hello{Name: "new"})
	require.NoError(t, err)
	require.True(t, proto.Equal(withWire(testHello(1)), answer), "%v", answer)

	_, err = Greet(t.Context(), nil, nil, a.addr, &nodepb.Hello{Name: "new", ClusterId: "other"})
	var refused *RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "node n1 refuses: new belongs to cluster other, n1 to cluster test", refused.Error())

	// A member learns who has its name.
	b := w.start(2, func(c *Config) {
		c.Named = func(name string) (uint64, uint64) { return uint64(len(name)), 7 }
	})
	answer, err = Greet(t.Context(), nil, nil, b.addr, &nodepb.Hello{Name: "n34", ClusterId: "test"})
	require.NoError(t, err)
	require.Equal(t, []uint64{3, 7}, []uint64{answer.GetNameNode(), answer.GetNameVersion()})
	answer, err = Greet(t.Context(), nil, nil, b.addr, &nodepb.Hello{Name: "n34"})
	require.NoError(t, err)
	require.Zero(t, answer.GetNameVersion())

	a.Stop()
	_, err = Greet(t.Context(), nil, nil, a.addr, &nodepb.Hello{Name: "new"})
	require.ErrorContains(t, err, "connection refused")
}

// TestCertificates: whoever has none, or not the right one, is refused, and both sides' errors say why.
func TestCertificates(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	server, client := secure(t, ours, "n1", time.Hour)
	otherServer, otherClient := secure(t, theirs, "n1", time.Hour)
	late := func(c *tls.Config) *tls.Config {
		c = c.Clone()
		c.Time = func() time.Time { return time.Now().Add(2 * time.Hour) }
		return c
	}
	for name, test := range map[string]struct {
		server, client *tls.Config
		err            string
	}{
		"good":                      {server: server, client: client},
		"server of another":         {server: otherServer, client: client, err: "its certificate is not signed by our authority"},
		"client of another":         {server: server, client: func() *tls.Config { c := otherClient.Clone(); c.RootCAs = client.RootCAs; return c }(), err: "it does not accept our certificate"},
		"client without":            {server: server, client: &tls.Config{RootCAs: client.RootCAs, ServerName: client.ServerName, MinVersion: tls.VersionTLS13}, err: "it does not accept our certificate"},
		"server has expired":        {server: server, client: late(client), err: "its certificate has expired or is not valid yet"},
		"client has expired":        {server: late(server), client: client, err: "it does not accept our certificate"},
		"plain client":              {server: server, err: "only one side uses TLS"},
		"plain server":              {client: client, err: "only one side uses TLS"},
		"another name is asked for": {server: server, client: func() *tls.Config { c := client.Clone(); c.ServerName = "elsewhere"; return c }(), err: "its certificate is not one for a node"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.start(1, func(c *Config) {
				if test.server != nil {
					c.ServerTLS, c.ClientTLS = test.server, client
				}
			})
			answer, err := Greet(t.Context(), nil, test.client, a.addr, &nodepb.Hello{Name: "new"})
			if test.err == "" {
				require.NoError(t, err)
				require.Equal(t, "n1", answer.GetName())
				return
			}
			require.ErrorContains(t, err, test.err)
			t.Log(err)
		})
	}
}

// TestForeignConnections: no connection of another program disturbs the node, and silent ones are closed.
func TestForeignConnections(t *testing.T) {
	w := newWorld(t)
	a := w.start(1, func(c *Config) { c.HandshakeTimeout = 100 * time.Millisecond })
	b := w.start(2, nil)
	for _, said := range []string{
		"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00", "\x00\x00\x00\x00\x01\x00\x00\x00\x00",
		string(appendFrame(nil, kindHello, []byte("\xff\xff"))), string(appendFrame(nil, KindRaft, nil)),
	} {
		conn, err := dialTCP(t.Context(), a.addr)
		require.NoError(t, err)
		_, err = conn.Write([]byte(said))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		_, err = conn.Read(make([]byte, 1))
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Errorf(t, err, "%q", said)
		var timeout net.Error
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "%q is kept", said)
		require.NoError(t, conn.Close())
	}
	// More than may be greeting at once: the others are turned away, and the node is free again soon.
	var idle []net.Conn
	for range maxHandshakes + 10 {
		conn, err := dialTCP(t.Context(), a.addr)
		require.NoError(t, err)
		idle = append(idle, conn)
	}
	b.reach(t, a)
	for _, conn := range idle {
		require.NoError(t, conn.Close())
	}
}

// TestMemberThatGarbles: a member that sends what is no batch loses its connection, and nobody else does.
func TestMemberThatGarbles(t *testing.T) {
	w := newWorld(t)
	a, b := w.start(1, nil), w.start(2, nil)
	b.reach(t, a)
	for name, wire := range map[string][]byte{
		"bad batch":     appendFrame(nil, KindRaft, []byte{5, 1}),
		"bad checksum":  append(appendFrame(nil, KindRaft, []byte{1, 1})[:headerSize], 1, 2),
		"stream data":   appendFrame(nil, kindData, []byte{1}),
		"far too large": {0x7f, 0, 0, 0, 16, 0, 0, 0, 0},
	} {
		d := dialer{dial: dialTCP, connect: patience, handshake: patience}
		l, err := d.open(t.Context(), a.addr, withWire(testHello(7)), purposeFrames)
		require.NoError(t, err)
		_, err = l.conn.Write(appendFrame(nil, Kind(200), []byte("a newer node's kind is skipped")))
		require.NoError(t, err)
		_, err = l.conn.Write(wire)
		require.NoError(t, err)
		require.NoError(t, l.raw.SetReadDeadline(time.Now().Add(patience)))
		_, _, err = readFrame(l.r, 0, nil)
		var timeout net.Error
		require.Error(t, err, name)
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), name)
		l.close()
	}
	require.Empty(t, a.from(7))
	b.reach(t, a)
	require.Zero(t, b.counted(b.unreachable, 1))
}
