package machine_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
)

func TestUsageMember(t *testing.T) {
	const at = 1_700_000_000_000 // in the hour 472222
	key := machine.UsageKey{Model: "gpt/4~1%", User: "ann", Service: "agents", Agent: "helper"}
	require.Equal(t, "0000472222/gpt%2F4%7E1%25/ann//agents/helper", machine.UsageMember(at, key))
	require.Equal(t, "0000472222", machine.UsageHour(at))
	require.Less(t, machine.UsageHour(at), machine.UsageMember(at, key), "the hour bounds its members")
	require.Less(t, machine.UsageMember(at, key), machine.UsageHour(at+3_600_000))
	require.Equal(t, "usage/t/p%2Fq", machine.UsageName("t", "p/q"))
	require.Equal(t, "0000000000/////", machine.UsageMember(-5, machine.UsageKey{}))
}

// TestUsageDays: a day's members are those of its hours, and no others.
func TestUsageDays(t *testing.T) {
	const day = 24 * 3_600_000
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Int64Range(0, 4_000_000_000_000).Draw(t, "at")
		from, to := machine.UsageDayOf(machine.UsageMember(at, machine.UsageKey{Model: "m"}))
		require.Equal(t, machine.UsageHour(at/day*day), from)
		require.Equal(t, machine.UsageHour(at/day*day+day), to)
		require.Equal(t, from, machine.UsageDay(at))
		hours := append([]string{from}, machine.UsageHoursOf(from)...)
		require.Len(t, hours, 24)
		require.Contains(t, hours, machine.UsageHour(at))
		require.True(t, slices.IsSorted(hours))
		require.Less(t, hours[23], to)
	})
	from, to := machine.UsageDayOf("00001")
	require.Empty(t, from+to)
}

// TestUsageMemberRoundTrip: what a member was made of is read back, and no member is longer than storage takes.
func TestUsageMemberRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		short := rapid.StringOfN(rapid.SampledFrom([]rune("a/%~2F\u00e9 ")), 0, 15, -1)
		key := machine.UsageKey{
			Model: short.Draw(t, "model"), User: short.Draw(t, "user"), Token: short.Draw(t, "token"),
			Service: short.Draw(t, "service"), Agent: short.Draw(t, "agent"),
		}
		at := rapid.Int64Range(0, 4_000_000_000_000).Draw(t, "at")
		hour, parsed, ok := machine.ParseUsageMember(machine.UsageMember(at, key))
		require.True(t, ok)
		require.Equal(t, key, parsed)
		require.LessOrEqual(t, hour, at)
		require.Greater(t, hour+3_600_000, at)
	})
	long := strings.Repeat("/", 500)
	member := machine.UsageMember(math.MaxInt64, machine.UsageKey{Model: long, User: long, Token: long, Service: long, Agent: long})
	require.LessOrEqual(t, len(member), 255)
	_, key, ok := machine.ParseUsageMember(member)
	require.True(t, ok)
	require.True(t, strings.HasPrefix(key.User, "~"), "a hash stays one")
	for _, bad := range []string{"", "0000472222", "x000472222/////", "0000472222//////", "472222/////"} {
		_, _, ok := machine.ParseUsageMember(bad)
		require.False(t, ok, bad)
	}
}

func TestUsageSum(t *testing.T) {
	require.Nil(t, machine.UsageSum("t", "p", 0, machine.UsageKey{}, machine.UsageNumbers{}))
	sum := machine.UsageSum("t", "p", 0, machine.UsageKey{Model: "m"}, machine.UsageNumbers{
		machine.UsageRequests: 1, machine.UsageInputTokens: -3, machine.UsageOutputTokens: 4,
	})
	require.Equal(t, "usage/t/p", sum.GetName())
	require.Equal(t, "0000000000/m////", sum.GetMember())
	require.Equal(t, []int64{1, 0, 0, 4}, sum.GetDeltas(), "rows are made longer, so what is nothing at the end is left out")
}
