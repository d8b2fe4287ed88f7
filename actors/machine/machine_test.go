package machine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

func TestFailure(t *testing.T) {
	failure := machine.Fail(failurepb.Code_CONVERSATION_BUSY, "turn %d is running", 7).
		With("activeRunId", "run_1").With("since", 5)
	require.Equal(t, "turn 7 is running", failure.DefaultText())
	require.Equal(t, "CONVERSATION_BUSY: turn 7 is running", failure.Error())
	details, err := json.Marshal(failure.Details)
	require.NoError(t, err)
	require.JSONEq(t, `{"activeRunId":"run_1","since":5}`, string(details))

	var found *machine.Failure
	require.ErrorAs(t, fmt.Errorf("ask owner: %w", failure), &found)
	require.Same(t, failure, found)
	require.NotErrorAs(t, errors.New("broken"), &found)
}

func TestFailureWithoutDetails(t *testing.T) {
	require.Nil(t, machine.Fail(failurepb.Code_NOT_FOUND, "100%% gone").Details)
	require.Equal(t, "100% gone", machine.Fail(failurepb.Code_NOT_FOUND, "100%% gone").DefaultText())
}
