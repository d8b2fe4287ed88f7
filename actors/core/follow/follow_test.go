package follow_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/follow"
)

type saying struct {
	error
	yes bool
}

func (s saying) Lost() bool        { return s.yes }
func (s saying) Unavailable() bool { return s.yes }

type moved struct{ error }

func (moved) NotOwner() (shard uint32, epoch uint64) { return 1, 2 }

func TestErrors(t *testing.T) {
	plain := errors.New("broken")
	for _, is := range []func(error) bool{follow.IsLost, follow.IsUnavailable} {
		require.True(t, is(fmt.Errorf("ask: %w", saying{plain, true})))
		require.False(t, is(saying{plain, false}))
		require.False(t, is(plain))
		require.False(t, is(nil))
	}
	require.True(t, follow.IsNotOwner(fmt.Errorf("ask: %w", moved{plain})))
	require.False(t, follow.IsNotOwner(saying{plain, true}))
}
