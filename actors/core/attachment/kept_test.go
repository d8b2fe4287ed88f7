package attachment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/attachment"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// TestCount: the counters of whoever a file concerns hold what is kept, whatever comes and goes; files of an older release are in none.
func TestCount(t *testing.T) {
	ann, bob, nobody := "ann", "bob/../x", ""
	a := &conversationpb.File{Id: "a", Size: 5, CountedFor: &ann}
	b := &conversationpb.File{Id: "b", Size: 7, CountedFor: &bob}
	c := &conversationpb.File{Id: "c", Size: 11, CountedFor: &nobody}
	old := &conversationpb.File{Id: "old", Size: 100}
	sums := map[string]int64{}
	change := func(project string, was, is []*conversationpb.File) int {
		into := &logpb.Append{}
		attachment.Count("t", project, was, is, into)
		for _, count := range into.GetCounts() {
			sums[count.GetName()] += count.GetDelta()
		}
		return len(into.GetCounts())
	}
	kept := func(project, user string) [2]int64 {
		files, bytes := attachment.CountsOf("t", project, user)
		return [2]int64{sums[files], sums[bytes]}
	}
	one := []*conversationpb.File{a, old}
	require.Zero(t, change("p", one, one))
	require.Zero(t, change("p", nil, []*conversationpb.File{old}))
	change("p", []*conversationpb.File{old}, one)
	change("q", nil, []*conversationpb.File{b, c})
	require.Equal(t, [][2]int64{{3, 23}, {1, 5}, {2, 18}, {1, 5}, {1, 7}, {0, 0}, {1, 7}}, [][2]int64{
		kept("", ""), kept("p", ""), kept("q", ""), kept("", "ann"), kept("", bob), kept("q", "ann"), kept("q", bob),
	})
	change("p", one, []*conversationpb.File{old})
	change("q", []*conversationpb.File{b, c}, nil)
	for name, sum := range sums {
		require.Zero(t, sum, name)
	}
}
