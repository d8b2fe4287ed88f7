package reads

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/machine"
	"parley/persistence"
	"parley/proto/failurepb"
)

// TestBlobFaults: what storage says becomes what a caller is told.
func TestBlobFaults(t *testing.T) {
	for want, errs := range map[failurepb.Code][]error{
		failurepb.Code_STORAGE_FULL:   {persistence.ErrFull},
		failurepb.Code_STORAGE_FAILED: {persistence.ErrFailed, persistence.ErrCorrupt},
		failurepb.Code_UNAVAILABLE:    {persistence.ErrBusy, persistence.ErrOutcomeUnknown, persistence.ErrStopped},
		failurepb.Code_VALIDATION:     {persistence.ErrInvalid, persistence.ErrTooLarge},
		failurepb.Code_NOT_FOUND:      {persistence.ErrNoChunk, persistence.ErrIncomplete},
		failurepb.Code_ALREADY_EXISTS: {persistence.ErrBlobTaken},
	} {
		for _, err := range errs {
			told, is := errors.AsType[*machine.Failure](BlobFault("store", fmt.Errorf("wrapped: %w", err)))
			require.True(t, is)
			require.Equal(t, want, told.Code)
		}
	}
	require.NoError(t, BlobFault("store", nil))
	require.ErrorIs(t, BlobFault("store", persistence.ErrNotLeader), persistence.ErrNotLeader)
	var failure *machine.Failure
	require.NotErrorAs(t, BlobFault("store", persistence.ErrNotLeader), &failure, "the router asks the owner")
}
