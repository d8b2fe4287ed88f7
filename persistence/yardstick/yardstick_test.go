package yardstick

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeasureLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	result, err := Measure(t.Context(), dir, 4, time.Nanosecond) // which is over before the first is written
	require.NoError(t, err)
	require.Positive(t, result.BatchesPerSecond)
	require.Positive(t, result.FsyncsPerSecond)
	require.GreaterOrEqual(t, result.BatchP99, result.BatchP50)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestMeasureSaysWhatIsWrong(t *testing.T) {
	_, err := Measure(t.Context(), t.TempDir()+"/absent", 1, time.Millisecond)
	require.ErrorContains(t, err, "make folder")
}
