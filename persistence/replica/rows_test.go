package replica

import (
	"bytes"
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestRowsAreFixed holds the bytes on disk: a change here is a change of format.
func TestRowsAreFixed(t *testing.T) {
	keys := keysOf([]byte("r"), 258)
	conf, err := encodeMessage(&raftpb.ConfState{Voters: []uint64{1, 2}})
	require.NoError(t, err)
	e := &raftpb.Entry{Index: new(uint64(9)), Term: new(uint64(3)), Type: raftpb.EntryConfChangeV2.Enum(), Data: []byte("data")}
	row := make([]byte, entryHeader+4)
	putEntryRow(row, e)
	for want, got := range map[string][]byte{
		"7200":                           storeKey([]byte("r")),
		"72010000010201":                 keys.row(kindHardState),
		"72010000010210000000000000000a": keys.entry(10),
		"01000000000000000500000000000000060000000000000007": encodeHardState(hardState{term: 5, vote: 6, commit: 7}),
		"0100000000000000080000000000000009":                 encodePosition(position{index: 8, term: 9}),
		"0108010802":                                         conf,
		"12000000000000000364617461":                         row,
		"020000000000000007":                                 encodeStore(7),
	} {
		require.Equal(t, want, hex.EncodeToString(got))
	}
	back, err := parseEntryRow(9, row)
	require.NoError(t, err)
	require.True(t, proto.Equal(e, back))
	index, err := keys.entryIndex(keys.entry(10))
	require.NoError(t, err)
	require.EqualValues(t, 10, index)
}

func FuzzRows(f *testing.F) {
	f.Add(encodeHardState(hardState{1, 2, 3}))
	f.Add(encodeStore(1))
	f.Add(encodeNumbers(1, 0, 5))
	f.Add([]byte{rowFormat << 4, 0, 0, 0, 0, 0, 0, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, row []byte) {
		if h, err := parseHardState(row); err == nil {
			require.Equal(t, row, encodeHardState(h))
		}
		if p, err := parsePosition("row", row); err == nil {
			require.Equal(t, row, encodePosition(p))
		}
		if node, groups, err := parseStore(row); err == nil {
			require.Len(t, row, len(encodeStore(node))+8*len(groups))
		}
		if e, err := parseEntryRow(1, row); err == nil {
			back := make([]byte, len(row))
			putEntryRow(back, e)
			require.Equal(t, row, back)
		}
		_ = parseMessage("row", row, &raftpb.ConfState{})
	})
}

func FuzzParseMessage(f *testing.F) {
	b, err := Message{Group: 7, raft: &raftpb.Message{Type: raftpb.MsgApp.Enum(), To: new(uint64(1))}}.AppendTo(nil)
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseMessage(b)
		if err != nil {
			return
		}
		_, _ = m.To(), m.From()
		again, err := m.AppendTo(nil)
		require.NoError(t, err)
		require.Len(t, again, m.Size())
		back, err := ParseMessage(again)
		require.NoError(t, err)
		require.Equal(t, m.Group, back.Group)
		require.True(t, proto.Equal(m.raft, back.raft))
	})
}

func FuzzSnapshotStream(f *testing.F) {
	var stream bytes.Buffer
	stream.WriteString(snapshotMagic)
	w := frameWriter{w: &stream}
	require.NoError(f, w.row([]byte("k1"), []byte("value")))
	require.NoError(f, w.row([]byte("k2"), nil))
	require.NoError(f, w.finish())
	f.Add(stream.Bytes())
	f.Add(stream.Bytes()[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		var spool bytes.Buffer
		if copySnapshot(&spool, bytes.NewReader(b), []byte("k"), []byte("l")) != nil {
			return
		}
		// What was accepted can be installed, and is what came.
		require.True(t, bytes.HasPrefix(b, spool.Bytes()))
		require.NoError(t, readSnapshot(&spool, func(frame []byte) error {
			return eachRow(frame, func(key, _ []byte) error {
				require.Equal(t, byte('k'), key[0])
				return nil
			})
		}))
	})
}

func TestDamagedSnapshotStreamIsRefused(t *testing.T) {
	db := openMem(t)
	for i := range 2000 {
		require.NoError(t, db.Set([]byte{'k', byte(i >> 8), byte(i)}, bytes.Repeat([]byte{byte(i)}, 300), nil))
	}
	var stream bytes.Buffer
	require.NoError(t, writeSnapshot(context.Background(), &stream, db, []byte("k"), []byte("l")))
	whole := stream.Bytes()
	take := func(b []byte) error {
		return copySnapshot(&bytes.Buffer{}, bytes.NewReader(b), []byte("k"), []byte("l"))
	}
	require.NoError(t, take(whole))
	require.Greater(t, len(whole), 2*snapshotFrame)
	for at := 0; at < len(whole); at += 997 {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 4
		require.ErrorIs(t, take(damaged), errBadSnapshot, "bit at %d", at)
		require.ErrorIs(t, take(whole[:at]), errBadSnapshot, "cut at %d", at)
	}
	require.ErrorIs(t, copySnapshot(&bytes.Buffer{}, bytes.NewReader(whole), []byte("k\x01"), []byte("l")), errBadSnapshot)
}

func TestTickClock(t *testing.T) {
	const interval = 50 * time.Millisecond
	start := time.Unix(100, 0)
	c := tickClock{last: start}
	for _, step := range []struct {
		at             time.Duration
		ticks, dropped int
	}{
		{50 * time.Millisecond, 1, 0},
		{99 * time.Millisecond, 1, 0},
		{110 * time.Millisecond, 0, 0},
		{210 * time.Millisecond, 2, 0},
		{10 * time.Second, 3, 193},
		{10*time.Second + 50*time.Millisecond, 1, 0},
	} {
		ticks, dropped := c.due(start.Add(step.at), interval)
		require.Equal(t, []int{step.ticks, step.dropped}, []int{ticks, dropped}, "at %v", step.at)
	}
}
