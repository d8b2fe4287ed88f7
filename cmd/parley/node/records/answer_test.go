package records

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors"
	"parley/actors/machine"
	"parley/cmd/parley/node/fault"
	"parley/persistence"
	"parley/proto/failurepb"
)

type lostAnswer struct{ error }

func (lostAnswer) Lost() bool { return true }

// TestFailedWrites: what a write that failed means here and on another node, and to the client in the end: whether it may
// have been done, whether it is made again.
func TestFailedWrites(t *testing.T) {
	for _, tc := range []struct {
		err           error
		undone, again bool
		client        failurepb.Code
	}{
		{persistence.ErrNotLeader, true, true, failurepb.Code_UNAVAILABLE},
		{persistence.ErrUnknownGroup, true, true, failurepb.Code_UNAVAILABLE},
		{persistence.ErrBusy, true, true, failurepb.Code_UNAVAILABLE},
		{persistence.ErrStopped, true, true, failurepb.Code_UNAVAILABLE},
		{persistence.ErrOutcomeUnknown, false, true, failurepb.Code_UNAVAILABLE},
		{context.DeadlineExceeded, false, true, failurepb.Code_UNAVAILABLE},
		{persistence.ErrFull, true, false, failurepb.Code_STORAGE_FULL},
		{persistence.ErrFailed, false, false, failurepb.Code_STORAGE_FAILED},
		{persistence.ErrTooLarge, false, false, failurepb.Code_TOO_LARGE},
		{persistence.ErrInvalid, false, false, failurepb.Code_TOO_LARGE},
		{errors.New("broken"), false, false, failurepb.Code_CODE_UNSPECIFIED},
	} {
		t.Run(tc.err.Error(), func(t *testing.T) {
			here := writeFault(1, fmt.Errorf("write: %w", tc.err))
			there := here
			var notOwner *actors.NotOwnerError
			if !errors.As(here, &notOwner) { // which travels by itself
				there = fault.Decode(fault.Encode(here))
			}
			for _, err := range []error{here, there} {
				require.Equal(t, tc.undone, Undone(err))
				require.Equal(t, tc.again, askAgain(err))
				var failure *machine.Failure
				if errors.As(directoryFault("write a record", err), &failure) {
					require.Equal(t, tc.client, failure.Code)
					require.Empty(t, failure.Details)
				} else {
					require.Equal(t, failurepb.Code_CODE_UNSPECIFIED, tc.client)
				}
			}
		})
	}
	require.NoError(t, writeFault(1, nil))
	require.True(t, askAgain(lostAnswer{errors.New("gone")}))
	require.False(t, Undone(lostAnswer{errors.New("gone")}))
	moved := fmt.Errorf("%w: %w", errDirectoryMoved, &actors.NotOwnerError{})
	require.True(t, askAgain(moved))
	require.False(t, Undone(moved), "who was asked may have done it")
	require.True(t, Undone(&actors.NotOwnerError{}))
}
