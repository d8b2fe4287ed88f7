package shard_test

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/cluster/shard"
)

func mapOf(t require.TestingT, count int) shard.Map {
	m, ok := shard.New(count)
	require.True(t, ok)
	return m
}

func TestCountBounds(t *testing.T) {
	for _, count := range []int{-1, 0, shard.MaxCount + 1, 1 << 40} {
		_, ok := shard.New(count)
		require.False(t, ok, count)
	}
	for _, count := range []int{1, 16, shard.MaxCount} {
		require.Equal(t, count, mapOf(t, count).Count())
	}
}

// TestGoldenIDs: where an id lives is stored on disk and must be the same for ever.
func TestGoldenIDs(t *testing.T) {
	var random [24]byte
	for i := range random {
		random[i] = byte(i * 37)
	}
	m := mapOf(t, 16)
	require.Equal(t, "conv_uTAlKvU5eDoNyX8hGrQ1a", m.Mint("conv", &random))
	require.Equal(t, "msg_uUAlKvU5eDoNyX8hGrQ1a", m.MintIn("msg", 5, &random))
	for id, want := range map[string]shard.ID{
		"conv_AAAAAAAAAAAAAAAAAAAAA":     1,
		"conv_ABAAAAAAAAAAAAAAAAAAA":     2,
		"conv_BAAAAAAAAAAAAAAAAAAAA":     1,
		"run_" + strings.Repeat("_", 21): 16,
		"act_uTAlKvU5eDoNyX8hGrQ1a":      4,
	} {
		got, ok := m.Of(id)
		require.True(t, ok, id)
		require.Equal(t, want, got, id)
	}
}

func TestTextThatIsNoID(t *testing.T) {
	m := mapOf(t, 16)
	for _, text := range []string{
		"", "_", "conv", "conv_", "conv_short", "conv-AAAAAAAAAAAAAAAAAAAAA", "conv_AAAAAAAAAAAAAAAAAAAAAA",
		"conv_AAAAAAAAAAAAAAAAAAAA", "conv_AAAAAAAAAAAAAAAAAAAA/", "conv_AAAAAAAAAAAAAAAAAAAA ", "conv_ÄAAAAAAAAAAAAAAAAAAA",
		"conv_AAAAAAAAAA\x00AAAAAAAAAA", strings.Repeat("a", 1<<16),
	} {
		_, ok := m.Of(text)
		require.False(t, ok, "%q", text)
	}
}

// TestMint: whatever is minted routes to where it was minted for, and to a shard that exists.
func TestMint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, shard.MaxCount).Draw(t, "count")
		in := shard.ID(rapid.IntRange(1, count).Draw(t, "in"))
		random := [24]byte(rapid.SliceOfN(rapid.Byte(), 24, 24).Draw(t, "random"))
		kind := rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "kind")
		m := mapOf(t, count)

		id := m.MintIn(kind, in, &random)
		require.True(t, strings.HasPrefix(id, kind+"_"))
		got, ok := m.Of(id)
		require.True(t, ok)
		require.Equal(t, in, got)

		anywhere, ok := m.Of(m.Mint(kind, &random))
		require.True(t, ok)
		require.GreaterOrEqual(t, anywhere, shard.ID(1))
		require.LessOrEqual(t, int(anywhere), count)
	})
}

// TestSpread: no shard gets more than its share of ids, as far as 4096 slots divide.
func TestSpread(t *testing.T) {
	const slots = 4096
	for _, count := range []int{1, 3, 16, 100, shard.MaxCount} {
		m := mapOf(t, count)
		owned := map[shard.ID]int{}
		var random [24]byte
		for slot := range slots {
			random[22], random[23] = byte(slot>>6), byte(slot&63)
			in, ok := m.Of(m.Mint("conv", &random))
			require.True(t, ok)
			owned[in]++
		}
		require.Len(t, owned, count)
		for in, n := range owned {
			require.GreaterOrEqual(t, n, slots/count, "shard %d of %d", in, count)
			require.LessOrEqual(t, n, slots/count+1, "shard %d of %d", in, count)
		}
	}
}

func TestIDsDiffer(t *testing.T) {
	m := mapOf(t, 16)
	seen := map[string]bool{}
	for range 10_000 {
		var random [24]byte
		_, err := rand.Read(random[:])
		require.NoError(t, err)
		id := m.MintIn("msg", 3, &random)
		require.False(t, seen[id])
		seen[id] = true
	}
}

func FuzzOf(f *testing.F) {
	f.Add("conv_AAAAAAAAAAAAAAAAAAAAA", uint16(16))
	f.Add("_", uint16(1))
	f.Fuzz(func(t *testing.T, id string, count uint16) {
		m, ok := shard.New(int(count))
		if !ok {
			return
		}
		in, ok := m.Of(id)
		if !ok {
			require.Zero(t, in)
			return
		}
		require.GreaterOrEqual(t, in, shard.ID(1))
		require.LessOrEqual(t, int(in), int(count))
	})
}

func BenchmarkMintIn(b *testing.B) {
	m := mapOf(b, 16)
	var random [24]byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		binary.LittleEndian.PutUint64(random[:], uint64(i))
		_ = m.MintIn("msg", 3, &random)
	}
}

func BenchmarkOf(b *testing.B) {
	m := mapOf(b, 16)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = m.Of("conv_uTAlKvU5eDoNyX8hGrQ1a")
	}
}
