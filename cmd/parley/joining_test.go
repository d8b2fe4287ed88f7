package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCopiesAreTold: a node that has joined says now and then how many copies it holds, until it holds its share.
func TestCopiesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		began := time.Now()
		copies := func() (held, share int) {
			passed := int(time.Since(began) / time.Second)
			if passed < 3 {
				return 0, 0 // it has not heard of the others
			}
			return passed, 22
		}
		showCopies(t.Context(), copies, &out, log)
		require.Empty(t, out.String(), "bars are for terminals")
		require.Equal(t, 22*time.Second, time.Since(began))
		lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
		require.Len(t, lines, 3, logged.String())
		require.Contains(t, lines[0], `msg="copying shards" held=10 share=22`)
		require.Contains(t, lines[1], `msg="copying shards" held=20 share=22`)
		require.Contains(t, lines[2], `msg="holds its share of the shards" copies=22 took=22s`)

		logged.Reset()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		showCopies(ctx, func() (int, int) { return 1, 2 }, &out, log)
		require.Empty(t, logged.String())
	})
}
