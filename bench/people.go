package bench

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/bench/standin"
)

// peopleAgents is the configuration of nodes whose scenarios are about people, money and files.
//
//go:embed people.yaml
var peopleAgents []byte

// peopleSettings are the settings of nodes that talk to a stand-in.
func peopleSettings(world *standin.Server) []byte {
	return fmt.Appendf(nil, string(peopleAgents), world.ModelURL(), world.ToolURL("pay"))
}

// account is the part of a conversation's state that the scenarios with people and money read.
type account struct {
	Conversation struct {
		Runtime struct {
			Status     string `json:"status"`
			StopReason string `json:"stopReason"`
		} `json:"runtime"`
		SpentUSD float64 `json:"spentUsd"`
		Budget   struct {
			MaxCostUSD float64 `json:"maxCostUsd"`
		} `json:"budget"`
	} `json:"conversation"`
	Pending []struct {
		ID string `json:"id"`
	} `json:"pendingActions"`
}

// nodeClient sends requests to any node, for scenarios that go on while nodes are killed.
type nodeClient struct {
	*client
}

// any tries one node after another, from host on, until one gives the expected response or a permanent refusal. It
// returns the number of attempts. The request must be idempotent.
func (a nodeClient) any(host int, r *request) (attempts int, err error) {
	again := newRetry(cmp.Or(a.options.RetryFor, 10*time.Second))
	for attempts = 1; ; attempts++ {
		_, err = a.attempt(host%len(a.hosts), r)
		if err == nil || !again.again(err) {
			return attempts, err
		}
		again.pause(len(a.hosts))
		host++
	}
}

// read reads a conversation's state, with its newest message.
func (a nodeClient) read(host int, id string) (account, error) {
	var found account
	_, err := a.any(host, &request{method: "GET", path: "/conversations/" + id + "?limit=1", want: 200, read: func(text []byte) error {
		found = account{}
		return json.Unmarshal(text, &found)
	}})
	if err != nil {
		err = fmt.Errorf("read %s: %w", id, err)
	}
	return found, err
}

// awaitIdle waits until no turn runs in a conversation.
func (a nodeClient) awaitIdle(ctx context.Context, host int, id string) (account, error) {
	deadline := time.Now().Add(a.options.Timeout)
	for {
		found, err := a.read(host, id)
		if err != nil || found.Conversation.Runtime.Status != "running" {
			return found, err
		}
		if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(5*time.Millisecond)) {
			return found, fmt.Errorf("a turn of %s does not end", id)
		}
	}
}

// createWith creates a conversation with an agent and additional members in the request.
func (a nodeClient) createWith(agent string, more map[string]any) (string, error) {
	body := map[string]any{"agentId": agent, "userId": a.options.User}
	for name, value := range more {
		body[name] = value
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("create conversation: %w", err)
	}
	return a.create(encoded)
}

// logged is one event as returned by the API.
type logged struct {
	Seq   uint64 `json:"seq"`
	Type  string `json:"type"`
	RunID string `json:"run_id"`
	Data  struct {
		Content string `json:"content"`
		Usage   *struct {
			CostUSD float64 `json:"cost_usd"`
			Tokens  int64   `json:"total_tokens"`
		} `json:"usage"`
		SpentUSD    float64 `json:"spent_usd"`
		ReservedUSD float64 `json:"reserved_usd"`
		Budget      *struct {
			MaxCostUSD float64 `json:"maxCostUsd"`
		} `json:"budget"`
	} `json:"data"`
}

// log reads a conversation's whole log.
func (a nodeClient) log(host int, id string) ([]logged, error) {
	var all []logged
	for {
		after := uint64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		var page struct {
			Events  []logged `json:"events"`
			HasMore bool     `json:"hasMore"`
		}
		_, err := a.any(host, &request{
			method: "GET", path: fmt.Sprintf("/conversations/%s/events?limit=1000&after=%d", id, after), want: 200,
			read: func(text []byte) error { return json.Unmarshal(text, &page) },
		})
		if err != nil {
			return nil, fmt.Errorf("read log of %s: %w", id, err)
		}
		all = slices.Concat(all, page.Events)
		if !page.HasMore {
			return all, nil
		}
	}
}

// message returns the request body of a message.
func message(text string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"message":%q,"stream":false}`, text)
	return b.Bytes()
}

// ownerOfAny returns the node of this run that serves a conversation.
func (a nodeClient) ownerOfAny(id string) (string, error) {
	failed := errors.New("no node was asked")
	for host := range a.hosts {
		var by string
		by, failed = a.attempt(host, &request{method: "GET", path: "/conversations/" + id + "?limit=1", want: 200})
		if failed == nil {
			return by, nil
		}
	}
	return "", fmt.Errorf("find owner of %s: %w", id, failed)
}
