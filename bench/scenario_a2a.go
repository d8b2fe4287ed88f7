package bench

import (
	"bytes"
	"context"
	"fmt"
)

// runA2A measures message/send of A2A against what the conversation server takes for the same work, as runResponses does.
func runA2A(ctx context.Context, o *Options, live *progress) (*Report, error) {
	return overSend(ctx, o, live, "message/send", func(api *client, session string) error {
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"role":"user","messageId":"m",`)
		if session != "" {
			body = fmt.Appendf(body, `"contextId":%q,`, session)
		}
		body = append(body, `"parts":[{"kind":"text","text":"ping"}]}}}`...)
		return api.call("POST", "/a2a/"+o.Agent, body, 200, taskCompleted)
	})
}

// taskCompleted checks that a task is complete: what goes wrong is 200, too.
func taskCompleted(answer []byte) error {
	if !bytes.Contains(answer, []byte(`"state":"completed"`)) {
		return &callError{Status: 200, Code: "task is not completed"}
	}
	return nil
}
