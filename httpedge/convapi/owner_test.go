package convapi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// TestOwnerIsNamed: whichever node is asked, the one that owns the conversation is named; what several nodes answer
// together is answered by the one that was asked.
func TestOwnerIsNamed(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "", 4))
	k.store.Put(endpointtest.Talk(conv2, "", 4))
	k.store.Node = "n3"
	k.runtime.OnAsk = func(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
		endpoint.ServedBy(ctx, "n2")
		if command.GetSend() != nil {
			return nil, fail(failurepb.Code_CONVERSATION_BUSY, "a turn is running")
		}
		return stateReply(endpointtest.Talk(conv1, "", 4).State), nil
	}
	for _, c := range []struct{ method, path, body, by string }{
		{"GET", "/agents", "", "n1"},
		{"GET", "/conversations", "", "n1"},
		{"POST", "/conversations", `{"agentId":"assistant"}`, "n2"},
		{"GET", "/conversations/" + conv1, "", "n3"},
		{"GET", "/conversations/" + conv1 + "/messages", "", "n3"},
		{"GET", "/conversations/" + conv1 + "/events", "", "n3"},
		{"PATCH", "/conversations/" + conv1, `{"title":"x"}`, "n2"},
		{"POST", "/conversations/" + conv1 + "/cancel", "", "n2"},
		{"POST", "/conversations/" + conv1 + "/messages", `{"message":"x"}`, "n2"},
		{"DELETE", "/conversations/" + conv1, "", "n2"},
		{"POST", "/conversations/bulk-delete", `{"ids":["` + conv1 + `","` + conv2 + `"]}`, "n1"},
	} {
		require.Equal(t, c.by, k.do(c.method, c.path, c.body).header.Get("X-Served-By"), "%s %s", c.method, c.path)
	}
}

func TestOldReadsOnDemand(t *testing.T) {
	k := serve(t)
	k.store.Put(endpointtest.Talk(conv1, "", 4))
	k.store.Err = fail(failurepb.Code_UNAVAILABLE, "the conversation has no owner right now")
	for _, path := range []string{"", "/messages", "/events"} {
		path = "/conversations/" + conv1 + path
		refused := k.refused(503, "unavailable", "GET", path, "")
		require.Equal(t, "1", refused.header.Get("Retry-After"))
		k.refused(503, "unavailable", "GET", path, "", "X-Read-Consistency", "fresh")
		k.refused(400, "VALIDATION_ERROR", "GET", path, "", "X-Read-Consistency", "whatever")
		old := k.do("GET", path, "", "X-Read-Consistency", "stale")
		require.Equal(t, 200, old.status, path)
		require.Equal(t, "true", old.header.Get("X-Read-Stale"))
		require.Equal(t, "n1", old.header.Get("X-Served-By"))
		k.store.Err = nil
		fresh := k.do("GET", path, "", "X-Read-Consistency", "stale")
		require.Empty(t, fresh.header.Get("X-Read-Stale"), "what is fresh is not said to be old")
		k.store.Err = fail(failurepb.Code_UNAVAILABLE, "no owner")
	}
	k.refused(400, "VALIDATION_ERROR", "GET", "/conversations?userId=u", "", "X-Read-Consistency", "whatever")
	// A stream is live or not at all.
	k.refused(503, "unavailable", "GET", "/conversations/"+conv1+"/events/stream", "", "X-Read-Consistency", "stale")
}
