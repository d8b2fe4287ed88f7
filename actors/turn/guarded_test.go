package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/aegis"
	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/guard"
	"parley/actors/turn/model"
	"parley/proto/conversationpb"
	"parley/proto/decisionpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// armoury is a project's shields, and what they decided.
type armoury struct {
	mu     sync.Mutex
	shield *directorypb.Shield // nil = it was deleted
	kept   []string            // "stage name decision", in order
	taken  map[string]int
	broken error

	rails map[string]*directorypb.Guardrail // by key
	judge func(by *guard.Payer, question *aegis.Question) (string, error)
}

func newArmoury(rules string) *armoury {
	a := &armoury{shield: aegis.Default("t", "p"), taken: map[string]int{}}
	if rules != "" {
		a.shield.Rules = []byte(rules)
	}
	return a
}

func (a *armoury) guard() *guard.Guard {
	return guard.New(guard.Parts{
		Ready: func() error { return nil },
		Shield: func(context.Context, string, string, string) (*directorypb.Shield, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.shield == nil {
				return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ShieldNotFound)
			}
			return a.shield, nil
		},
		Guardrail: func(_ context.Context, _, key string) (*guardrail.Guardrail, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			record, found := a.rails[key]
			if !found {
				return nil, failure.New(failurepb.Code_NOT_FOUND, failure.GuardrailNotFound)
			}
			rail, wrong := guardrail.Of(record)
			if wrong != nil {
				return nil, wrong
			}
			return rail, nil
		},
		Roles: func(context.Context, string, string) []string { return []string{"user"} },
		Fits:  func(context.Context, []byte, []byte) error { return nil },
		Take: func(_ context.Context, key string, perMinute int) (bool, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.taken[key]++
			return a.taken[key] <= perMinute, a.broken
		},
		Ask: func(_ context.Context, by *guard.Payer, question *aegis.Question) (string, error) {
			return a.judge(by, question)
		},
		Keep: func(_ context.Context, v *decisionpb.Verdict) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			said := v.GetStage() + " " + v.GetResourceName() + " " + v.GetDecision()
			if rail := v.GetRail(); rail != nil {
				said += " " + rail.GetKey() + ":"
				for _, found := range rail.GetFound() {
					said += fmt.Sprintf(" %d %s", found.GetCount(), found.GetType())
				}
			}
			a.kept = append(a.kept, said)
			return nil
		},
		NewID: func(string) string { return "trc_1" },
	})
}

func (a *armoury) verdicts() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string{}, a.kept...)
}

func (a *armoury) set(change func(*directorypb.Shield) *directorypb.Shield) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shield = change(a.shield)
}

// guarded is a bench whose agent has a shield.
func guarded(t *testing.T, a *armoury, rounds ...func(model.Stream) (*model.Answer, error)) *bench {
	t.Helper()
	b := newBench(t, rounds...)
	b.agent.Shield = aegis.DefaultID
	b.renew(t, func(c *Config) { c.Guard = a.guard() })
	return b
}

// guardedCourt is a court whose agent has a shield, for all its runners.
func guardedCourt(t *testing.T, a *armoury, rounds ...func(model.Stream) (*model.Answer, error)) *court {
	t.Helper()
	c := newCourt(t, rounds...)
	c.agent.Shield = aegis.DefaultID
	c.guard = a.guard()
	c.newRunner()
	return c
}

// pieces is a round in which the model says a text in pieces.
func inPieces(text string, size int, calls ...string) func(model.Stream) (*model.Answer, error) {
	return func(stream model.Stream) (*model.Answer, error) {
		for at := 0; at < len(text); at += size {
			stream.Text(text[at:min(at+size, len(text))])
		}
		answer, err := asks("", calls...)(stream)
		answer.Text = text
		return answer, err
	}
}

const card = "4111 1111 1111 1111"

func TestShieldOfOutput(t *testing.T) {
	a := newArmoury("")
	b := guarded(t, a, inPieces("Your card is "+card+", and mail is me@corp.com now.", 3))
	finish := b.whole(t)
	const clean = "Your card is [REDACTED:creditCard], and mail is [REDACTED:email] now."
	require.Equal(t, clean, finish.GetContent())
	require.Equal(t, clean, b.page.text.String(), "what is streamed is what is stored")
	require.Equal(t, []string{"output.pre a redact"}, a.verdicts())
}

func TestShieldBlocksOutput(t *testing.T) {
	a := newArmoury(`{"limits":{"maxResultBytes":40}}`)
	finish := guarded(t, a, says(strings.Repeat("word ", 20))).whole(t)
	require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
	require.Equal(t, "shield_blocked", finish.GetError().GetCode())
	require.Equal(t, "Response blocked by Aegis shield: content has more than 40 bytes", finish.GetError().GetMessage())
}

func TestShieldOfToolCalls(t *testing.T) {
	a := newArmoury(`{"deny":["write"]}`)
	b := guarded(t, a, asks("One.", `c1 read {"n":1}`, `c2 write {"n":2}`, `c3 nothing {"mail":"me@corp.com"}`), says("Done."))
	b.shop.hook = func(string, *http.Request) (int, string) { return http.StatusOK, `{"owner":"me@corp.com","ok":true}` }
	finish := b.whole(t)
	require.Equal(t, []string{
		`c1 read {"n":1} = {"ok":true,"owner":"[REDACTED:email]"}`,
		`c2 write {"n":2} = Blocked by Aegis shield: tool write is denied`,
		`c3 nothing {"mail":"[REDACTED:email]"} = there is no such tool`,
	}, callsOf(finish.GetToolCalls()))
	require.Equal(t, map[string]int{"run_1/1/0": 1}, b.shop.counts(), "what is blocked is not run")
	require.Equal(t, "tool c2: error: Blocked by Aegis shield: tool write is denied", messagesOf(b.talks.last().Messages)[3])
	require.Contains(t, messagesOf(b.talks.last().Messages)[2], "[REDACTED:email]", "the model sees what the log has")
	for _, step := range b.book.steps {
		require.NotContains(t, step.String(), "me@corp.com")
	}
	require.Equal(t, []string{
		"output.pre a allow", "tool.pre read allow", "tool.pre write block", "tool.pre nothing redact", "tool.post read redact", "output.pre a allow",
	}, a.verdicts())
}

func TestShieldRedactsArguments(t *testing.T) {
	a := newArmoury(`{"sideEffects":{"note":"write"}}`)
	b := guarded(t, a, asks("", `c1 note {"text":"card `+card+`"}`), says("ok"))
	b.agent.Tools[0].Name, b.agent.Tools[0].Schema = "note", nil
	b.whole(t)
	require.JSONEq(t, `{"text":"card [REDACTED:creditCard]"}`, b.shop.args["run_1/1/0"], "what is left is what is executed")
}

func TestShieldBlocksResults(t *testing.T) {
	a := newArmoury(`{"limits":{"maxResultBytes":40}}`)
	b := guarded(t, a, asks("", `c1 read {}`), says("ok"))
	b.shop.hook = func(string, *http.Request) (int, string) { return http.StatusOK, strings.Repeat("x ", 50) }
	finish := b.whole(t)
	require.Equal(t, []string{`c1 read {} = Response blocked by Aegis shield: result has more than 40 bytes`}, callsOf(finish.GetToolCalls()))
}

func TestShieldCountsCalls(t *testing.T) {
	a := newArmoury(`{"limits":{"perToolPerMinute":1}}`)
	finish := guarded(t, a, asks("", `c1 read {}`, `c2 read {}`), says("ok")).whole(t)
	require.Equal(t, []string{`c1 read {} = read done`, `c2 read {} = Blocked by Aegis shield: the tool's limit of calls in a minute is reached`}, callsOf(finish.GetToolCalls()))
	a.broken = context.DeadlineExceeded
	finish = guarded(t, a, asks("", `c1 read {}`), says("ok")).whole(t)
	require.Equal(t, []string{`c1 read {} = Blocked by Aegis shield: it could not be asked`}, callsOf(finish.GetToolCalls()), "it fails closed")
}

func TestShieldThatOnlyWatches(t *testing.T) {
	for mode, want := range map[string][]string{aegis.Simulate: {"output.pre a redact", "tool.pre pay require_approval", "tool.post pay redact", "output.pre a allow"}, aegis.Disabled: {}} {
		a := newArmoury("")
		a.shield.Mode = mode
		b := guarded(t, a, asks("me@corp.com", `c1 pay {"n":1}`), says("ok"))
		b.agent.Tools[2].Policy.Approval = "never"
		b.shop.hook = func(string, *http.Request) (int, string) { return http.StatusOK, "me@corp.com" }
		finish := b.whole(t)
		require.Equal(t, []string{`c1 pay {"n":1} = me@corp.com`}, callsOf(finish.GetToolCalls()), mode)
		require.Equal(t, "me@corp.com\n\nok", finish.GetContent())
		require.Equal(t, want, a.verdicts(), mode)
	}
}

func TestShieldThatIsGone(t *testing.T) {
	a := newArmoury("")
	a.shield = nil
	finish := guarded(t, a, says("never")).whole(t)
	require.Equal(t, "shield_blocked", finish.GetError().GetCode())
	require.Equal(t, `The agent's shield "default" does not exist`, finish.GetError().GetMessage())
	b := newBench(t, says("never"))
	b.agent.Shield = "x"
	require.Equal(t, "shield_blocked", b.whole(t).GetError().GetCode(), "a runner without shields does not run its agent")
}

func TestShieldCleansWhatTheModelReads(t *testing.T) {
	a := newArmoury("")
	b := guarded(t, a, says("ok"))
	job := b.book.on(b.job())
	job.UserMessage = &conversationpb.Message{Id: "m", Number: 1, Role: conversationpb.Role_USER, Content: "I am me@corp.com"}
	require.NoError(t, b.Start(job))
	<-b.reports
	require.Equal(t, []string{"user: I am [REDACTED:email]"}, messagesOf(b.talks.last().Messages), "it may be from before the agent had a shield")
}

func TestShieldOfDocuments(t *testing.T) {
	a := newArmoury(`{"limits":{"maxResultBytes":60}}`)
	b := guarded(t, a, says("ok"))
	s := &shielded{loop: &modelLoop{runner: b.Runner, run: &run{job: b.job()}, agent: b.agent}, id: "default"}
	require.NoError(t, s.renew(t.Context()))
	left, note := s.document(t.Context(), &conversationpb.FileRef{Name: "a.txt"}, "Mail me@corp.com")
	require.Equal(t, []string{"Mail [REDACTED:email]", ""}, []string{left, note})
	left, note = s.document(t.Context(), &conversationpb.FileRef{Name: "b.txt"}, strings.Repeat("long ", 20))
	require.Equal(t, []string{"", "Blocked by Aegis shield: content has more than 60 bytes"}, []string{left, note})
	require.Equal(t, []string{"retrieval.pre a.txt allow", "retrieval.post a.txt redact", "retrieval.pre b.txt allow", "retrieval.post b.txt block"}, a.verdicts())
}

// TestRulesShieldAsksAPerson: a call that a shield wants approved waits as any other, whoever has remembered what; the decision stands
// when the runner is lost, and nothing is counted twice.
func TestRulesShieldAsksAPerson(t *testing.T) {
	a := newArmoury(`{"sideEffects":{"write":"external"},"limits":{"perToolPerMinute":1}}`)
	c := guardedCourt(t, a, asks("", `c1 write {"n":1}`, `c2 camera {}`), says("Done."))
	c.send("s1")
	paused := <-c.ended
	require.Len(t, paused.GetPending(), 2)
	action := paused.GetPending()[0]
	require.Equal(t, "tool_approval", action.GetKind())
	var details map[string]string
	require.NoError(t, json.Unmarshal(action.GetDetails(), &details))
	require.Equal(t, "tool write has an effect: external", details["shield"])
	c.crashed()
	require.Empty(t, c.shop.counts())
	c.resolve(action, "")
	c.crashed()
	c.resolve(paused.GetPending()[1], "")
	done := <-c.ended
	require.Equal(t, []string{`c1 write {"n":1} = write done`, `c2 camera {} = click`}, callsOf(done.GetResponse().GetToolCalls()))
	c.requireTidy()
	require.Equal(t, []string{"tool.pre write require_approval", "tool.pre camera allow", "tool.pre write allow", "tool.post write allow", "output.pre a allow"}, a.verdicts())
}

func TestRulesShieldDoesNotForgetWhatItBlocked(t *testing.T) {
	a := newArmoury(`{"deny":["write"]}`)
	c := guardedCourt(t, a, asks("", `c1 camera {}`, `c2 write {"n":1}`), says("Done."))
	c.send("s1")
	paused := <-c.ended
	require.Len(t, paused.GetPending(), 1)
	a.set(func(s *directorypb.Shield) *directorypb.Shield { s.Rules = []byte(`{}`); return s })
	c.crashed()
	c.resolve(paused.GetPending()[0], "")
	done := <-c.ended
	require.Equal(t, "Blocked by Aegis shield: tool write is denied", done.GetResponse().GetToolCalls()[1].GetError())
	require.Empty(t, c.shop.counts())
	c.requireTidy()
}

// TestRulesShieldJudgesEditedArguments: what a person sets instead is looked at again, and a shield that has become stricter is heard.
func TestRulesShieldJudgesEditedArguments(t *testing.T) {
	a := newArmoury(`{"limits":{"maxArgBytes":40}}`)
	c := guardedCourt(t, a, asks("", `c1 note {"text":"a"}`, `c2 note {"text":"b"}`, `c3 note {"text":"c"}`), says("Done."))
	c.agent.Tools[2].Name, c.agent.Tools[2].Schema = "note", nil // asks a person, by its own policy
	c.send("s1")
	paused := <-c.ended
	require.Len(t, paused.GetPending(), 3)
	c.resolve(paused.GetPending()[0], `{"text":"me@corp.com"}`)
	c.resolve(paused.GetPending()[1], `{"text":"`+strings.Repeat("x", 60)+`"}`)
	c.resolve(paused.GetPending()[2], "")
	done := <-c.ended
	require.Equal(t, []string{
		`c1 note {"text":"[REDACTED:email]"} = pay done`, `c2 note {"text":"b"} = Blocked by Aegis shield: arguments has more than 40 bytes`, `c3 note {"text":"c"} = pay done`,
	}, callsOf(done.GetResponse().GetToolCalls()))
	c.requireTidy()
}

// TestRulesShieldIsDeletedMeanwhile: a turn that waited does not go on without its shield.
func TestRulesShieldIsDeletedMeanwhile(t *testing.T) {
	a := newArmoury("")
	c := guardedCourt(t, a, asks("", `c1 pay {"n":1}`), says("never"))
	c.send("s1")
	paused := <-c.ended
	a.set(func(*directorypb.Shield) *directorypb.Shield { return nil })
	c.resolve(paused.GetPending()[0], "")
	done := <-c.ended
	require.Equal(t, "shield_blocked", done.GetError().GetCode())
	require.Empty(t, c.shop.counts())
	c.requireTidy()
}

// TestRulesShieldAsksForEachCall: an approval is good for one call, and is not remembered for others.
func TestRulesShieldAsksForEachCall(t *testing.T) {
	a := newArmoury(`{"sideEffects":{"write":"external"}}`)
	c := guardedCourt(t, a, asks("", `c1 write {"n":1}`), asks("", `c2 write {"n":2}`), says("Done."))
	c.send("s1")
	for range 2 {
		paused := <-c.ended
		require.Len(t, paused.GetPending(), 1)
		_, refused := c.do(&conversationpb.Command{CommandId: "r-" + paused.GetPending()[0].GetId(), Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
			ActionId: paused.GetPending()[0].GetId(), Agent: c.agent,
			Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{Allow: true, Remember: true}},
		}}})
		require.Nil(t, refused)
	}
	require.Equal(t, conversationpb.StopReason_END_TURN, (<-c.ended).GetStopReason())
	c.requireTidy()
}
