package fsm_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/persistence/fsm"
	"parley/persistence/keys"
	"parley/proto/logpb"
)

func packRow(t require.TestingT, k keys.Key, value []byte) string {
	pack, err := keys.ReadPack(value)
	require.NoError(t, err)
	text := fmt.Sprintf("pack %s %s-%s", k.Name, pack.From, k.Tail)
	require.NoError(t, pack.Each(func(head, tail []byte, values []int64) error {
		text += fmt.Sprintf(" %s%s%v", head, tail, values)
		return nil
	}))
	return text
}

// TestPackedRowsAreRemoved: one by one, and as a range where they are many; a pack has no more rows than the limit.
func TestPackedRowsAreRemoved(t *testing.T) {
	for _, rows := range []int{1, 64, 65, fsm.MaxPacked, fsm.MaxPacked + 1} {
		r := newRig(t)
		for left := rows; left > 0; {
			sums := &logpb.Sums{}
			for ; left > 0 && len(sums.GetSums()) < fsm.MaxSums; left-- {
				sums.Sums = append(sums.Sums, &logpb.Sum{Name: "u", Member: fmt.Sprintf("1%05d", left), Deltas: []int64{1}})
			}
			r.apply(t, 1, &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Sums{Sums: sums}})
		}
		got := r.apply(t, 1,
			&logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Pack{Pack: &logpb.PackSums{Name: "u", From: "1", To: "2", Head: 1}}},
			&logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Sums{Sums: &logpb.Sums{Sums: []*logpb.Sum{{Name: "u", Member: "100001", Deltas: []int64{5}}}}}},
		)
		if rows > fsm.MaxPacked {
			require.Equal(t, logpb.Outcome_SEQ_MISMATCH, got[0].GetOutcome())
			require.Len(t, r.rows(t, 1), rows)
			continue
		}
		require.Equal(t, logpb.Outcome_APPLIED, got[0].GetOutcome())
		stored := r.rows(t, 1)
		require.Len(t, stored, 2)
		require.Equal(t, "sum u 100001 [5]", stored[0])
		require.Contains(t, stored[1], "pack u 1-2 100001[1]")
	}
}
