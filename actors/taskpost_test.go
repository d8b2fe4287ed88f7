package actors

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
	"parley/proto/taskpb"
)

// callback is what the address of a task was told.
type callback struct {
	signature string
	body      struct{ TaskID, Status, Error, Timestamp string }
	raw       []byte
}

// listen is the address of a task: it refuses the first so many posts.
func listen(t *testing.T, refuse int) (string, <-chan callback) {
	t.Helper()
	told := make(chan callback, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		heard := callback{signature: r.Header.Get(deliver.SignatureHeader), raw: raw}
		if err == nil {
			err = json.Unmarshal(raw, &heard.body)
		}
		if err != nil || r.Method != http.MethodPost {
			t.Error(r.Method, err)
		}
		if refuse > 0 {
			refuse--
			w.WriteHeader(http.StatusBadGateway)
		}
		told <- heard
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hook?x=y", told
}

func hear(t *testing.T, told <-chan callback) callback {
	t.Helper()
	select {
	case heard := <-told:
		return heard
	case <-time.After(30 * time.Second):
		require.Fail(t, "nobody was told")
		return callback{}
	}
}

func TestCallbackIsSignedAndRepeated(t *testing.T) {
	j := newJournal()
	s := workshop(t, j, func(context.Context, string) (string, error) { return "?Where?", nil })
	url, told := listen(t, 1)
	s.createTask(t, &taskpb.Create{Input: "dig", CallbackUrl: url})
	first := hear(t, told)
	require.Equal(t, taskID, first.body.TaskID)
	require.Equal(t, "waiting_for_input", first.body.Status)
	require.NotEmpty(t, first.body.Timestamp)
	require.Regexp(t, `^t=\d+,v1=[0-9a-f]{64}$`, first.signature)
	again := hear(t, told)
	require.Equal(t, first.raw, again.raw)
	require.Eventually(t, func() bool {
		state, _ := j.task(t)
		return state.GetCallback() == nil
	}, 30*time.Second, 5*time.Millisecond)
}

func TestCallbackToAForbiddenAddressIsGivenUp(t *testing.T) {
	j := newJournal()
	s := workshop(t, j, func(context.Context, string) (string, error) { return "done", nil })
	s.createTask(t, &taskpb.Create{Input: "dig", CallbackUrl: "http://10.1.2.3/hook"})
	require.Eventually(t, func() bool {
		state, _ := j.task(t)
		return state.GetStatus() == taskpb.Status_COMPLETED && state.GetCallback() == nil
	}, 30*time.Second, 5*time.Millisecond)
}
