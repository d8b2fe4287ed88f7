package inference

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestBreaker: five failures in a row, half a minute alone, one call that tries.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(5, 30*time.Second)
		fail := func() {
			t.Helper()
			require.True(t, b.allow("x"))
			b.report("x", failing)
		}
		for range 4 {
			fail()
		}
		b.report("x", well)
		for range 5 {
			fail()
		}
		require.False(t, b.allow("x"))
		require.True(t, b.allow("y"), "others go on")
		time.Sleep(30 * time.Second)
		require.True(t, b.allow("x"))
		require.False(t, b.allow("x"), "one tries, the others wait for it")
		b.report("x", failing)
		require.False(t, b.allow("x"))
		time.Sleep(30 * time.Second)
		require.True(t, b.allow("x"))
		b.report("x", unknown) // its caller left
		require.True(t, b.allow("x"), "then another tries")
		b.report("x", well)
		require.True(t, b.allow("x"))
		require.True(t, b.allow("x"))
		require.Empty(t, b.byID, "what works is not watched")
	})
}

func TestBreakerNever(t *testing.T) {
	b := newBreakers(0, 0)
	for range 100 {
		require.True(t, b.allow("x"))
		b.report("x", failing)
	}
}

func TestBreakersAreBounded(t *testing.T) {
	b := newBreakers(5, time.Minute)
	for i := range maxBreakers + 100 {
		b.report(fmt.Sprint(i), failing)
	}
	require.Len(t, b.byID, maxBreakers)
}
