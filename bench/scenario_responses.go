package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
)

// runResponses measures POST /agents/responses against what the conversation server takes for the same work: one that
// continues a session against a message to a conversation, one that makes a session against both requests that it stands
// for. All callers have conversations of their own, and continue as sessions the ones that they send to: what is there is the same for both.
func runResponses(ctx context.Context, o *Options, live *progress) (*Report, error) {
	return overSend(ctx, o, live, "response", func(api *client, session string) error {
		body := fmt.Appendf(nil, `{"model":%q,"input":"ping"`, o.Agent)
		if session != "" {
			body = fmt.Appendf(body, `,"session_id":%q`, session)
		}
		return api.call("POST", "/agents/responses", append(body, '}'), 200, answered)
	})
}

// overSend measures what has an agent answer over the Client API, in a session or without one, against the conversation server.
func overSend(
	ctx context.Context, o *Options, live *progress, name string, ask func(api *client, session string) error,
) (*Report, error) {
	server, err := newClient(o)
	if err != nil {
		return nil, err
	}
	defer server.close()
	api, err := newClientAPI(o)
	if err != nil {
		return nil, err
	}
	defer api.close()
	// Each caller uses its own in turn, so that none grows much.
	each := max(cmp.Or(o.Records, 4*o.Concurrency)/o.Concurrency, 1)
	ids, err := conversations(ctx, server, live, each*o.Concurrency)
	if err != nil {
		return nil, err
	}
	message := []byte(`{"message":"ping","stream":false}`)
	send := func(id string) error {
		return server.call("POST", "/conversations/"+id+"/messages", message, 200, completed)
	}
	create := server.createBody()
	rivals := [2][]*rival{{
		{name: "send", op: func(caller, n int) error { return send(ids[caller*each+n%each]) }},
		{name: name, op: func(caller, n int) error { return ask(api, ids[caller*each+n%each]) }},
	}, {
		{name: "create and send", op: func(int, int) error {
			id, failed := server.create(create)
			if failed != nil {
				return failed
			}
			return send(id)
		}},
		{name: name + " in a new session", op: func(int, int) error { return ask(api, "") }},
	}}
	// One pair after the other: the compactions that a slice causes run in the next one, and creating causes more.
	half := *o
	half.Duration, half.WarmUp = o.Duration/2, o.WarmUp/2
	for _, pair := range rivals {
		if err = contest(ctx, &half, live, pair); err != nil {
			return nil, err
		}
	}
	report := contestReport(o, slices.Concat(rivals[0], rivals[1]))
	for _, pair := range rivals {
		pair[1].against(report, pair[0])
	}
	return report, nil
}

// answered checks that a response is complete.
func answered(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"status":"completed"`)) {
		return &callError{Status: 200, Code: "response is not completed"}
	}
	return nil
}
