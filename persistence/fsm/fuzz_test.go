package fsm_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/persistence/fsm"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

func FuzzApply(f *testing.F) {
	seed, err := fsm.Encode(&logpb.Append{Id: "c", Create: true, Events: [][]byte{{1}}, Counts: []*logpb.Count{{Name: "n", Delta: 1}}})
	require.NoError(f, err)
	f.Add(seed)
	put, err := fsm.EncodePut(&logpb.Put{Collection: "c", Key: "k", Value: []byte("v")})
	require.NoError(f, err)
	f.Add(put)
	sums, err := fsm.EncodeSums([]*logpb.Sum{{Name: "n", Member: "m", Deltas: []int64{1, -2}}})
	require.NoError(f, err)
	f.Add(sums)
	trim, err := fsm.EncodeTrim(&logpb.TrimSums{Prefix: "n", Before: "m"})
	require.NoError(f, err)
	f.Add(trim)
	pack, err := fsm.EncodePack(&logpb.PackSums{Name: "n", From: "a", To: "z", Head: 1})
	require.NoError(f, err)
	f.Add(pack)
	for _, e := range []*logpb.Entry{piece("f", 0, 9, 5), {Version: fsm.Format, Body: &logpb.Entry_Blob{Blob: commit("f", 9, "r")}}} {
		data, err := proto.Marshal(e)
		require.NoError(f, err)
		f.Add(data)
	}
	r := newRig(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		batch := r.db.NewBatch()
		results, err := r.machine.Apply(batch, 0, []replica.Entry{{Index: 1, Data: data}})
		if err == nil {
			require.Len(t, results, 1)
		}
		require.NoError(t, batch.Close())
	})
}
