package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
	"parley/bench/standin"
)

// toolWorkers is an agent whose tools do something that must not be done twice, and one that may.
const toolWorkers = `
outbound: {allow: [127.0.0.0/8]}
agents:
  - id: worker
    model: {provider: openai, name: standin, base_url: "%[1]s", api_key: none}
    tools:
      - {name: pay, url: "%[2]s", description: Pays.}
      - {name: mail, url: "%[3]s", description: Sends a letter.}
      - {name: note, url: "%[4]s", description: Writes a note., idempotent: true}
      - {name: wire, url: "%[5]s", description: Wires money., approval: always}
`

// idempotentTool may run again when nobody knows whether it ran.
const idempotentTool = "note"

// crashPlans are the ways in which turns call their three tools: together, one after another, and both; some wait for a
// person in the middle of it.
func crashPlans() []string {
	return []string{
		"pay,mail,note", "note|pay|mail", "note,pay|mail", "mail|pay,note", "pay|note,mail", "pay,mail|pay", "wire,note|pay", "note|wire,pay",
	}
}

// turnsAtOnce is how many conversations have a turn when the node is killed.
const turnsAtOnce = 4

// crashes is one run of TestToolCrashes.
type crashes struct {
	*cluster
	world  *standin.Server
	random *rand.Rand
	turn   time.Duration // what a turn takes at best that nothing happens to
	tally  struct{ turns, recovered, approved, doubts, allowed, answered int }
}

// crashTurn is a turn that is under way when its node dies.
type crashTurn struct {
	id, name, plan string
	again          map[string]int // calls that a person said may be run again, by number
	denied         map[string]bool
}

// TestToolCrashes kills nodes (kill -9) at random points of turns with three tool calls, and holds what the tools did
// against what they were to do. No work of a tool that is not idempotent is done twice unless a person said so, tools
// that are idempotent never ask, and every turn comes to a legal end. PARLEY_TOOL_KILLS=1000 is the long form.
func TestToolCrashes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts and kills real processes for seconds")
	}
	for name, form := range map[string]struct{ nodes, kills int }{"one_node": {1, 20}, "three_nodes": {3, 6}} {
		t.Run(name, func(t *testing.T) {
			kills := form.kills
			if text := os.Getenv("PARLEY_TOOL_KILLS"); text != "" {
				var err error
				kills, err = strconv.Atoi(text)
				require.NoError(t, err)
			}
			c := newCrashes(t, form.nodes)
			began := time.Now()
			for n := range kills {
				require.NoErrorf(t, c.round(t.Context(), fmt.Sprintf("k%d", n)), "kill %d", n)
			}
			t.Logf("%d kills in %v, a turn takes %v: %+v", kills, time.Since(began).Round(time.Second), c.turn.Round(time.Millisecond), c.tally)
			require.Positive(t, c.tally.recovered, "no kill hit a turn")
		})
	}
}

func newCrashes(t *testing.T, count int) *crashes {
	t.Helper()
	binary, err := builtBinary()
	require.NoError(t, err)
	const toolPace = 15 * time.Millisecond
	world, err := standin.Start(t.Context(), toolPace)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, world.Close()) })
	dir := t.TempDir()
	file := filepath.Join(dir, "parley.yaml")
	config := fmt.Sprintf(toolWorkers, world.ModelURL(), world.ToolURL("pay"), world.ToolURL("mail"), world.ToolURL("note"), world.ToolURL("wire"))
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	fleet, err := nodes.New(t.Context(), nodes.Config{
		Binary: binary, Dir: dir, Count: count, Alone: count == 1, ReadyWithin: time.Minute, Flags: []string{"--config", file, "--log-level", "warn"},
	})
	require.NoError(t, err)
	c := &crashes{cluster: &cluster{Fleet: fleet}, world: world, random: rand.New(rand.NewPCG(seedOf(t), 2))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(60))
		}
		require.NoError(t, c.Stop())
	})
	require.NoError(t, c.Start(t.Context()))
	if count > 1 {
		require.NoError(t, c.awaitSettled(t.Context(), count))
	}
	for n := range 3 {
		require.NoError(t, c.unharmed(t.Context(), fmt.Sprint("unharmed", n)))
	}
	return c
}

// unharmed runs a turn that nothing happens to: what must be true of the killed ones is true of it, and it says how
// long one takes at best, so that kills do not come too late.
func (c *crashes) unharmed(ctx context.Context, name string) error {
	turn, err := c.begin(ctx, name, "note|pay|mail")
	if err != nil {
		return err
	}
	began := time.Now()
	if err = c.send(ctx, turn); err != nil {
		return err
	}
	if took := time.Since(began); c.turn == 0 || took < c.turn {
		c.turn = took
	}
	return c.ends(ctx, turn)
}

func (c *crashes) begin(ctx context.Context, name, plan string) (*crashTurn, error) {
	id, err := create(ctx, c.alive()[0], "worker")
	return &crashTurn{id: id, name: name, plan: plan, again: map[string]int{}, denied: map[string]bool{}}, err
}

// send sends the message, and approves what the turn then waits for. That there is no answer is fine: the node was
// killed.
func (c *crashes) send(ctx context.Context, turn *crashTurn) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	text := fmt.Sprintf("case=%s say=3 pace=2ms tools=%s", turn.name, turn.plan)
	at := c.Nodes()[len(turn.name)%len(c.Nodes())]
	r, err := ask(ctx, at, "POST", "/conversations/"+turn.id+"/messages", map[string]string{"message": text})
	if err != nil || r.status == http.StatusServiceUnavailable {
		return nil
	}
	if r.status != http.StatusOK {
		return r.wrong("send", nil)
	}
	var answer crashState
	if err = r.decode(&answer); err != nil {
		return err
	}
	for _, action := range answer.Pending {
		if action.UnknownOutcome {
			continue // a node that was not killed yet has taken over; it is decided later
		}
		r, err = c.resolve(ctx, turn, action.ID, "allow")
		if err == nil && r.status != http.StatusOK && r.status != http.StatusServiceUnavailable {
			return r.wrong("approve", nil)
		}
	}
	return nil
}

func (c *crashes) resolve(ctx context.Context, turn *crashTurn, action, decision string) (reply, error) {
	at := c.alive()
	if len(at) == 0 {
		return reply{}, errors.New("no node runs")
	}
	return ask(ctx, at[0], "POST", "/conversations/"+turn.id+"/actions/"+action,
		map[string]any{"resolution": map[string]string{"type": "tool_approval", "decision": decision}})
}

// round kills a node while it runs some turns, and sees them to their ends.
func (c *crashes) round(ctx context.Context, name string) error {
	plans := crashPlans()
	var turns []*crashTurn
	for n := range turnsAtOnce {
		turn, err := c.begin(ctx, fmt.Sprintf("%s_%d", name, n), plans[c.random.IntN(len(plans))])
		if err != nil {
			return err
		}
		turns = append(turns, turn)
	}
	victim, err := c.owner(ctx, turns[0].id)
	if err != nil {
		return err
	}
	failed := make([]error, len(turns))
	var senders sync.WaitGroup
	for n, turn := range turns {
		senders.Go(func() { failed[n] = c.send(ctx, turn) })
	}
	killed := errors.Join(wait(ctx, time.Duration(c.random.Int64N(int64(c.turn)))), victim.Kill())
	if len(c.Nodes()) == 1 {
		senders.Wait()
		killed = errors.Join(killed, victim.Start(ctx))
	} else {
		killed = errors.Join(killed, victim.Launch()) //nolint:contextcheck // a process outlives the call that starts it
		senders.Wait()
	}
	if err := errors.Join(errors.Join(failed...), killed); err != nil {
		return err
	}
	for _, turn := range turns {
		if err := c.ends(ctx, turn); err != nil {
			return fmt.Errorf("turn %s (%s) of %s: %w", turn.name, turn.plan, turn.id, err)
		}
	}
	return victim.AwaitReady(ctx)
}

// crashState is what is read of a conversation.
type crashState struct {
	Conversation struct {
		Runtime struct {
			Status     string `json:"status"`
			StopReason string `json:"stopReason"`
		} `json:"runtime"`
	} `json:"conversation"`
	Messages []struct {
		Role   string `json:"role"`
		Status string `json:"status"`
	} `json:"messages"`
	Pending []struct {
		ID             string `json:"id"`
		Kind           string `json:"kind"`
		ToolName       string `json:"toolName"`
		UnknownOutcome bool   `json:"unknownOutcome"`
		Args           struct {
			Case string `json:"case"`
			Call string `json:"call"`
		} `json:"args"`
	} `json:"pendingActions"`
}

// ends sees a turn to its end, deciding what it asks, and checks what it did.
func (c *crashes) ends(ctx context.Context, turn *crashTurn) error {
	var last crashState
	err := until(ctx, time.Minute, func(ctx context.Context) error {
		r, err := ask(ctx, c.alive()[0], "GET", "/conversations/"+turn.id, nil)
		if err != nil || r.status != http.StatusOK {
			return r.wrong("read", err)
		}
		last = crashState{}
		if err := r.decode(&last); err != nil {
			return err
		}
		switch status := last.Conversation.Runtime.Status; status {
		case "idle":
			return nil
		case "waiting":
			if err := c.decide(ctx, turn, &last); err != nil {
				return err
			}
			return errors.New("it waits, and was told what to do")
		default:
			return fmt.Errorf("it is %s", status)
		}
	})
	if err != nil {
		return err
	}
	return c.audit(ctx, turn, &last)
}

// approvedTool asks a person before it runs.
const approvedTool = "wire"

// decide answers for the person: what needs an approval has it, and now and then a call whose outcome nobody knows is to
// be run again.
func (c *crashes) decide(ctx context.Context, turn *crashTurn, state *crashState) error {
	for _, action := range state.Pending {
		if action.Kind != "tool_approval" || action.Args.Case != turn.name || action.ToolName == idempotentTool ||
			!action.UnknownOutcome && action.ToolName != approvedTool {
			return fmt.Errorf("it asks for what nobody needs to be asked: %+v", action)
		}
		decision := "allow"
		if action.UnknownOutcome {
			decision = []string{"allow", "deny"}[c.random.IntN(2)]
		}
		r, err := c.resolve(ctx, turn, action.ID, decision)
		if err != nil || r.status != http.StatusOK {
			return r.wrong("resolve", err)
		}
		if !action.UnknownOutcome {
			c.tally.approved++
			continue
		}
		c.tally.doubts++
		if decision == "allow" {
			c.tally.allowed++
			turn.again[action.Args.Call]++
		} else {
			turn.denied[action.Args.Call] = true
		}
	}
	return nil
}

// audit holds a turn that is over against the tools' books.
func (c *crashes) audit(ctx context.Context, turn *crashTurn, state *crashState) error {
	c.tally.turns++
	calls := map[string]standin.Run{}
	for key, run := range c.world.Tools.Runs() {
		if run.Case != turn.name {
			continue
		}
		if other, twice := calls[run.Call]; twice {
			return fmt.Errorf("call %s has two idempotency keys: %+v and %s %+v", run.Call, other, key, run)
		}
		if run.Tool != idempotentTool && run.Requests > 1+turn.again[run.Call] {
			return fmt.Errorf("call %s was made %d times, %d more were allowed: %+v", run.Call, run.Requests, turn.again[run.Call], run)
		}
		calls[run.Call] = run
	}
	if len(state.Messages) == 0 { // it was killed before the message was taken
		if len(calls) > 0 {
			return fmt.Errorf("no message, but tools ran: %v", calls)
		}
		return nil
	}
	if got := state.Conversation.Runtime.StopReason; got != "end_turn" || len(state.Messages) != 2 {
		return fmt.Errorf("it ended %q with %d messages", got, len(state.Messages))
	}
	for round, names := range strings.Split(turn.plan, "|") {
		for at := range strings.Split(names, ",") {
			call := fmt.Sprintf("%d.%d", round, at)
			if _, ran := calls[call]; !ran && !turn.denied[call] {
				return fmt.Errorf("call %s did not run", call)
			}
		}
	}
	c.tally.answered++
	return c.auditLog(ctx, turn)
}

// auditLog: the log tells each call and its one result, in the order in which such things happen.
func (c *crashes) auditLog(ctx context.Context, turn *crashTurn) error {
	events, err := eventLog(ctx, c.alive()[0], turn.id)
	if err != nil {
		return err
	}
	called, told := 0, 0
	for i, event := range events {
		if event.Seq != uint64(i+1) {
			return fmt.Errorf("hole in the log at %d", i)
		}
		switch event.Type {
		case "agent.tool_use":
			called += strings.Count(string(event.Data), `"tool_call_id"`)
		case "agent.tool_result":
			told += strings.Count(string(event.Data), `"tool_call_id"`)
		case "session.recovered":
			c.tally.recovered++
		}
	}
	// What a person denied is told as the action's resolution.
	if wanted := 3; called != wanted || told+len(turn.denied) != wanted {
		return fmt.Errorf("the log has %d calls, %d results and %d denials of %d: %s", called, told, len(turn.denied), wanted, typesOf(events))
	}
	return nil
}

func typesOf(events []wireEvent) string {
	var types []string
	for _, event := range events {
		types = append(types, event.Type)
	}
	return strings.Join(types, " ")
}
