package bench

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/bench/standin"
)

// moneyStory is a log in short: one event a line, "said CASE", "runs RUN", "recovered RUN", "costs RUN NANO SUM", "loses RUN NANO SUM",
// "reserves RUN NANO SUM",
// "limit NANO".
func moneyStory(t *testing.T, limit int64, lines string) *moneyBook {
	t.Helper()
	b := newMoneyBook(limit)
	for seq, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		words := strings.Fields(line)
		var e logged
		text := `{}`
		switch words[0] {
		case "said":
			text = `{"type":"user.message","data":{"content":"please case=` + words[1] + ` say=1"}}`
		case "runs":
			text = `{"type":"session.status_running","run_id":"` + words[1] + `"}`
		case "recovered":
			text = `{"type":"session.recovered","run_id":"` + words[1] + `"}`
		case "costs", "loses":
			tokens := map[string]string{"costs": "1", "loses": "0"}[words[0]]
			text = `{"type":"session.usage","run_id":"` + words[1] + `","data":{"usage":{"total_tokens":` + tokens + `,"cost_usd":` + usdText(t, words[2]) + `},"spent_usd":` + usdText(t, words[3]) + `}}`
		case "reserves":
			text = `{"type":"budget.reserved","run_id":"` + words[1] + `","data":{"reserved_usd":` + usdText(t, words[2]) + `,"spent_usd":` + usdText(t, words[3]) + `}}`
		case "limit":
			text = `{"type":"session.updated","data":{"budget":{"maxCostUsd":` + usdText(t, words[1]) + `}}}`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &e))
		e.Seq = uint64(seq + 1)
		b.event(&e)
	}
	return b
}

func usdText(t *testing.T, nano string) string {
	t.Helper()
	n, err := strconv.ParseInt(nano, 10, 64)
	require.NoError(t, err)
	return strconv.FormatFloat(float64(n)/1e9, 'g', -1, 64)
}

const plentyNano = 1_000_000_000

func TestMoneyThatIsRight(t *testing.T) {
	b := moneyStory(t, plentyNano, `
		said a
		runs 1
		reserves 1 2600000 0
		costs 1 50000 50000
		said b
		runs 2
		reserves 2 2600000 50000
		recovered 2
		loses 2 2600000 2650000
		reserves 2 2600000 2650000
		costs 2 50000 2700000
		said c
		runs 3
		reserves 3 300000 2700000
		recovered 3
		loses 3 300000 3000000`)
	b.close([]standin.Call{
		{Case: "a", Prompt: 10, Output: 4, Ended: true},
		{Case: "b", Prompt: 10, Output: 1},
		{Case: "b", Prompt: 10, Output: 4, Ended: true},
	}, 3_000_000)
	require.Empty(t, b.faults)
	require.Zero(t, b.twice)
	require.Equal(t, 1, b.open)
	require.EqualValues(t, 120_000, b.charged)
	require.EqualValues(t, 3_000_000, b.spent)
}

// TestMoneyThatIsWrong plants what the audit must find.
func TestMoneyThatIsWrong(t *testing.T) {
	once := []standin.Call{{Case: "a", Prompt: 10, Output: 4, Ended: true}}
	tests := map[string]struct {
		limit int64
		log   string
		calls []standin.Call
		spent int64
		fault string
	}{
		"settled twice": {
			plentyNano, "said a\nruns 1\ncosts 1 50000 50000\ncosts 1 50000 100000", once, 100_000, "was settled at 100000 nano-dollars of 50000",
		},
		"not settled": {plentyNano, "said a\nruns 1", once, 0, "50000 nano-dollars too little"},
		"the sum rises by itself": {
			plentyNano, "said a\nruns 1\ncosts 1 50000 50000\nreserves 1 9 70000", once, 70_000, "20000 nano-dollars were spent that nothing explains",
		},
		"a loss is charged twice": {
			plentyNano, "said a\nruns 1\nreserves 1 60000 0\nrecovered 1\nloses 1 60000 60000\nloses 1 60000 120000\ncosts 1 50000 170000", once, 170_000,
			"without tokens at 60000",
		},
		"a loss is more than was reserved": {
			plentyNano, "said a\nruns 1\nreserves 1 60000 0\nrecovered 1\nloses 1 70000 70000\ncosts 1 50000 120000", once, 120_000, "60000 were reserved",
		},
		"a loss that nobody recovered": {
			plentyNano, "said a\nruns 1\nreserves 1 60000 0\nloses 1 60000 60000\ncosts 1 50000 110000", once, 110_000, "without tokens",
		},
		"the end says something else": {plentyNano, "said a\nruns 1\ncosts 1 50000 50000", once, 60_000, "10000 nano-dollars"},
		"over the limit": {
			40_000, "said a\nruns 1\ncosts 1 5000000 5000000", []standin.Call{{Case: "a", Prompt: 5000, Ended: true}}, 5_000_000, "above the limit",
		},
		"a raise comes too late": {
			40_000, "said a\nruns 1\ncosts 1 5000000 5000000\nlimit 9000000", []standin.Call{{Case: "a", Prompt: 5000, Ended: true}}, 5_000_000, "above the limit",
		},
		"a call for nobody": {plentyNano, "said b\nruns 1", once, 0, "which the log does not know"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := moneyStory(t, test.limit, test.log)
			b.close(test.calls, test.spent)
			require.Contains(t, strings.Join(b.faults, "\n"), test.fault)
		})
	}
}
