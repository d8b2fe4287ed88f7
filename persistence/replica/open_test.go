package replica

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
)

// nothing is a state machine without state.
type nothing struct{}

func (nothing) Apply(_ *pebble.Batch, _ GroupID, entries []Entry) ([]any, error) {
	return make([]any, len(entries)), nil
}

func (nothing) Span(group GroupID) (start, end []byte) {
	key := func(g GroupID) []byte { return binary.BigEndian.AppendUint32([]byte{'s'}, uint32(g)) }
	return key(group), key(group + 1)
}

func smallConfig(db *pebble.DB) Config {
	return Config{Node: 1, DB: db, Groups: []GroupID{0, 1}, Machine: nothing{}}
}

// losesGroup is a store of the time when the store row listed the groups, from which one of them is missing.
func losesGroup(t *testing.T, db *pebble.DB) {
	t.Helper()
	keys := keysOf([]byte("r"), 1)
	require.NoError(t, db.Set(storeKey([]byte("r")), encodeNumbers(1, 0, 1), pebble.Sync))
	require.NoError(t, db.DeleteRange(keys.prefix, prefixEnd(keys.prefix), pebble.Sync))
}

// usedStore is a store with twenty entries in group 1.
func usedStore(t *testing.T) *pebble.DB {
	t.Helper()
	db := openMem(t)
	d, err := Open(smallConfig(db))
	require.NoError(t, err)
	d.Start()
	require.Eventually(t, d.Ready, 30*time.Second, time.Millisecond)
	for range 20 {
		_, err := d.Propose(t.Context(), 1, []byte("x"))
		require.NoError(t, err)
	}
	d.Stop()
	return db
}

func TestOpenRefusesWhatDoesNotFit(t *testing.T) {
	keys := keysOf([]byte("r"), 1)
	set := func(key, value []byte) func(*testing.T, *pebble.DB) {
		return func(t *testing.T, db *pebble.DB) {
			t.Helper()
			require.NoError(t, db.Set(key, value, pebble.Sync))
		}
	}
	remove := func(key []byte) func(*testing.T, *pebble.DB) {
		return func(t *testing.T, db *pebble.DB) {
			t.Helper()
			require.NoError(t, db.Delete(key, pebble.Sync))
		}
	}
	for name, c := range map[string]struct {
		damage func(*testing.T, *pebble.DB)
		config func(*Config)
		says   string
	}{
		"other node":          {config: func(c *Config) { c.Node = 2 }, says: "belongs to node 1"},
		"fewer groups":        {damage: set(keysOf([]byte("r"), 2).row(kindStart), nil), config: func(c *Config) { c.MaxGroup = 1 }, says: "the highest there can be is 1"},
		"group is gone":       {damage: losesGroup, says: "group 1 is lost"},
		"store row lost":      {damage: remove(storeKey([]byte("r"))), says: "no store row"},
		"store row malformed": {damage: set(storeKey([]byte("r")), []byte("no")), says: "store row"},
		"hard state lost":     {damage: remove(keys.row(kindHardState)), says: "hard state"},
		"applied lost":        {damage: remove(keys.row(kindApplied)), says: "applied"},
		"conf state garbled":  {damage: set(keys.row(kindConfState), []byte{rowFormat, 0xff}), says: "conf state"},
		"no voters":           {damage: set(keys.row(kindConfState), []byte{rowFormat}), says: "no voters"},
		"log start lost":      {damage: remove(keys.entry(2)), says: "starts at 3"},
		"log end lost":        {damage: remove(keys.entry(22)), says: "behind the end of the log at 21"},
		"state from before":   {damage: set(keys.row(kindApplied), encodePosition(position{})), says: "only starts behind"},
		"commit from nowhere": {damage: set(keys.row(kindHardState), encodeHardState(hardState{term: 2, commit: 99})), says: "99 is committed"},
		"term from before":    {damage: set(keys.row(kindHardState), encodeHardState(hardState{term: 1, commit: 22})), says: "newest known term"},
		"entry garbled":       {damage: set(keys.entry(22), []byte{0}), says: "not a log entry"},
		"intent without file": {damage: set(keys.row(kindIntent), []byte{rowFormat}), says: "redo snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			db := usedStore(t)
			if c.damage != nil {
				c.damage(t, db)
			}
			cfg := smallConfig(db)
			cfg.SpoolDir = t.TempDir()
			if c.config != nil {
				c.config(&cfg)
			}
			_, err := Open(cfg)
			require.ErrorContains(t, err, c.says)
			if name != "intent without file" {
				require.ErrorIs(t, err, ErrInconsistent)
			}
		})
	}
	t.Run("foreign rows", func(t *testing.T) {
		for _, key := range []string{"rx", "s\x00\x00\x00\x01k"} {
			db := openMem(t)
			require.NoError(t, db.Set([]byte(key), nil, pebble.Sync))
			_, err := Open(smallConfig(db))
			require.ErrorIs(t, err, ErrInconsistent)
		}
	})
}

func TestOpenRefusesBadConfig(t *testing.T) {
	db := openMem(t)
	for says, change := range map[string]func(*Config){
		"node must not be 0":       func(c *Config) { c.Node = 0 },
		"db is required":           func(c *Config) { c.DB = nil },
		"machine is required":      func(c *Config) { c.Machine = nil },
		"is above 65535":           func(c *Config) { c.MaxGroup = 65536 },
		"listed twice":             func(c *Config) { c.Groups = []GroupID{1, 1} },
		"peers need a transport":   func(c *Config) { c.Peers = []NodeID{1, 2} },
		"peers must not hold 0":    func(c *Config) { c.Peers = []NodeID{1, 0} },
		"below 1ms":                func(c *Config) { c.TickInterval = time.Microsecond },
		"must exceed heartbeat":    func(c *Config) { c.HeartbeatTicks = 10 },
		"must be below snapshot":   func(c *Config) { c.SnapshotEntries, c.KeepEntries = 10, 10 },
		"bounds must be positive":  func(c *Config) { c.MaxPending = -1 },
		"exceed 32 MiB":            func(c *Config) { c.MaxProposalBytes = 33 << 20 },
		"overlaps the key prefix":  func(c *Config) { c.KeyPrefix = []byte("s\x00") },
		"span of group 0 overlaps": func(c *Config) { c.KeyPrefix = []byte("s") },
	} {
		cfg := smallConfig(db)
		change(&cfg)
		_, err := Open(cfg)
		require.ErrorContains(t, err, says)
	}
}

func TestAloneNodeNeedsNoTicks(t *testing.T) {
	d, err := Open(smallConfig(openMem(t)))
	require.NoError(t, err)
	d.Start()
	defer d.Stop()
	require.Eventually(t, d.Ready, 30*time.Second, time.Millisecond)
	err = d.ask(t.Context(), func(reply chan<- error) {
		if d.loop.ticks.ticker != nil {
			reply <- ErrBusy
			return
		}
		reply <- nil
	})
	require.NoError(t, err, "the ticker runs")
}

func TestDeliverTakesOnlyWhatPeersSay(t *testing.T) {
	d, err := Open(smallConfig(openMem(t)))
	require.NoError(t, err)
	d.running.Store(true)
	good := func(change func(*raftpb.Message)) Message {
		m := &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(3))}
		change(m)
		return Message{Group: 1, raft: m}
	}
	d.Deliver(good(func(*raftpb.Message) {}))
	require.Len(t, d.inbox.mail.messages, 1)
	d.Deliver(
		Message{Group: 1},
		Message{Group: 9, raft: good(func(*raftpb.Message) {}).raft},
		good(func(m *raftpb.Message) { m.To = new(uint64(7)) }),
		good(func(m *raftpb.Message) { m.From = new(uint64(0)) }),
		good(func(m *raftpb.Message) { m.From = new(uint64(1)) }),
		good(func(m *raftpb.Message) { m.Term = nil }),
		good(func(m *raftpb.Message) { m.Type = raftpb.MsgProp.Enum() }),
		good(func(m *raftpb.Message) { m.Type = raftpb.MsgSnap.Enum() }),
		good(func(m *raftpb.Message) { m.Type = raftpb.MsgStorageAppend.Enum() }),
		good(func(m *raftpb.Message) {
			m.Type = raftpb.MsgHeartbeatResp.Enum()
			m.Context = bytes.Repeat([]byte{1}, 3)
		}),
	)
	require.Len(t, d.inbox.mail.messages, 1)
	d.Stop()
}
