package provider

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// TestLimitsOfLines: whatever ends lines, a stream of small events is no long line, nor one text of many values, and a long line is one.
func TestLimitsOfLines(t *testing.T) {
	limits := Limits{MaxLineBytes: 40, MaxDepth: 5, MaxValues: 9}
	read := func(text string) (string, error) {
		x := &Exchange{Limits: limits}
		got, err := io.ReadAll(newWatchedBody(x, io.NopCloser(strings.NewReader(text))))
		again, same := io.ReadAll(newWatchedBody(&Exchange{Limits: limits}, io.NopCloser(iotest.OneByteReader(strings.NewReader(text)))))
		require.True(t, errors.Is(same, err) && (err != nil || string(again) == string(got)), "in pieces of one byte %v, else %v", same, err)
		return string(got), err
	}
	for _, end := range []string{"\n", "\r\n", "\r"} {
		small := strings.Repeat("data: [1,2,3]"+end+end, 1000)
		got, err := read(small)
		require.NoError(t, err, "%q", end)
		require.Equal(t, small, got)
		good := "data: [1]" + end + end
		got, err = read(good + "data: " + strings.Repeat("x", 50) + end)
		require.ErrorIs(t, err, ErrLineSize)
		require.Equal(t, good, got, "what came before is said")
		_, err = read(strings.Repeat("data: 1"+end, 1000))
		require.ErrorIs(t, err, ErrEventSize)
		_, err = read(strings.Repeat("data: 1,2,3"+end, 5))
		require.ErrorIs(t, err, ErrEventShape)
	}
}
