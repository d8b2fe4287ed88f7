package keys_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/persistence/keys"
)

// The bytes on disk. A difference here is a new layout version, never an update of the golden file.
func TestKeysGolden(t *testing.T) {
	rows := []struct {
		name string
		key  []byte
	}{
		{"shard", keys.AppendShard(nil, 16)},
		{"head", keys.AppendHead(nil, 1, "conv_AB")},
		{"item", keys.AppendItem(nil, 1, "conv_AB", 2, []byte{0, 9})},
		{"event 0", keys.AppendEvent(nil, 1, "conv_AB", 0)},
		{"event 258", keys.AppendEvent(nil, 1, "conv_AB", 258)},
		{"listing -1", keys.AppendListing(nil, 2, "user/u", -1, "conv_AB")},
		{"listing 1", keys.AppendListing(nil, 2, "user/u", 1, "conv_AB")},
		{"counter", keys.AppendCounter(nil, 2, "conversations")},
		{"record", keys.AppendRecord(nil, 0, "token", "tok_1")},
		{"owned", append(keys.AppendOwned(nil, 1, "conv_AB"), "file_A"...)},
		{"blob", keys.AppendBlob(nil, 1, "file_A")},
		{"blob head", keys.AppendBlobHead(nil, 1, "file_A")},
		{"chunk 258", keys.AppendChunk(nil, 1, "file_A", 258)},
		{"value head", keys.AppendHeadValue(nil, 7, 3, []byte("s"))},
		{"value record", keys.AppendRecordValue(nil, 9, []byte("r"))},
		{"value count", keys.AppendCountValue(nil, -2)},
		{"sum", keys.AppendSum(nil, 2, "usage/a", "0000000009/m")},
		{"value sum", keys.AppendSumValue(nil, []int64{1, 0, -2, 300})},
		{"pack", keys.AppendPack(nil, 2, "usage/a", "0000000024")},
		{"value pack", keys.AppendPackValue(nil, "00", 2, []keys.NumberedMember{
			{Member: "00/a", Values: []int64{1}}, {Member: "00/b", Values: []int64{-2, 300}}, {Member: "07/a", Values: []int64{5, 7}},
		})},
	}
	var got strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&got, "%-12s %s\n", row.name, hex.EncodeToString(row.key))
	}
	want, err := os.ReadFile("testdata/keys.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func drawKey(t *rapid.T) keys.Key {
	k := keys.Key{
		Kind:  keys.Kind(rapid.IntRange(int(keys.Head), int(keys.Pack)).Draw(t, "kind")),
		Shard: rapid.Uint32().Draw(t, "shard"),
		Name:  string(rapid.SliceOfN(rapid.Byte(), 0, keys.MaxName).Draw(t, "name")),
	}
	tail := rapid.SliceOfN(rapid.Byte(), 0, 40)
	switch k.Kind {
	case keys.Item:
		k.Table = rapid.Uint8().Draw(t, "table")
		k.Tail = tail.Draw(t, "tail")
	case keys.Event:
		k.Seq = rapid.Uint64().Draw(t, "seq")
	case keys.Listing:
		k.Score = rapid.Int64().Draw(t, "score")
		k.Tail = tail.Draw(t, "tail")
	case keys.Chunk:
		k.Seq = uint64(rapid.Uint32().Draw(t, "index"))
	case keys.Record, keys.Owned, keys.Sum, keys.Pack:
		k.Tail = tail.Draw(t, "tail")
	default: // a name is all
	}
	return k
}

func TestKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawKey(t)
		encoded := k.Append(nil)
		got, err := keys.Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, encoded, got.Append(nil))
		if len(k.Tail) == 0 {
			k.Tail, got.Tail = nil, nil
		}
		require.Equal(t, k, got)

		start, end := keys.Span(k.Shard)
		require.Negative(t, bytes.Compare(start, encoded))
		if end != nil {
			require.Positive(t, bytes.Compare(end, encoded))
		}
	})
}

// Byte order is the order of what was encoded.
func TestKeyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s1, s2 := rapid.Int64().Draw(t, "s1"), rapid.Int64().Draw(t, "s2")
		m1, m2 := rapid.String().Draw(t, "m1"), rapid.String().Draw(t, "m2")
		want := cmp.Or(cmp.Compare(s1, s2), cmp.Compare(m1, m2))
		require.Equal(t, cmp.Compare(m1, m2), bytes.Compare(keys.AppendSum(nil, 1, "l", m1), keys.AppendSum(nil, 1, "l", m2)))
		require.Equal(t, want, bytes.Compare(keys.AppendListing(nil, 1, "l", s1, m1), keys.AppendListing(nil, 1, "l", s2, m2)))

		q1, q2 := rapid.Uint64().Draw(t, "q1"), rapid.Uint64().Draw(t, "q2")
		require.Equal(t, cmp.Compare(q1, q2), bytes.Compare(keys.AppendEvent(nil, 1, "e", q1), keys.AppendEvent(nil, 1, "e", q2)))

		require.Equal(t, cmp.Compare(m1, m2), bytes.Compare(keys.AppendItem(nil, 1, "e", 3, []byte(m1)), keys.AppendItem(nil, 1, "e", 3, []byte(m2))))
	})
}

// No entity's span holds a row of another entity, whatever their ids.
func TestEntitySpansAreDisjoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := string(rapid.SliceOfN(rapid.Byte(), 1, 30).Draw(t, "id"))
		other := drawKey(t)
		if other.Name == id && other.Shard == 4 {
			return
		}
		other.Shard = 4
		prefix := keys.AppendEntity(nil, 4, id)
		key := other.Append(nil)
		rows := []keys.Kind{keys.Head, keys.Item, keys.Event, keys.Owned}
		require.Equal(t, bytes.HasPrefix(key, prefix), other.Name == id && slices.Contains(rows, other.Kind))
		inSpan := bytes.Compare(prefix, key) <= 0 && bytes.Compare(key, keys.Successor(prefix)) < 0
		require.Equal(t, bytes.HasPrefix(key, prefix), inSpan)
	})
}

func TestSuccessor(t *testing.T) {
	require.Equal(t, []byte{1, 3}, keys.Successor([]byte{1, 2}))
	require.Equal(t, []byte{2}, keys.Successor([]byte{1, 0xff}))
	require.Nil(t, keys.Successor([]byte{0xff}))
}

func TestValuesRefuseShortBytes(t *testing.T) {
	_, _, err := keys.HeadFields(make([]byte, 15))
	require.Error(t, err)
	_, _, err = keys.RecordFields(make([]byte, 7))
	require.Error(t, err)
	_, err = keys.CountField(make([]byte, 9))
	require.Error(t, err)
	n, err := keys.CountField(keys.AppendCountValue(nil, -5))
	require.NoError(t, err)
	require.Equal(t, int64(-5), n)
	for _, damaged := range []string{"", "\x02\x02", "\x01\x80"} {
		_, err = keys.SumFields(nil, []byte(damaged))
		require.Error(t, err)
	}
}

func TestSumValueRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOf(rapid.Int64()).Draw(t, "numbers")
		got, err := keys.SumFields([]int64{}, keys.AppendSumValue(nil, numbers))
		require.NoError(t, err)
		require.Equal(t, numbers, got)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(keys.AppendHead(nil, 1, "conv_AB"))
	f.Add(keys.AppendItem(nil, 1, "conv_AB", 2, []byte{0, 9}))
	f.Add(keys.AppendEvent(nil, 1, "conv_AB", 258))
	f.Add(keys.AppendListing(nil, 2, "user/u", -1, "conv_AB"))
	f.Add(keys.AppendCounter(nil, 2, "c"))
	f.Add(keys.AppendRecord(nil, 0, "token", "t"))
	f.Add(keys.AppendChunk(nil, 1, "file_A", 258))
	f.Add(keys.AppendBlobHead(nil, 1, "file_A"))
	f.Add(keys.AppendOwned(nil, 1, "conv_AB"))
	f.Add(keys.AppendSum(nil, 2, "usage/a", "m"))
	f.Add(keys.AppendPack(nil, 2, "usage/a", "m"))
	f.Add([]byte{'s', 2, 0, 0, 0, 1, 0x10, 0})
	f.Fuzz(func(t *testing.T, key []byte) {
		k, err := keys.Decode(key)
		if err != nil {
			return
		}
		require.Equal(t, key, k.Append(nil))
	})
}
