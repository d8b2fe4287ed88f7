package main

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/bench"
	"parley/bench/nodes"
)

// TestChaos is the short form of `parley bench chaos`: real nodes are killed, frozen and cut off under load, and
// everything that was acknowledged is looked for at the end. The long form is `make chaos`.
func TestChaos(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	binary, err := builtBinary()
	require.NoError(t, err)
	args := []string{
		"chaos", "-binary", binary, "-seed", strconv.FormatUint(chaosSeed(t), 10), "-duration", "20s", "-faults", "4",
		"-records", "40", "-rate", "40", "-quiet",
	}
	if permitted := nodes.Permitted(t.Context()); permitted == nil {
		args = append(args, "-network")
	} else {
		t.Logf("no partitions: %v", permitted)
	}
	var stdout, stderr bytes.Buffer
	code := bench.Main(t.Context(), args, &stdout, &stderr, nil)
	t.Log(stdout.String())
	require.Zero(t, code, stderr.String())
}
