package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
)

// idledEvent is what a receiver reads of a turn's end.
type idledEvent struct {
	ID        string `json:"id"`
	CreatedAt string `json:"createdAt"`
	Data      struct {
		ConversationID string `json:"conversationId"`
		StopReason     string `json:"stopReason"`
	} `json:"data"`
}

// idled is when the turns of each conversation ended and how, as a receiver heard it: each event once, as it came first.
func (r *hookListener) idled(t *testing.T) map[string][]string {
	t.Helper()
	heard, ends := map[string]bool{}, map[string][]string{}
	for _, d := range r.got("session.idled") {
		var event idledEvent
		require.NoError(t, json.Unmarshal([]byte(d.Body), &event))
		require.Equal(t, event.ID, d.Headers["Webhook-Id"])
		if !heard[event.ID] {
			heard[event.ID] = true
			ends[event.Data.ConversationID] = append(ends[event.Data.ConversationID], event.CreatedAt+" "+event.Data.StopReason)
		}
	}
	return ends
}

// hookedFloor is a cluster whose conversations tell receivers of themselves.
type hookedFloor struct {
	*cluster

	token string
	agent string
	acked sync.Map // by conversation: how many turns were answered
}

// askAs asks a node as the tenant's owner.
func (f *hookedFloor) askAs(ctx context.Context, n *nodes.Node, method, path string, body any) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return askURL(ctx, n.URL()+"/api/client/v1"+path, method, body, "Authorization", "Bearer "+f.token)
}

// converse has one turn after another in a conversation, at whichever node runs, until it is told to stop. What fails may have been
// done: the log says.
func (f *hookedFloor) converse(ctx context.Context, id string, stop <-chan struct{}) {
	answered := &atomic.Int64{}
	f.acked.Store(id, answered)
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-stop:
			return
		default:
		}
		all := f.alive()
		if len(all) == 0 {
			continue
		}
		r, err := f.askAs(ctx, all[i%len(all)], "POST", "/agents/responses", object1{"model": f.agent, "input": "go on", "session_id": id})
		if err == nil && r.status == http.StatusOK && isCompleted(r) {
			answered.Add(1)
		}
		if wait(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// isCompleted: a turn in whose course nodes died too often is answered, too, but as incomplete.
func isCompleted(r reply) bool {
	var answer struct {
		Status string `json:"status"`
	}
	return r.decode(&answer) == nil && answer.Status == "completed"
}

// ends is when the turns of a conversation ended and how, as its log says; false while one is under way.
func (f *hookedFloor) ends(ctx context.Context, id string) (ends []string, idle bool, err error) {
	for after := uint64(0); ; {
		r, err := f.askAs(ctx, f.alive()[0], "GET", fmt.Sprintf("/agents/sessions/%s/events?limit=1000&after=%d", id, after), nil)
		if err != nil || r.status != http.StatusOK {
			return nil, false, r.wrong("events of "+id, err)
		}
		var page struct {
			Data []struct {
				Seq       uint64 `json:"seq"`
				Type      string `json:"type"`
				CreatedAt string `json:"created_at"`
				Data      struct {
					StopReason string `json:"stop_reason"`
				} `json:"data"`
			} `json:"data"`
			HasMore bool `json:"has_more"`
		}
		if err = r.decode(&page); err != nil {
			return nil, false, err
		}
		for _, event := range page.Data {
			after = event.Seq
			switch event.Type {
			case "session.status_running", "user.message":
				idle = false
			case "session.status_idle":
				idle = true
				ends = append(ends, event.CreatedAt+" "+event.Data.StopReason)
			}
		}
		if !page.HasMore {
			return ends, idle, nil
		}
	}
}

// TestWebhooksOverKills: each node is killed once while conversations run. Receivers that answer hear of each turn's end that the log
// knows, of no other, and in its order; one that refuses some attempts hears of each, too.
func TestWebhooksOverKills(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hooks.yaml")
	require.NoError(t, os.WriteFile(file, []byte("bootstrap_token: "+houseToken+"\noutbound: {allow: [127.0.0.0/8]}\nlog: {level: warn}\n"+
		"provider_encryption_secret: of-all-three-nodes-0123456789\nwebhook: {retry_schedule_seconds: [1, 1, 1, 2, 2, 2, 4, 4, 8]}\n"), 0o600))
	c := newCluster(t, 3, false, "--config", file, "--cluster-election-timeout", "3s") // a busy machine is no failure
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	tenant := newTenant(t, &process{t: t, listen: c.Nodes()[0].Listen, ops: c.Nodes()[0].Ops}, "ON_PREMISE")
	tenant.scripted(t)
	f := &hookedFloor{cluster: c, token: tenant.token, agent: tenant.newAgent(t, object1{"name": "Teller", "config": object1{"modelKey": "scripted"}})}
	calm, wide, moody := newHookListener(t), newHookListener(t), newHookListener(t)
	moody.every = 3
	for r, events := range map[*hookListener]string{calm: "session.idled", wide: "session.*", moody: "session.idled"} {
		tenant.done(t, "POST", "/webhooks", object1{"url": r.URL, "events": []string{events}})
	}
	var ids []string
	for range 20 {
		ids = append(ids, tenant.done(t, "POST", "/agents/sessions", object1{"agent": f.agent}).text("id"))
	}

	stop := make(chan struct{})
	var talking sync.WaitGroup
	for _, id := range ids {
		talking.Go(func() { f.converse(t.Context(), id, stop) })
	}
	for i, victim := range c.Nodes() {
		many := (i + 1) * 20 // turns are under way everywhere
		require.NoError(t, until(t.Context(), time.Minute, func(context.Context) error {
			if got := len(calm.got("session.idled")); got < many {
				return fmt.Errorf("%d ends were told, not %d", got, many)
			}
			return nil
		}))
		require.NoError(t, victim.Kill())
		require.NoError(t, victim.Start(t.Context()))
	}
	close(stop)
	talking.Wait()

	log, total := map[string][]string{}, 0
	for _, id := range ids {
		require.NoError(t, until(t.Context(), time.Minute, func(ctx context.Context) error {
			ends, idle, err := f.ends(ctx, id)
			if err == nil && !idle {
				err = fmt.Errorf("a turn of %s is under way", id)
			}
			log[id] = ends
			return err
		}))
		answered, _ := f.acked.Load(id)
		count, _ := answered.(*atomic.Int64)
		require.Positive(t, count.Load(), id)
		ended := len(slices.DeleteFunc(slices.Clone(log[id]), func(end string) bool { return !isWhole(end) }))
		require.GreaterOrEqualf(t, int64(ended), count.Load(), "answered turns are in the log of %s: %v", id, log[id])
		total += len(log[id])
	}
	for name, r := range map[string]*hookListener{"calm": calm, "wide": wide, "moody": moody} {
		require.NoErrorf(t, until(t.Context(), time.Minute, func(context.Context) error {
			heard := 0
			for _, ends := range r.idled(t) {
				heard += len(ends)
			}
			if heard < total {
				return fmt.Errorf("%s heard of %d ends, not %d", name, heard, total)
			}
			return nil
		}), "lost")
	}
	require.Equal(t, log, calm.idled(t), "all that the log knows, in its order")
	require.Equal(t, log, wide.idled(t), "all that the log knows, in its order")
	heard := moody.idled(t)
	for _, id := range ids {
		require.ElementsMatch(t, log[id], heard[id], "in any order: what it refused it hears again later")
	}
	t.Logf("%d turns' ends over 3 kills; posts: %d, %d, %d", total,
		len(calm.got("session.idled")), len(wide.got("session.idled")), len(moody.got("session.idled")))
}

func isWhole(end string) bool { return strings.HasSuffix(end, " end_turn") }
