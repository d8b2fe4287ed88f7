package wire

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// reference is what encoding/json writes without HTML escaping.
func reference(t require.TestingT, value any) string {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(value))
	return string(bytes.TrimSuffix(buffer.Bytes(), []byte("\n")))
}

func TestAppendStringIsEncodingJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringOfN(rapid.RuneFrom([]rune("\u2028\u2029\u2027\x00\x1f\x7f\"\\\b\f\n\r\t<>&é漢😀")), 0, 20, -1),
		).Draw(rt, "s")
		require.Equal(rt, reference(rt, s), string(AppendString(nil, s)))
	})
}

func TestAppendTimeIsTheStandardLibrarys(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := rapid.Int64Range(-62167219200000, 253402300799999).Draw(rt, "ms")
		want := time.UnixMilli(ms).UTC().Format(`"2006-01-02T15:04:05.000Z"`)
		require.Equal(rt, want, string(AppendTime(nil, ms)))
	})
}

func TestAppendTimeCutsWhatIsOutOfRange(t *testing.T) {
	require.Equal(t, `"9999-12-31T23:59:59.999Z"`, string(AppendTime(nil, 1<<62)))
	require.Equal(t, `"0000-01-01T00:00:00.000Z"`, string(AppendTime(nil, -1<<62)))
	require.Equal(t, `"2024-02-29T12:34:56.007Z"`, string(AppendTime(nil, 1709210096007)))
}

func BenchmarkAppendTime(b *testing.B) {
	var buffer [32]byte
	for b.Loop() {
		AppendTime(buffer[:0], 1709210096007)
	}
}

func BenchmarkAppendString(b *testing.B) {
	s := "The quick brown fox jumps over the lazy dog, then asks \"what next?\" and waits for an answer.\n"
	var buffer [256]byte
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		AppendString(buffer[:0], s)
	}
}
