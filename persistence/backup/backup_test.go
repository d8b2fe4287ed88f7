package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/persistence/backup"
)

type row struct{ key, value string }

func header() backup.Header {
	return backup.Header{ClusterID: "c", Shards: 3, Group: 2, Index: 7, Term: 4, Taken: time.Unix(1, 0).UTC()}
}

func write(t require.TestingT, rows []row) ([]byte, backup.Info) {
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, header())
	require.NoError(t, err)
	for _, r := range rows {
		require.NoError(t, w.Row([]byte(r.key), []byte(r.value)))
	}
	info, err := w.Close()
	require.NoError(t, err)
	return out.Bytes(), info
}

func read(stream io.Reader) (rows []row, h backup.Header, info backup.Info, err error) {
	info, err = backup.Read(stream, func(found backup.Header) error { h = found; return nil }, func(key, value []byte) error {
		rows = append(rows, row{string(key), string(value)})
		return nil
	})
	return rows, h, info, err
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []row
		for i := range rapid.SampledFrom([]int{0, 1, 10, 300}).Draw(t, "rows") {
			size := rapid.SampledFrom([]int{0, 1, 100, 5000}).Draw(t, "size")
			want = append(want, row{fmt.Sprintf("key %04d", i), string(bytes.Repeat([]byte{byte(i)}, size))})
		}
		stream, wrote := write(t, want)
		got, h, info, err := read(iotest.OneByteReader(bytes.NewReader(stream)))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, wrote, info)
		require.Equal(t, backup.Info{Group: 2, Index: 7, Term: 4, Rows: uint64(len(want)), Bytes: info.Bytes}, info)
		expected := header()
		expected.Format = backup.Format
		require.Equal(t, expected, h)
	})
}

// Whatever happens to a stream is found: each flipped bit, each cut, each frame lost, doubled or moved.
func TestDamageIsFound(t *testing.T) {
	big := string(make([]byte, 300<<10)) // a frame of its own
	stream, _ := write(t, []row{{"a", "1"}, {"b", "2"}, {"c", "3"}})
	check := func(what string, stream []byte) {
		t.Helper()
		_, _, err := backup.Verify(bytes.NewReader(stream))
		require.ErrorIs(t, err, backup.ErrDamaged, what)
	}
	for i := range stream {
		for bit := range 8 {
			damaged := slices.Clone(stream)
			damaged[i] ^= 1 << bit
			check(fmt.Sprintf("bit %d of byte %d", bit, i), damaged)
		}
		check(fmt.Sprintf("cut at %d", i), stream[:i])
	}
	check("more", append(slices.Clone(stream), 0))
	check("twice", append(slices.Clone(stream), stream...))

	stream, _ = write(t, []row{{"a", big}, {"b", big}, {"c", big}})
	frames := split(stream)
	require.Len(t, frames, 5)
	head := stream[:8]
	join := func(order ...int) []byte {
		out := slices.Clone(head)
		for _, i := range order {
			out = append(out, frames[i]...)
		}
		return out
	}
	require.Equal(t, stream, join(0, 1, 2, 3, 4))
	for _, order := range [][]int{{0, 1, 3, 4}, {0, 1, 2, 2, 3, 4}, {0, 2, 1, 3, 4}, {0, 4}, {1, 2, 3, 4}, {0, 1, 2, 3}, {4}, {0, 1, 2, 3, 4, 4}} {
		check(fmt.Sprint(order), join(order...))
	}
}

// split returns the frames of a stream.
func split(stream []byte) (frames [][]byte) {
	for rest := stream[8:]; len(rest) > 0; {
		n := 8 + int(rest[0])<<24 + int(rest[1])<<16 + int(rest[2])<<8 + int(rest[3])
		frames = append(frames, rest[:n])
		rest = rest[n:]
	}
	return frames
}

func TestRowsOutOfOrderAreDamage(t *testing.T) {
	stream, _ := write(t, []row{{"b", ""}, {"a", ""}})
	_, _, err := backup.Verify(bytes.NewReader(stream))
	require.ErrorIs(t, err, backup.ErrDamaged)
	require.ErrorContains(t, err, "not in order")
}

// A newer release's stream is refused with its number.
func TestNewerFormat(t *testing.T) {
	payload := []byte(`h{"format":2}`)
	sum := crc32.Checksum(append([]byte{0, 0, 0, 0}, payload...), crc32.MakeTable(crc32.Castagnoli))
	stream := append([]byte("prlybak1"), 0, 0, 0, byte(len(payload)), byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
	_, _, err := backup.Verify(bytes.NewReader(append(stream, payload...)))
	require.ErrorIs(t, err, backup.ErrFormat)
	require.ErrorContains(t, err, "format 2, known is 1")
}

// Errors of the reader and of the callbacks pass, and are not called damage.
func TestErrorsPass(t *testing.T) {
	stream, _ := write(t, []row{{"a", "1"}})
	broken := errors.New("broken")
	_, _, err := backup.Verify(io.MultiReader(bytes.NewReader(stream[:20]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, backup.ErrDamaged)
	_, err = backup.Read(bytes.NewReader(stream), func(backup.Header) error { return broken }, nil)
	require.ErrorIs(t, err, broken)
	_, err = backup.Read(bytes.NewReader(stream), nil, func([]byte, []byte) error { return broken })
	require.ErrorIs(t, err, broken)
	_, err = backup.NewWriter(failing{broken}, header())
	require.NoError(t, err, "it gathers")
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzRead(f *testing.F) {
	whole, _ := write(f, []row{{"a", "1"}, {"b", "2"}})
	f.Add(whole)
	f.Add(whole[:30])
	f.Add([]byte("prlybak1"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		rows, _, info, err := read(bytes.NewReader(stream))
		if err == nil {
			require.Len(t, rows, int(info.Rows))
		}
	})
}
