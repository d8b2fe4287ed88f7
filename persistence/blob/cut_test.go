package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"parley/persistence/blob"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pieces is where a test keeps them.
type pieces struct {
	mu   sync.Mutex
	data map[uint32][]byte
}

func (p *pieces) put(_ context.Context, index uint32, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.data == nil {
		p.data = map[uint32][]byte{}
	}
	p.data[index] = bytes.Clone(data)
	return nil
}

func (p *pieces) get(index uint32, buf []byte) ([]byte, error) {
	return append(buf[:0], p.data[index]...), nil
}

func random(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

// What is cut is read back, whole and in every part, however it comes and is read.
func TestCutAndRead(t *testing.T) {
	cutter := &blob.Cutter{}
	all := random(3*blob.ChunkSize + 5)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, len(all)), rapid.SampledFrom([]int{0, 1, blob.ChunkSize, 2 * blob.ChunkSize})).Draw(t, "size")
		data := all[:size]
		var from io.Reader = bytes.NewReader(data)
		if rapid.Bool().Draw(t, "halting") {
			from = iotest.HalfReader(from)
		}
		p := &pieces{}
		kept, err := cutter.Cut(t.Context(), from, blob.Limits{Bytes: int64(size), Head: 100}, p.put)
		require.NoError(t, err)
		sum := sha256.Sum256(data)
		require.Equal(t, int64(size), kept.Size)
		require.Equal(t, blob.Chunks(kept.Size), kept.Chunks)
		require.Len(t, p.data, int(kept.Chunks))
		require.Equal(t, sum[:], kept.SHA256)
		require.True(t, bytes.Equal(data[:min(size, 100)], kept.Head))

		part := blob.Range{Size: kept.Size, Offset: int64(rapid.IntRange(0, size).Draw(t, "offset")), Length: int64(rapid.IntRange(-1, size).Draw(t, "length"))}
		want := data[part.Offset:]
		if part.Length >= 0 {
			want = want[:min(int64(len(want)), part.Length)]
		}
		r := blob.NewReader(part, p.get)
		if rapid.Bool().Draw(t, "bit by bit") {
			r = iotest.HalfReader(r)
		}
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
	})
}

func TestStreamsThatFail(t *testing.T) {
	cutter := &blob.Cutter{}
	data := random(2*blob.ChunkSize + 5)
	cut := func(r io.Reader, limit int64, put func(context.Context, uint32, []byte) error) error {
		_, err := cutter.Cut(t.Context(), r, blob.Limits{Bytes: limit}, put)
		return err
	}
	size := int64(len(data))
	require.NoError(t, cut(bytes.NewReader(data), size, (&pieces{}).put))
	require.ErrorIs(t, cut(bytes.NewReader(data), size-1, (&pieces{}).put), blob.ErrTooLong)
	require.ErrorIs(t, cut(bytes.NewReader(data), 0, (&pieces{}).put), blob.ErrTooLong)

	broken := errors.New("broken")
	after := io.MultiReader(bytes.NewReader(data[:blob.ChunkSize+1]), iotest.ErrReader(broken))
	require.ErrorIs(t, cut(after, size, (&pieces{}).put), broken)
	// The first refusal ends it, whatever is still to come.
	var puts atomic.Int32
	endless := iotest.DataErrReader(neverEnding{})
	require.ErrorIs(t, cut(endless, 1<<40, func(context.Context, uint32, []byte) error {
		puts.Add(1)
		return broken
	}), broken)
	require.LessOrEqual(t, puts.Load(), int32(blob.Window))
	// Nothing is longer than a blob can be.
	require.ErrorIs(t, cut(neverEnding{}, 1<<60, func(context.Context, uint32, []byte) error { return nil }), blob.ErrTooLong)

	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := cutter.Cut(ctx, neverEnding{}, blob.Limits{Bytes: 1 << 40}, func(context.Context, uint32, []byte) error {
		cancel(broken)
		return nil
	})
	require.ErrorIs(t, err, broken)
}

// neverEnding is a stream without an end. It writes nothing, so that reading gigabytes of it is quick.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

// No more than the window is in memory, however slow the log is.
func TestWindowIsBounded(t *testing.T) {
	cutter := &blob.Cutter{}
	var now, most atomic.Int32
	_, err := cutter.Cut(t.Context(), bytes.NewReader(random(20*blob.ChunkSize)), blob.Limits{Bytes: 1 << 30}, func(_ context.Context, _ uint32, data []byte) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		sha256.Sum256(data)
		return nil
	})
	require.NoError(t, err)
	require.LessOrEqual(t, most.Load(), int32(blob.Window))
}

func TestReadersThatFail(t *testing.T) {
	gone := errors.New("gone")
	r := blob.NewReader(blob.Range{Size: 10, Length: -1}, func(uint32, []byte) ([]byte, error) { return nil, gone })
	for range 2 {
		_, err := r.Read(make([]byte, 5))
		require.ErrorIs(t, err, gone)
	}
	r = blob.NewReader(blob.Range{Size: 10, Length: -1}, func(uint32, []byte) ([]byte, error) { return make([]byte, 9), nil })
	_, err := io.ReadAll(r)
	require.ErrorIs(t, err, blob.ErrDamaged)
	for _, part := range []blob.Range{{Size: 10, Offset: 10, Length: -1}, {Size: 10, Offset: 99, Length: 5}, {Size: 10, Length: 0}, {}} {
		r = blob.NewReader(part, func(uint32, []byte) ([]byte, error) { return nil, gone })
		n, err := r.Read(make([]byte, 5))
		require.Zero(t, n)
		require.ErrorIs(t, err, io.EOF)
	}
}
