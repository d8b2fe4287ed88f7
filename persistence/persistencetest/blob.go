package persistencetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/persistence"
	"parley/proto/logpb"
)

// file is a blob of the model.
type file struct {
	pieces        map[uint32][]byte
	committed     bool
	owner, record string
}

func modelFiles() []string { return []string{"f", "g"} }

func (f *file) size() (n int64) {
	if f == nil {
		return 0
	}
	for _, data := range f.pieces {
		n += int64(len(data))
	}
	return n
}

// fits returns the outcome that a change must have.
func (f *file) fits(c *logpb.BlobChange, owner string) logpb.Outcome {
	switch {
	case c.GetDelete():
		if f != nil && f.owner != "" && f.owner != owner {
			return logpb.Outcome_EXISTS
		}
	case f != nil && f.committed:
		if f.owner != owner || f.record != string(c.GetRecord()) || f.size() != c.GetSize() {
			return logpb.Outcome_EXISTS
		}
	case f.size() != c.GetSize() || c.GetSize() > 0 && f.pieces[0] == nil:
		return logpb.Outcome_SEQ_MISMATCH
	}
	return logpb.Outcome_APPLIED
}

func (m *Model) change(group uint32, c *logpb.BlobChange, owner string) {
	if c.GetDelete() {
		delete(m.blobs[group], c.GetId())
		return
	}
	f := m.blobs[group][c.GetId()]
	if f == nil {
		f = &file{pieces: map[uint32][]byte{}}
		m.blobs[group][c.GetId()] = f
	}
	f.committed, f.owner, f.record = true, owner, string(c.GetRecord())
}

// put is Store.PutChunk of a piece that is not full.
func (m *Model) put(group uint32, id string, index uint32, data []byte) error {
	f := m.blobs[group][id]
	switch {
	case f == nil:
		f = &file{pieces: map[uint32][]byte{}}
		m.blobs[group][id] = f
	case f.pieces[index] != nil:
		return nil
	case f.committed:
		return persistence.ErrBlobTaken
	case len(f.pieces) > 0:
		return persistence.ErrIncomplete // only the last one may be short
	}
	f.pieces[index] = data
	return nil
}

func drawChange(t *rapid.T, id string, remove bool) *logpb.BlobChange {
	c := &logpb.BlobChange{Id: id, Delete: remove || rapid.IntRange(0, 2).Draw(t, "remove file") == 0}
	if !c.GetDelete() {
		c.Record = []byte(rapid.SampledFrom([]string{"r", "s"}).Draw(t, "record"))
		if rapid.IntRange(0, 3).Draw(t, "empty file") > 0 {
			c.Chunks, c.Size = 1, 9
		}
	}
	return c
}

// DrawBlob makes a random blob operation outside an append, or none, on model and store, and compares the results.
func (m *Model) DrawBlob(ctx context.Context, t *rapid.T, s *persistence.Store) {
	group := rapid.Uint32Range(1, m.shards).Draw(t, "file group")
	id := rapid.SampledFrom(modelFiles()).Draw(t, "file")
	var want, got error
	switch rapid.IntRange(0, 9).Draw(t, "file step") {
	case 0, 1, 2, 3:
		index := min(1, rapid.Uint32Range(0, 3).Draw(t, "backwards")/3)
		data := bytes.Repeat([]byte{byte('0' + index)}, 9)
		want, got = m.put(group, id, index, data), s.PutChunk(ctx, group, id, index, data)
	case 4, 5:
		c := drawChange(t, id, false)
		outcome := m.blobs[group][id].fits(c, "")
		if outcome == logpb.Outcome_APPLIED {
			m.change(group, c, "")
		}
		want = blobError(outcome)
		if c.GetDelete() {
			got = s.DeleteBlob(ctx, group, id)
		} else {
			got = s.CommitBlob(ctx, group, id, persistence.Blob{Chunks: c.GetChunks(), Size: c.GetSize(), Record: c.GetRecord()})
		}
	}
	require.True(t, errors.Is(got, want) && (want != nil || got == nil), "want %v, got %v", want, got)
}

func blobError(outcome logpb.Outcome) error {
	switch outcome {
	case logpb.Outcome_SEQ_MISMATCH:
		return persistence.ErrIncomplete
	case logpb.Outcome_EXISTS:
		return persistence.ErrBlobTaken
	default:
		return nil
	}
}

func (m *Model) checkBlobs(ctx context.Context, t require.TestingT, s *persistence.Store, group uint32) {
	for _, id := range modelFiles() {
		want := m.blobs[group][id]
		b, found, err := s.Blob(ctx, group, id)
		require.NoError(t, err)
		require.Equal(t, want != nil, found, "file %s of %d", id, group)
		if want == nil {
			want = &file{}
		}
		require.Equal(t, want.committed, b.Committed)
		require.Equal(t, want.owner, b.Owner)
		require.Equal(t, want.record, string(b.Record))
		require.Equal(t, want.size(), b.Size)
		for index := range uint32(2) {
			data, err := s.Chunk(ctx, group, id, index, nil)
			if want.pieces[index] == nil {
				require.ErrorIs(t, err, persistence.ErrNoChunk)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, want.pieces[index], data)
		}
	}
}

func bytesOfFiles(t *testing.T, s *persistence.Store) {
	t.Helper()
	ctx := t.Context()
	pieces := [][]byte{bytes.Repeat([]byte("0"), persistence.ChunkSize), bytes.Repeat([]byte("1"), persistence.ChunkSize), []byte("end")}
	size := int64(2*persistence.ChunkSize + 3)
	commit := &logpb.BlobChange{Id: "f", Chunks: 3, Size: size, Record: []byte("r")}
	for _, index := range []uint32{2, 0, 2} {
		require.NoError(t, s.PutChunk(ctx, 1, "f", index, pieces[index]))
	}
	require.ErrorIs(t, s.CommitBlob(ctx, 1, "f", persistence.Blob{Chunks: 3, Size: size}), persistence.ErrIncomplete)
	r, err := s.Append(ctx, 1, &logpb.Append{Id: "c", Create: true, Head: []byte("h"), Blobs: []*logpb.BlobChange{commit}})
	require.NoError(t, err)
	require.Equal(t, logpb.Outcome_SEQ_MISMATCH, r.GetOutcome())
	_, found, err := s.Head(ctx, 1, "c")
	require.NoError(t, err)
	require.False(t, found, "all or nothing")

	require.NoError(t, s.PutChunk(ctx, 1, "f", 1, pieces[1]))
	must(t, s, 1, &logpb.Append{Id: "c", Create: true, Head: []byte("h"), Blobs: []*logpb.BlobChange{commit}})
	b, found, err := s.Blob(ctx, 1, "f")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, persistence.Blob{Chunks: 3, Size: size, Record: []byte("r"), Owner: "c", Committed: true}, b)
	buf := make([]byte, 0, persistence.ChunkSize)
	for index, want := range pieces {
		var got []byte
		got, err = s.Chunk(ctx, 1, "f", uint32(index), buf)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		require.Same(t, &buf[:1][0], &got[0])
	}
	require.ErrorIs(t, s.DeleteBlob(ctx, 1, "f"), persistence.ErrBlobTaken)
	require.ErrorIs(t, s.PutChunk(ctx, 1, "f", 3, pieces[2]), persistence.ErrBlobTaken)

	// The same id in another shard is another blob; one that belongs to nobody is removed alone.
	_, found, err = s.Blob(ctx, 2, "f")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, s.CommitBlob(ctx, 2, "f", persistence.Blob{ExpiresAt: 1 << 60}))
	b, found, err = s.Blob(ctx, 2, "f")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, persistence.Blob{Committed: true, ExpiresAt: 1 << 60}, b)
	require.NoError(t, s.DeleteBlob(ctx, 2, "f"))
	require.NoError(t, s.DeleteBlob(ctx, 2, "f"))

	must(t, s, 1, &logpb.Append{Id: "c", DeleteEntity: true})
	_, found, err = s.Blob(ctx, 1, "f")
	require.NoError(t, err)
	require.False(t, found)
	for index := range pieces {
		_, err := s.Chunk(ctx, 1, "f", uint32(index), nil)
		require.ErrorIs(t, err, persistence.ErrNoChunk)
	}
	for name, err := range map[string]error{
		"no id":      s.PutChunk(ctx, 1, "", 0, pieces[2]),
		"no bytes":   s.PutChunk(ctx, 1, "f", 0, nil),
		"long piece": s.PutChunk(ctx, 1, "f", 0, slices.Concat(pieces...)),
		"far piece":  s.PutChunk(ctx, 1, "f", persistence.MaxChunks, pieces[2]),
		"bad size":   s.CommitBlob(ctx, 1, "f", persistence.Blob{Chunks: 2, Size: 3}),
		"an owner":   s.CommitBlob(ctx, 1, "f", persistence.Blob{Owner: "c"}),
	} {
		require.ErrorIs(t, err, persistence.ErrInvalid, name)
	}
}
