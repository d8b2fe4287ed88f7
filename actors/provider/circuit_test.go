package provider

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func allows(c *Circuits, id string) bool {
	_, _, ok := c.enter(id)
	return ok
}

// TestBreaker: five failures in a row, half a minute alone, one call that tries.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewCircuits(5, 30*time.Second)
		fail := func() {
			t.Helper()
			require.True(t, allows(b, "x"))
			b.report("x", failing)
		}
		for range 4 {
			fail()
		}
		b.report("x", healthy)
		for range 5 {
			fail()
		}
		require.False(t, allows(b, "x"))
		require.True(t, allows(b, "y"), "others go on")
		time.Sleep(30 * time.Second)
		require.True(t, allows(b, "x"))
		require.False(t, allows(b, "x"), "one tries, the others wait for it")
		b.report("x", failing)
		require.False(t, allows(b, "x"))
		time.Sleep(30 * time.Second)
		require.True(t, allows(b, "x"))
		b.report("x", unknown) // its caller left
		require.True(t, allows(b, "x"), "then another tries")
		b.report("x", healthy)
		require.True(t, allows(b, "x"))
		require.True(t, allows(b, "x"))
		require.Empty(t, b.byID, "what works is not watched")
	})
}

func TestBreakerNever(t *testing.T) {
	b := NewCircuits(0, 0)
	for range 100 {
		require.True(t, allows(b, "x"))
		b.report("x", failing)
	}
}

func TestBreakersAreBounded(t *testing.T) {
	b := NewCircuits(5, time.Minute)
	for i := range maxCircuits + 100 {
		b.report(fmt.Sprint(i), failing)
	}
	require.Len(t, b.byID, maxCircuits)
}
