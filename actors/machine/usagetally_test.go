package machine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
)

func tallied(t *machine.UsageTally) (parts map[string]int64, periods map[string]int64) {
	parts, periods = map[string]int64{}, map[string]int64{}
	rows, series := t.Totals()
	for i := range rows {
		parts[rows[i].Part] = rows[i].Numbers[machine.UsageRequests]
	}
	for i := range series {
		periods[time.UnixMilli(series[i].Start).UTC().Format("2006-01-02T15:04")] = series[i].Numbers[machine.UsageRequests]
	}
	return parts, periods
}

// TestUsageIsTallied: by each part, in the periods of UTC, and with a filter.
func TestUsageIsTallied(t *testing.T) {
	row := func(at string, model, user, token, service, agent string) []byte {
		when, err := time.Parse(time.RFC3339, at)
		require.NoError(t, err)
		return []byte(machine.UsageMember(when.UnixMilli(), machine.UsageKey{Model: model, User: user, Token: token, Service: service, Agent: agent}))
	}
	rows := [][]byte{
		row("2025-12-31T23:59:59Z", "m/1", "ann", "t1", "agents", "a"),
		row("2026-01-01T00:00:00Z", "m/1", "", "t1", "chat", ""),
		row("2026-03-29T01:30:00+01:00", "m2", "bob", "", "agents", "a"), // where clocks go forward in Europe an hour later
		row("2026-03-29T02:30:00Z", "m2", "bob", "", "agents", "b"),
	}
	for _, c := range []struct {
		part     machine.UsagePart
		interval machine.UsageInterval
		only     machine.UsagePart
		value    string
		parts    map[string]int64
		periods  map[string]int64
	}{
		{machine.UsageByModel, machine.UsageHourly, 0, "", map[string]int64{"m%2F1": 2, "m2": 2}, map[string]int64{
			"2025-12-31T23:00": 1, "2026-01-01T00:00": 1, "2026-03-29T00:00": 1, "2026-03-29T02:00": 1,
		}},
		{machine.UsageByUser, machine.UsageDaily, 0, "", map[string]int64{"ann": 1, "": 1, "bob": 2}, map[string]int64{
			"2025-12-31T00:00": 1, "2026-01-01T00:00": 1, "2026-03-29T00:00": 2,
		}},
		{machine.UsageByToken, machine.UsageMonthly, 0, "", map[string]int64{"t1": 2, "": 2}, map[string]int64{
			"2025-12-01T00:00": 1, "2026-01-01T00:00": 1, "2026-03-01T00:00": 2,
		}},
		{machine.UsageByService, machine.UsageWhole, machine.UsageByModel, "m/1", map[string]int64{"agents": 1, "chat": 1}, map[string]int64{}},
		{machine.UsageByAgent, machine.UsageDaily, machine.UsageByService, "agents", map[string]int64{"a": 2, "b": 1}, map[string]int64{
			"2025-12-31T00:00": 1, "2026-03-29T00:00": 2,
		}},
		{machine.UsageByAgent, machine.UsageDaily, machine.UsageByModel, "none", map[string]int64{}, map[string]int64{}},
	} {
		tally := machine.NewUsageTally(c.part, c.interval, c.only, c.value)
		for _, member := range rows {
			tally.Add(member[:machine.UsageHead], member[machine.UsageHead:], []int64{1, 0, 10, 20})
		}
		for _, bad := range [][2]string{{"", ""}, {"not an hour", "/////"}, {"0000000001", ""}, {"0000000001", "//////"}, {"0000000001", "m/////"}} {
			tally.Add([]byte(bad[0]), []byte(bad[1]), []int64{1})
		}
		parts, periods := tallied(tally)
		require.Equal(t, c.parts, parts)
		require.Equal(t, c.periods, periods)
	}
}

type usedIn struct {
	hour string
	n    int64
}

// addPack gives a tally a day's rows by their keys, as a pack has them.
func addPack(tally *machine.UsageTally, from string, of map[string][]usedIn) {
	hours := map[string]int64{}
	for key, rows := range of {
		var total int64
		for _, row := range rows {
			total += row.n
		}
		if !tally.AddTail([]byte(from), []byte(key), []int64{total}) {
			continue
		}
		for _, row := range rows {
			hours[row.hour] += row.n
		}
	}
	for hour, n := range hours {
		tally.AddHead([]byte(hour), []int64{n})
	}
}

// TestTalliesAreWhole: however rows are dealt to nodes, and whether they come one by one or as packs of days, the sum is the same.
func TestTalliesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := machine.UsagePart(rapid.IntRange(int(machine.UsageByModel), int(machine.UsageByAgent)).Draw(t, "part"))
		interval := machine.UsageInterval(rapid.IntRange(0, int(machine.UsageMonthly)).Draw(t, "interval"))
		only := machine.UsagePart(rapid.SampledFrom([]int{0, 0, int(machine.UsageByUser)}).Draw(t, "only"))
		tally := func() *machine.UsageTally { return machine.NewUsageTally(part, interval, only, "a") }
		whole, nodes, merged := tally(), []*machine.UsageTally{tally(), tally(), tally()}, tally()
		packs, packed := map[string]map[string][]usedIn{}, tally()
		var sum int64
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			name := rapid.SampledFrom([]string{"", "a", "b/c", "~x%"})
			user, at := name.Draw(t, "user"), rapid.Int64Range(0, rapid.SampledFrom([]int64{3e8, 4e12}).Draw(t, "span")).Draw(t, "at")
			member := []byte(machine.UsageMember(at, machine.UsageKey{
				Model: name.Draw(t, "model"), User: user, Token: name.Draw(t, "token"), Agent: name.Draw(t, "agent"),
			}))
			n := rapid.Int64Range(0, 1e9).Draw(t, "n")
			if only == 0 || user == "a" {
				sum += n
			}
			hour, key := member[:machine.UsageHead], member[machine.UsageHead:]
			whole.Add(hour, key, []int64{n})
			nodes[rapid.IntRange(0, 2).Draw(t, "node")].Add(hour, key, []int64{n})
			from, _ := machine.UsageDayOf(string(member))
			if packs[from] == nil {
				packs[from] = map[string][]usedIn{}
			}
			packs[from][string(key)] = append(packs[from][string(key)], usedIn{string(hour), n})
		}
		for _, node := range nodes {
			merged.Merge(node.Totals())
		}
		for from, of := range packs {
			addPack(packed, from, of)
		}
		wantParts, wantPeriods := whole.Totals()
		parts, periods := merged.Totals()
		require.Equal(t, wantParts, parts)
		require.Equal(t, wantPeriods, periods)
		parts, periods = packed.Totals()
		require.Equal(t, wantParts, parts)
		require.Equal(t, wantPeriods, periods)
		all := machine.SumUsage(parts)
		require.Equal(t, sum, all[machine.UsageRequests])
		if interval != machine.UsageWhole {
			all = machine.SumUsage(periods)
			require.Equal(t, sum, all[machine.UsageRequests])
		}
	})
}

// TestTalliesAreBounded: what users beyond the limit use counts as nobody's.
func TestTalliesAreBounded(t *testing.T) {
	tally := machine.NewUsageTally(machine.UsageByUser, machine.UsageHourly, 0, "")
	const users = machine.MaxUsageParts + 1000 // a tally remembers no more keys either
	for i := range users {
		member := []byte(machine.UsageMember(int64(i)*3_600_000, machine.UsageKey{User: fmt.Sprint(i)}))
		tally.Add(member[:machine.UsageHead], member[machine.UsageHead:], []int64{1})
	}
	parts, periods := tally.Totals()
	require.LessOrEqual(t, len(parts), machine.MaxUsageParts+1)
	require.Len(t, periods, machine.MaxUsagePeriods)
	sum := machine.SumUsage(parts)
	require.EqualValues(t, users, sum[machine.UsageRequests])
}

func BenchmarkTally(b *testing.B) {
	members := make([][]byte, 4096)
	for i := range members {
		members[i] = []byte(machine.UsageMember(int64(i/463)*3_600_000, machine.UsageKey{
			Model: "model", User: fmt.Sprintf("usr_%016d", i%463), Token: fmt.Sprintf("tok_%016d", i%463), Service: "agents", Agent: "agent",
		}))
	}
	tally := machine.NewUsageTally(machine.UsageByUser, machine.UsageDaily, 0, "")
	for i := 0; b.Loop(); i++ {
		member := members[i%len(members)]
		tally.Add(member[:machine.UsageHead], member[machine.UsageHead:], []int64{1, 0, 1000, 100, 0, 5_000_000})
	}
}
