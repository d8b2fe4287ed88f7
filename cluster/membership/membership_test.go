package membership

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/cluster/peer/peertest"
)

// TestMain finds goroutines that are left. A probe that is under way outlives the gossip's shutdown by its timeout.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

const patience = 30 * time.Second

// fixture makes members whose addresses outlive them.
type fixture struct {
	t     *testing.T
	seeds []string
	boots atomic.Int64
}

func newFixture(t *testing.T, seeds int) *fixture {
	t.Helper()
	f := &fixture{t: t}
	for range seeds {
		f.seeds = append(f.seeds, peertest.Address())
	}
	return f
}

func (f *fixture) config(i int) Config {
	return Config{
		Self: Member{
			Name: fmt.Sprintf("n%d", i+1), Node: uint64(i + 1), Boot: fmt.Sprintf("b%d", f.boots.Add(1)), Cluster: "c1",
			PeerAddr: "127.0.0.1:1", ActorAddr: "127.0.0.1:2", HTTPAddr: "127.0.0.1:3", OpsAddr: "127.0.0.1:4", Version: 1,
		},
		Bind:   f.seeds[i],
		Seeds:  f.seeds,
		Key:    []byte("0123456789abcdef0123456789abcdef"),
		Probe:  200 * time.Millisecond,
		Rejoin: 500 * time.Millisecond,
	}
}

func (f *fixture) start(config Config) *Membership {
	f.t.Helper()
	m, err := Start(f.t.Context(), config)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = m.Stop(f.t.Context()) })
	return m
}

// kill ends a member without a word.
func (m *Membership) kill() {
	m.once.Do(func() {
		m.end()
		m.err = m.list.Shutdown()
		m.tasks.Wait()
	})
}

func names(members []Member) []string {
	var names []string
	for _, member := range members {
		names = append(names, member.Name)
	}
	return names
}

func sees(t *testing.T, m *Membership, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Equal(names(m.Members()), want) }, patience, 10*time.Millisecond,
		"%v", want)
}

func find(members []Member, name string) Member {
	for _, member := range members {
		if member.Name == name {
			return member
		}
	}
	return Member{}
}

func TestMembersFindEachOther(t *testing.T) {
	f := newFixture(t, 3)
	var changes atomic.Int32
	first := f.config(0)
	first.OnChange = func() { changes.Add(1) }
	m1 := f.start(first)
	require.Equal(t, []Member{first.Self}, m1.Members())
	m2, m3 := f.start(f.config(1)), f.start(f.config(2))
	for _, m := range []*Membership{m1, m2, m3} {
		sees(t, m, "n1", "n2", "n3")
	}
	require.Equal(t, m2.config.Self, find(m1.Members(), "n2"))
	require.Positive(t, changes.Load())

	m3.SetLeaving()
	require.Eventually(t, func() bool { return find(m1.Members(), "n3").Leaving && find(m3.Members(), "n3").Leaving },
		patience, 10*time.Millisecond)
	require.NoError(t, m3.Stop(t.Context()))
	sees(t, m1, "n1", "n2")
	require.Equal(t, []string{"n1", "n2", "n3"}, names(m1.Known()), "who left is remembered")
	require.Equal(t, "127.0.0.1:1", find(m1.Known(), "n3").PeerAddr)
}

func TestMemberDiesAndReturns(t *testing.T) {
	f := newFixture(t, 3)
	m1, m2, m3 := f.start(f.config(0)), f.start(f.config(1)), f.start(f.config(2))
	sees(t, m1, "n1", "n2", "n3")
	sees(t, m2, "n1", "n2", "n3")

	m3.kill()
	start := time.Now()
	sees(t, m1, "n1", "n2")
	t.Logf("dead after %v with probes every %v", time.Since(start), m1.config.Probe)

	// At its old address, with another identity.
	again := f.config(2)
	again.Self.Node = 77
	m3 = f.start(again)
	sees(t, m1, "n1", "n2", "n3")
	require.EqualValues(t, 77, find(m1.Members(), "n3").Node)
	sees(t, m3, "n1", "n2", "n3")

	// Killed and back before anybody noticed.
	m3.kill()
	fast := f.config(2)
	f.start(fast)
	require.Eventually(t, func() bool {
		return find(m1.Members(), "n3").Boot == fast.Self.Boot && find(m2.Members(), "n3").Boot == fast.Self.Boot
	}, patience, 10*time.Millisecond)
}

func TestMemberReturnsAtAnotherAddress(t *testing.T) {
	f := newFixture(t, 3)
	m1, m3 := f.start(f.config(0)), f.start(f.config(2))
	f.start(f.config(1))
	sees(t, m1, "n1", "n2", "n3")
	m3.kill()
	moved := f.config(2)
	moved.Bind = peertest.Address()
	moved.OnConflict = func(err error) { t.Errorf("a memory is no rival: %v", err) }
	start := time.Now()
	f.start(moved)
	require.Eventually(t, func() bool { return find(m1.Members(), "n3").Boot == moved.Self.Boot }, 2*patience, 10*time.Millisecond)
	t.Logf("taken in at its new address after %v", time.Since(start))
}

func TestForeignNodesAreRefused(t *testing.T) {
	f := newFixture(t, 4)
	m1 := f.start(f.config(0))
	other := f.config(1)
	other.Self.Cluster = "c2"
	keyless := f.config(2)
	keyless.Key = nil
	wrong := f.config(3)
	wrong.Key = []byte("fedcba9876543210fedcba9876543210")
	strangers := []*Membership{f.start(other), f.start(keyless), f.start(wrong)}
	for _, m := range strangers {
		_, err := m.list.Join(f.seeds[:1])
		require.Error(t, err)
	}
	sees(t, m1, "n1")
	for _, m := range strangers {
		require.Len(t, m.Members(), 1)
	}
	require.ErrorContains(t, m1.NotifyAlive(&memberlist.Node{Name: "x", Meta: strangers[0].NodeMeta(512)}), "c2")
	require.Error(t, m1.NotifyAlive(&memberlist.Node{Name: "x", Meta: []byte{0xff}}))
	require.Error(t, m1.NotifyAlive(&memberlist.Node{Name: "x"}))
}

func TestMembersCanBeRefused(t *testing.T) {
	f := newFixture(t, 2)
	strict := f.config(0)
	strict.Refuse = func(m Member) error {
		if m.Level < 1 {
			return fmt.Errorf("level %d", m.Level)
		}
		return nil
	}
	strict.Self.Level = 1
	m1 := f.start(strict)
	old := f.start(f.config(1))
	_, err := old.list.Join(f.seeds[:1])
	require.NoError(t, err)
	require.Never(t, func() bool { return len(m1.Members()) > 1 }, 5*m1.config.Probe, 10*time.Millisecond)
	require.NoError(t, old.Stop(t.Context()))
	upgraded := f.config(1)
	upgraded.Self.Level = 1
	f.start(upgraded)
	sees(t, m1, "n1", "n2")
}

// told is a Config.OnConflict whose calls a test waits for.
func told() (onConflict func(error), calls chan error) {
	calls = make(chan error, 16)
	return func(err error) { calls <- err }, calls
}

func isTold(t *testing.T, calls chan error) {
	t.Helper()
	select {
	case err := <-calls:
		require.ErrorContains(t, err, `"n1"`)
	case <-time.After(patience):
		require.Fail(t, "not told")
	}
}

// TestDuplicateNameIsReported: the one that the cluster does not have on record, and the younger where that says
// nothing. It goes without taking the other's name with it.
func TestDuplicateNameIsReported(t *testing.T) {
	nodes := map[string]uint64{"older": 1, "younger": 3}
	for name, c := range map[string]struct {
		record uint64 // the node that is on record
		same   bool   // both are the same node: its data was copied
		ends   string
	}{
		"no record":                    {0, false, "younger"},
		"the record names a third":     {9, false, "younger"},
		"the record names both":        {1, true, "younger"},
		"the record names the older":   {1, false, "younger"},
		"the record names the younger": {3, false, "older"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 3)
			named := func(context.Context) uint64 { return c.record }
			second := f.start(f.config(1))

			calls := map[string]chan error{}
			configs := map[string]Config{}
			for i, age := range []string{"older", "younger"} {
				config := f.config(2 * i)
				config.Self.Name, config.Self.Node, config.Named = "n1", nodes[age], named
				if c.same {
					config.Self.Node = 1
				}
				config.OnConflict, calls[age] = told()
				configs[age] = config
			}
			older := f.start(configs["older"])
			sees(t, second, "n1", "n2")
			require.Eventually(t, func() bool { return time.Now().UnixMilli() > older.started }, patience, time.Millisecond)
			younger := f.start(configs["younger"])
			isTold(t, calls[c.ends])
			ended := map[string]*Membership{"older": older, "younger": younger}[c.ends]
			before := find(second.Members(), "n1")
			require.NoError(t, ended.Stop(t.Context()))
			if c.ends == "younger" {
				require.Never(t, func() bool { return find(second.Members(), "n1") != before }, 5*second.config.Probe,
					5*time.Millisecond, "the end of the younger is no end of the older")
			}
			stays := map[string]string{"older": "younger", "younger": "older"}[c.ends]
			require.Eventually(t, func() bool { return find(second.Members(), "n1").Boot == configs[stays].Self.Boot },
				patience, 10*time.Millisecond, "the name is the other's")
			require.Empty(t, calls[stays])
		})
	}
}

func TestPauseEndsEarly(t *testing.T) {
	m := &Membership{config: Config{Probe: 10 * time.Millisecond}, disputed: make(chan struct{}, 1)}
	var end context.CancelFunc
	m.life, end = context.WithCancel(t.Context())
	require.Equal(t, restedThrough, m.rest(5*time.Millisecond))
	m.disputed <- struct{}{}
	require.Equal(t, inDispute, m.rest(time.Minute))
	end()
	require.Equal(t, restEnded, m.rest(time.Minute))
}

// wire is a network that can be cut.
type wire struct {
	*memberlist.NetTransport
	cut *atomic.Bool
}

func (w *wire) WriteTo(b []byte, address string) (time.Time, error) {
	if w.cut.Load() {
		return time.Now(), nil
	}
	return w.NetTransport.WriteTo(b, address)
}

func (w *wire) WriteToAddress(b []byte, address memberlist.Address) (time.Time, error) {
	return w.WriteTo(b, address.Addr)
}

func (w *wire) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	if w.cut.Load() {
		return nil, net.ErrClosed
	}
	return w.NetTransport.DialTimeout(address, timeout)
}

func (w *wire) DialAddressTimeout(address memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return w.DialTimeout(address.Addr, timeout)
}

func TestSidesOfAPartitionFindEachOtherAgain(t *testing.T) {
	f := newFixture(t, 2)
	var cut atomic.Bool
	var both []*Membership
	for i := range 2 {
		config := f.config(i)
		host, port, err := address(t.Context(), config.Bind)
		require.NoError(t, err)
		transport, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{host}, BindPort: port})
		require.NoError(t, err)
		config.Transport = &wire{NetTransport: transport, cut: &cut}
		both = append(both, f.start(config))
	}
	sees(t, both[0], "n1", "n2")
	sees(t, both[1], "n1", "n2")
	cut.Store(true)
	sees(t, both[0], "n1")
	sees(t, both[1], "n2")
	cut.Store(false)
	start := time.Now()
	sees(t, both[0], "n1", "n2")
	sees(t, both[1], "n1", "n2")
	t.Logf("healed after %v", time.Since(start))
}

func TestSettingsAreChecked(t *testing.T) {
	f := newFixture(t, 1)
	for text, change := range map[string]func(*Config){
		"required":            func(c *Config) { c.Self.Boot = "" },
		"negative":            func(c *Config) { c.Probe = -1 },
		"16, 24 or 32":        func(c *Config) { c.Key = []byte("short") },
		"bind address":        func(c *Config) { c.Bind = "nowhere" },
		"advertised":          func(c *Config) { c.Advertise = "127.0.0.1:x" },
		"more than 512 bytes": func(c *Config) { c.Self.HTTPAddr = string(make([]byte, 600)) },
	} {
		config := f.config(0)
		change(&config)
		_, err := Start(t.Context(), config)
		require.ErrorContains(t, err, text)
	}
}
