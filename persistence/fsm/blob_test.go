package fsm_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/persistence/blob"
	"parley/persistence/fsm"
	"parley/persistence/keys"
	"parley/persistence/replica"
	"parley/proto/logpb"
)

// piece is an entry with a piece of so many bytes.
func piece(id string, index uint32, size int, at int64) *logpb.Entry {
	data := bytes.Repeat([]byte{'a' + byte(index%26)}, size)
	return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Chunk{Chunk: &logpb.BlobChunk{Id: id, Index: index, Data: data, At: at}}}
}

func commit(id string, size int64, record string) *logpb.BlobChange {
	return &logpb.BlobChange{Id: id, Chunks: blob.Chunks(size), Size: size, Record: []byte(record)}
}

// parseBlob reads: chunk ID INDEX (full | BYTES) at=MINUTES, commit ID BYTES RECORD [expires=MINUTES] [owner=ID], or
// remove ID [due=MINUTES]. full is the size of a piece; BYTES of a commit may be full+BYTES.
func parseBlob(t *testing.T, words []string) *logpb.Entry {
	t.Helper()
	minutes := func(word string) int64 {
		_, value, _ := strings.Cut(word, "=")
		return number[int64](t, value) * time.Minute.Milliseconds()
	}
	if words[0] == "chunk" {
		return piece(words[1], number[uint32](t, words[2]), int(size(t, words[3])), minutes(words[4]))
	}
	c := &logpb.BlobChange{Id: words[1], Delete: true}
	rest := words[2:]
	if words[0] == "commit" {
		c = commit(words[1], size(t, words[2]), words[3])
		rest = words[4:]
	}
	for _, word := range rest {
		if owner, found := strings.CutPrefix(word, "owner="); found {
			c.Owner = owner
			continue
		}
		c.ExpiresAt = minutes(word)
	}
	return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Blob{Blob: c}}
}

func size(t *testing.T, word string) (sum int64) {
	t.Helper()
	for _, part := range strings.Split(word, "+") {
		if part == "full" {
			sum += blob.ChunkSize
		} else {
			sum += number[int64](t, part)
		}
	}
	return sum
}

func blobRow(t require.TestingT, id string, value []byte) string {
	h := &logpb.BlobHead{}
	require.NoError(t, proto.Unmarshal(value, h))
	state := fmt.Sprintf("pieces=%x short=%d", h.GetPieces(), h.GetShort())
	if h.GetCommitted() {
		state = fmt.Sprintf("committed chunks=%d record=%q owner=%q", h.GetChunks(), h.GetRecord(), h.GetOwner())
	}
	return fmt.Sprintf("blob %s %s size=%d due=%v", id, state, h.GetSize(), time.Duration(h.GetDue())*time.Millisecond)
}

var blobIDs = []string{"f", "g"}

// drawBlob makes an entry about one of a few blobs, of pieces that are mostly small: only one of those may be the last.
func drawBlob(t *rapid.T) *logpb.Entry {
	id := rapid.SampledFrom(blobIDs).Draw(t, "blob id")
	if rapid.Bool().Draw(t, "piece") {
		n := 7
		if rapid.IntRange(0, 4).Draw(t, "full") == 0 {
			n = blob.ChunkSize
		}
		return piece(id, rapid.Uint32Range(0, 1).Draw(t, "index"), n, rapid.Int64Range(1, 3).Draw(t, "at"))
	}
	return &logpb.Entry{Version: fsm.Format, Body: &logpb.Entry_Blob{Blob: drawChange(t, id, rapid.Bool().Draw(t, "remove blob"))}}
}

func drawChange(t *rapid.T, id string, remove bool) *logpb.BlobChange {
	if remove {
		return &logpb.BlobChange{Id: id, Delete: true, ExpiresAt: rapid.SampledFrom([]int64{0, 2, 3_600_002}).Draw(t, "by")}
	}
	c := commit(id, rapid.SampledFrom([]int64{0, 7, 7, blob.ChunkSize, blob.ChunkSize + 7}).Draw(t, "bytes"), "r")
	c.ExpiresAt = rapid.Int64Range(0, 2).Draw(t, "expires")
	return c
}

// Every piece belongs to a head, every committed blob is whole, every due one is in the list once, and the rows that
// name owners are those of the heads: whatever came.
func TestBlobRowsTellOneStory(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		r.wipe(rt)
		for rest := rapid.SliceOfN(rapid.Custom(drawEntry), 1, 40).Draw(rt, "entries"); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "batch")
			r.apply(rt, 0, rest[:n]...)
			rest = rest[n:]
		}
		checkBlobs(rt, r)
	})
}

func checkBlobs(t require.TestingT, r *rig) {
	heads := map[string]*logpb.BlobHead{}
	pieces := map[string]map[uint64]int{}
	var owned, due, entities []string
	eachRow(t, r, func(k keys.Key, value []byte) {
		switch {
		case k.Kind == keys.BlobHead:
			heads[k.Name] = &logpb.BlobHead{}
			require.NoError(t, proto.Unmarshal(value, heads[k.Name]))
		case k.Kind == keys.Chunk:
			if pieces[k.Name] == nil {
				pieces[k.Name] = map[uint64]int{}
			}
			pieces[k.Name][k.Seq] = len(value)
		case k.Kind == keys.Owned:
			owned = append(owned, k.Name+" "+string(k.Tail))
		case k.Kind == keys.Listing && k.Name == fsm.ListBlobsDue:
			due = append(due, fmt.Sprint(k.Score, " ", string(k.Tail)))
		case k.Kind == keys.Head:
			entities = append(entities, k.Name)
		}
	})
	var wantOwned, wantDue []string
	for id, h := range heads {
		var sum int64
		for index := range blob.Stored(h) {
			n, there := pieces[id][uint64(index)]
			require.True(t, there)
			sum += int64(n)
			delete(pieces[id], uint64(index))
		}
		require.Equal(t, h.GetSize(), sum)
		require.Empty(t, pieces[id], "pieces that the head does not know")
		delete(pieces, id)
		if h.GetOwner() != "" {
			wantOwned = append(wantOwned, h.GetOwner()+" "+id)
			require.Contains(t, entities, h.GetOwner())
		}
		if h.GetDue() != 0 {
			wantDue = append(wantDue, fmt.Sprint(h.GetDue(), " ", id))
		}
	}
	require.Empty(t, pieces, "pieces without a head")
	require.ElementsMatch(t, wantOwned, owned)
	require.ElementsMatch(t, wantDue, due)
}

func eachRow(t require.TestingT, r *rig, visit func(keys.Key, []byte)) {
	start, end := r.machine.Span(replica.GroupID(0))
	iter, err := r.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	require.NoError(t, err)
	for valid := iter.First(); valid; valid = iter.Next() {
		k, err := keys.Decode(iter.Key())
		require.NoError(t, err)
		visit(k, iter.Value())
	}
	require.NoError(t, iter.Close())
}

// A big blob goes as whole as a small one.
func TestRemovingABlobLeavesNothing(t *testing.T) {
	for _, chunks := range []uint32{1, 16, 17, 40} {
		r := newRig(t)
		for index := range chunks {
			r.apply(t, 1, piece("f", index, blob.ChunkSize, 1))
		}
		r.apply(t, 1, piece("e", 0, 1, 0), piece("g", 0, 1, 0))
		a := &logpb.Append{Id: "c", Create: true, Blobs: []*logpb.BlobChange{commit("f", int64(chunks)*blob.ChunkSize, "r")}}
		require.Equal(t, logpb.Outcome_APPLIED, r.apply(t, 1, entry(a))[0].GetOutcome())
		require.Equal(t, logpb.Outcome_APPLIED, r.apply(t, 1, entry(&logpb.Append{Id: "c", DeleteEntity: true}))[0].GetOutcome())
		for _, row := range r.rows(t, 1) {
			require.NotContains(t, row, " f ")
		}
		require.Len(t, r.rows(t, 1), 6, "the others stay")
	}
}
