package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
	"parley/cmd/parley/node"
)

// clusterAgents are scripted agents with paces that stories need.
const clusterAgents = `
agents:
  - id: slow
    model: {provider: scripted, script: {tokens: 60, token_interval: 50ms}}
  - id: brisk
    model: {provider: scripted, script: {tokens: 20, token_interval: 10ms}}
  - id: quick
    model: {provider: scripted, script: {tokens: 5}}
`

// cluster is real nodes on this machine.
type cluster struct{ *nodes.Fleet }

// newCluster prepares nodes that a test starts. With partitions each lives in a network of its own, which takes root.
func newCluster(t *testing.T, count int, partitions bool, flags ...string) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	binary, err := builtBinary()
	require.NoError(t, err)
	return newClusterOf(t, binary, count, partitions, flags...)
}

// newClusterOf is newCluster with another program in the binary's place.
func newClusterOf(t *testing.T, binary string, count int, partitions bool, flags ...string) *cluster {
	t.Helper()
	if partitions {
		if err := nodes.Permitted(t.Context()); err != nil {
			t.Skip(err)
		}
	}
	c, err := launchable(t.Context(), nodes.Config{
		Binary: binary, Dir: t.TempDir(), Count: count, Network: partitions, Flags: flags,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(40))
		}
		require.NoError(t, c.Stop())
	})
	return c
}

// launchable is newCluster for those who have no test at hand.
func launchable(ctx context.Context, config nodes.Config) (*cluster, error) {
	file := filepath.Join(config.Dir, "parley.yaml")
	if err := os.WriteFile(file, []byte(clusterAgents), 0o600); err != nil {
		return nil, err
	}
	config.Flags = append([]string{"--config", file}, config.Flags...)
	config.ReadyWithin = time.Minute
	fleet, err := nodes.New(ctx, config)
	if err != nil {
		return nil, err
	}
	return &cluster{Fleet: fleet}, nil
}

// reply is what a node answered.
type reply struct {
	status int
	by     string // X-Served-By
	header http.Header
	text   string
}

// wrong says what came in place of what was wanted.
func (r reply) wrong(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %d by %q, Retry-After %q: %.500s", what, r.status, r.by, r.header.Get("Retry-After"), r.text)
}

func (r reply) decode(into any) error {
	if err := json.Unmarshal([]byte(r.text), into); err != nil {
		return fmt.Errorf("%w in %d %s", err, r.status, r.text)
	}
	return nil
}

// plainClient keeps no connections: the process at an address may be another one next time.
var plainClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // it has no state

// ask makes one request of a node's API. An error means that there is no whole answer: what was asked may be done.
func ask(ctx context.Context, n *nodes.Node, method, path string, body any, headers ...string) (reply, error) {
	return askURL(ctx, n.URL()+"/api/agents"+path, method, body, headers...)
}

func askURL(ctx context.Context, url, method string, body any, headers ...string) (reply, error) {
	var reader io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return reply{}, err
		}
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return reply{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := plainClient.Do(request)
	if err != nil {
		return reply{}, err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return reply{}, err
	}
	return reply{response.StatusCode, response.Header.Get("X-Served-By"), response.Header, string(text)}, nil
}

// glance reads a conversation's head and does not wait long for it.
func glance(ctx context.Context, n *nodes.Node, id string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return ask(ctx, n, "GET", "/conversations/"+id+"?limit=1", nil)
}

// insist asks until the answer has a status, or ctx ends.
func insist(ctx context.Context, n *nodes.Node, want int, method, path string, body any, headers ...string) (reply, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, 20*time.Second)
		r, err := ask(attempt, n, method, path, body, headers...)
		cancel()
		if err == nil && r.status == want {
			return r, nil
		}
		if waitErr := wait(ctx, 20*time.Millisecond); waitErr != nil {
			return r, errors.Join(r.wrong(fmt.Sprintf("%s %s at %s, wanted %d", method, path, n.Name, want), err), waitErr)
		}
	}
}

// wait is the pace of those who look again.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// until looks again until a look finds nothing wrong any more.
func until(ctx context.Context, limit time.Duration, look func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		wrong := look(ctx)
		if wrong == nil {
			return nil
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("after %s: %w", limit, wrong)
		}
	}
}

// create makes a conversation at a node.
func create(ctx context.Context, n *nodes.Node, agent string) (string, error) {
	r, err := insist(ctx, n, http.StatusCreated, "POST", "/conversations", map[string]string{"agentId": agent, "userId": "ada"})
	if err != nil {
		return "", err
	}
	var made created
	err = r.decode(&made)
	return made.Conversation.ID, err
}

// head is what reading a conversation says of its state.
type head struct {
	Conversation struct {
		Runtime struct {
			Status       string `json:"status"`
			LastEventSeq uint64 `json:"lastEventSeq"`
		} `json:"runtime"`
	} `json:"conversation"`
}

// eventLog reads a conversation's whole log at a node.
func eventLog(ctx context.Context, n *nodes.Node, id string) ([]wireEvent, error) {
	var all []wireEvent
	for {
		after := uint64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		r, err := insist(ctx, n, http.StatusOK, "GET", fmt.Sprintf("/conversations/%s/events?limit=1000&after=%d", id, after), nil)
		if err != nil {
			return nil, err
		}
		var page eventPage
		if err := r.decode(&page); err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		if !page.HasMore {
			return all, nil
		}
	}
}

// owner asks any running node for the owner of a conversation.
func (c *cluster) owner(ctx context.Context, id string) (*nodes.Node, error) {
	var found *nodes.Node
	err := until(ctx, time.Minute, func(ctx context.Context) error {
		for _, n := range c.alive() {
			r, err := glance(ctx, n, id)
			if err == nil && r.status == http.StatusOK {
				if found = c.Node(r.by); found != nil {
					return nil
				}
			}
		}
		return fmt.Errorf("no owner of %s", id)
	})
	return found, err
}

// alive are the nodes that run and are not frozen.
func (c *cluster) alive() []*nodes.Node {
	return slices.DeleteFunc(slices.Clone(c.Nodes()), func(n *nodes.Node) bool { return !n.Running() || n.Paused() })
}

// others are the running nodes besides one.
func (c *cluster) others(n *nodes.Node) []*nodes.Node {
	return slices.DeleteFunc(c.alive(), func(other *nodes.Node) bool { return other == n })
}

// sameLog reads a conversation's log at every running node; it must be the same everywhere.
func (c *cluster) sameLog(ctx context.Context, id string) ([]wireEvent, error) {
	var first []wireEvent
	for i, n := range c.alive() {
		events, err := eventLog(ctx, n, id)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = events
			continue
		}
		if got, want := fmt.Sprint(events), fmt.Sprint(first); got != want {
			return nil, fmt.Errorf("log of %s at %s differs from that at %s:\n%s\n%s", id, n.Name, c.alive()[0].Name, got, want)
		}
	}
	return first, nil
}

// idle waits until no turn runs in a conversation.
func (c *cluster) idle(ctx context.Context, id string) error {
	return until(ctx, time.Minute, func(ctx context.Context) error {
		last := errors.New("no node runs")
		for _, n := range c.alive() {
			r, err := glance(ctx, n, id)
			var h head
			if err == nil {
				err = r.decode(&h)
			}
			if err == nil && r.status == http.StatusOK && h.Conversation.Runtime.Status == "idle" {
				return nil
			}
			last = r.wrong(n.Name+" on "+id, err)
		}
		return last
	})
}

// clusterStatus is the cluster as a node sees it.
func clusterStatus(ctx context.Context, n *nodes.Node) (*node.Status, error) {
	r, err := askURL(ctx, n.OpsURL()+"/v1/status", "GET", nil)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, fmt.Errorf("status of %s: %d %s", n.Name, r.status, r.text)
	}
	found := &node.Status{}
	return found, r.decode(found)
}

// settled says what is not yet as it should be once nothing changes any more, as every running node sees it.
func (c *cluster) settled(ctx context.Context, voters int) error {
	alive := c.alive()
	if len(alive) == 0 {
		return errors.New("no node runs")
	}
	for _, n := range alive {
		found, err := clusterStatus(ctx, n)
		if err == nil {
			err = placed(found, alive, voters)
		}
		if err != nil {
			return fmt.Errorf("as %s sees it: %w", n.Name, err)
		}
	}
	return nil
}

// placed: every conversation shard has that many voters, on running nodes, and an owner, and owners are spread evenly.
func placed(found *node.Status, alive []*nodes.Node, voters int) error {
	leads := map[string]int{}
	for _, n := range alive {
		leads[n.Name] = 0
	}
	for _, s := range found.Shards {
		if _, runs := leads[s.Owner]; !runs {
			return fmt.Errorf("shard %d: owner is %q", s.Shard, s.Owner)
		}
		leads[s.Owner]++
		if s.Shard != 0 && len(s.Voters) != voters {
			return fmt.Errorf("shard %d: voters are %v, learners %v", s.Shard, s.Voters, s.Learners)
		}
		for _, v := range s.Voters {
			if _, runs := leads[v]; !runs {
				return fmt.Errorf("shard %d: voter %s does not run", s.Shard, v)
			}
		}
	}
	fewest, most := len(found.Shards), 0
	for _, n := range leads {
		fewest, most = min(fewest, n), max(most, n)
	}
	if len(found.Shards) == 0 || most-fewest > 1 { // as long as it is more the loop goes on
		return fmt.Errorf("owners are not spread: %v", leads)
	}
	return nil
}

func (c *cluster) awaitSettled(ctx context.Context, voters int) error {
	return until(ctx, 90*time.Second, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return c.settled(ctx, voters)
	})
}
