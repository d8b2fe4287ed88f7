package actors

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
	"parley/actors/run"
	"parley/proto/runpb"
)

// callbackMessage is the body of a callback as its receiver reads it.
type callbackMessage struct {
	ID             string              `json:"id"`
	Event          string              `json:"event"`
	CreatedAt      string              `json:"createdAt"`
	RunID          string              `json:"runId"`
	TenantID       string              `json:"tenantId"`
	ProjectID      string              `json:"projectId"`
	ConversationID string              `json:"conversationId"`
	Data           callbackMessageData `json:"data"`
}

type callbackMessageData struct {
	RunID          string `json:"runId"`
	ConversationID string `json:"conversationId"`
	AgentKey       string `json:"agentKey"`
	Status         string `json:"status"`
	Error          *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// called is what the address of a run was told.
type called struct {
	header http.Header
	body   callbackMessage
	raw    []byte
}

// listenRuns is the address of a run, on another host than the one it is found under: it refuses the first so many posts.
func listenRuns(t *testing.T, refuse int64) (string, <-chan called) {
	t.Helper()
	told := make(chan called, 16)
	var left atomic.Int64
	left.Store(refuse)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		heard := called{header: r.Header, raw: raw}
		if err == nil {
			err = json.Unmarshal(raw, &heard.body)
		}
		if err != nil || r.Method != http.MethodPost {
			t.Error(r.Method, err)
		}
		if left.Add(-1) >= 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
		told <- heard
	}))
	t.Cleanup(server.Close)
	moved := httptest.NewServer(http.RedirectHandler(server.URL+"/moved", http.StatusTemporaryRedirect))
	t.Cleanup(moved.Close)
	return moved.URL + "/hook?x=y", told
}

func hearRun(t *testing.T, told <-chan called) called {
	t.Helper()
	select {
	case heard := <-told:
		return heard
	case <-time.After(30 * time.Second):
		require.Fail(t, "nobody was told")
		return called{}
	}
}

func (o *office) startWithCallback(t *testing.T, url string) {
	t.Helper()
	o.session(t, testID)
	command := createRun(testID, "dig")
	command.GetCreate().CallbackUrl, command.GetCreate().SealedSecret = url, []byte("box")
	_, err := o.onRun(t.Context(), "run_1", command)
	require.NoError(t, err)
}

func (j *journal) callsOver(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		state := j.run("run_1")
		return state.GetSettled() && len(state.GetCallback().GetCalls()) == 0
	}, 30*time.Second, 5*time.Millisecond)
}

func TestRunCallbackIsSignedRedirectedAndRepeated(t *testing.T) {
	j := newJournal()
	o := newOffice(t, j, echo)
	url, told := listenRuns(t, 1)
	o.startWithCallback(t, url)
	first := hearRun(t, told)
	require.Regexp(t, `^evt_[0-9a-f]{32}$`, first.body.ID)
	_, err := time.Parse("2006-01-02T15:04:05.000Z", first.body.CreatedAt)
	require.NoError(t, err)
	first.body.CreatedAt = ""
	require.Equal(t, callbackMessage{
		ID: first.body.ID, Event: "agent_run.succeeded", RunID: "run_1", TenantID: "t", ProjectID: "p", ConversationID: testID,
		Data: callbackMessageData{RunID: "run_1", ConversationID: testID, AgentKey: "a", Status: "succeeded"},
	}, first.body)
	require.Equal(t, "service-runs/1.0", first.header.Get("User-Agent"))
	require.Equal(t, "application/json", first.header.Get("Content-Type"))
	require.Equal(t, "agent_run.succeeded", first.header.Get("X-Service-Event"))
	require.Equal(t, first.body.ID, first.header.Get("X-Service-Event-Id"))
	signature := first.header.Get("X-Service-Signature")
	parts := regexp.MustCompile(`^t=(\d+),v1=[0-9a-f]{64}$`).FindStringSubmatch(signature)
	require.Len(t, parts, 2, signature)
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	require.NoError(t, err)
	secret := "opened box of " + runpb.SecretAbout("run_1")
	require.Equal(t, deliver.Sign(secret, first.raw, time.Unix(seconds, 0)), signature)
	again := hearRun(t, told)
	require.Equal(t, first.raw, again.raw)
	require.Equal(t, first.header.Get("X-Service-Event-Id"), again.header.Get("X-Service-Event-Id"))
	j.callsOver(t)
	require.Empty(t, told)
}

func TestRunCallbackTellsOfPausesAndCancel(t *testing.T) {
	j := newJournal()
	o := newOffice(t, j, func(context.Context, string) (string, error) { return "?Where?", nil })
	url, told := listenRuns(t, 0)
	o.startWithCallback(t, url)
	require.Equal(t, "agent_run.requires_action", hearRun(t, told).body.Event)
	o.cancelRun(t, "run_1")
	require.Equal(t, "agent_run.canceled", hearRun(t, told).body.Event)
	j.callsOver(t)
}

func TestRunCallbackToAForbiddenAddressIsGivenUp(t *testing.T) {
	j := newJournal()
	o := newOffice(t, j, echo)
	o.startWithCallback(t, "http://10.1.2.3/hook")
	j.callsOver(t)
	require.Equal(t, runpb.Status_SUCCEEDED, j.run("run_1").GetStatus())
}

// A node dies at every moment of a callback's life: the next one makes it, with the same event, and no event is lost.
func TestRunCallbackSurvivesItsNode(t *testing.T) {
	t.Parallel()
	limits := run.DefaultLimits() // an attempt counts as lost after a minute: the next owner does not wait for that
	for appends := range 16 {
		t.Run(strconv.Itoa(appends), func(t *testing.T) {
			t.Parallel()
			j := newJournal()
			first := newOfficeUnder(t, j, echo, limits)
			url, told := listenRuns(t, 0)
			first.session(t, testID)
			var left atomic.Int64
			left.Store(int64(appends))
			j.watch = func(string) {
				if left.Add(-1) == 0 {
					go first.Disown(testShard)
				}
			}
			create := func(o *office) error {
				command := createRun(testID, "dig")
				command.CommandId = "create"
				command.GetCreate().CallbackUrl, command.GetCreate().SealedSecret = url, []byte("box")
				_, err := o.onRun(t.Context(), "run_1", command)
				return err
			}
			if left.Load() == 0 {
				first.Disown(testShard)
			}
			if err := create(first); err != nil {
				requireNotOwner(t, err, 1)
			} else {
				require.Eventually(t, func() bool {
					state := j.run("run_1")
					return left.Load() <= 0 || state.GetSettled() && len(state.GetCallback().GetCalls()) == 0
				}, 30*time.Second, time.Millisecond)
			}
			first.Disown(testShard)
			second := newOfficeUnder(t, j, echo, limits)
			second.Own(testShard, 2)
			require.NoError(t, create(second), "as the router does")
			j.callsOver(t)
			require.Equal(t, runpb.Telling_DELIVERED, j.run("run_1").GetCallback().GetTold().GetStatus())
			event := j.run("run_1").GetCallback().GetTold().GetEventId()
			require.NotEmpty(t, told)
			for len(told) > 0 {
				heard := <-told
				require.Equal(t, []string{event, "agent_run.succeeded"}, []string{heard.body.ID, heard.body.Event})
			}
		})
	}
}

// A target may ask to be left alone, and say that it is gone.
func TestRunCallbackRespectsItsTarget(t *testing.T) {
	for name, status := range map[string]int{"retry_after": http.StatusServiceUnavailable, "gone": http.StatusGone} {
		t.Run(name, func(t *testing.T) {
			j := newJournal()
			o := newOffice(t, j, echo)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(status)
			}))
			t.Cleanup(server.Close)
			o.startWithCallback(t, server.URL)
			var callback *runpb.Callback
			require.Eventually(t, func() bool {
				callback = j.run("run_1").GetCallback()
				return callback.GetTold().GetError() != ""
			}, 30*time.Second, 5*time.Millisecond)
			if status == http.StatusGone {
				require.Equal(t, runpb.Telling_GIVEN_UP, callback.GetTold().GetStatus())
				require.Empty(t, callback.GetCalls())
				return
			}
			require.WithinDuration(t, time.Now().Add(10*time.Minute), time.UnixMilli(callback.GetCalls()[0].GetNextAt()), time.Minute)
		})
	}
}
