package turn

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/directorypb"
)

// newRails is a project's guardrails: words blocks "project falcon" and takes mail addresses out.
func newRails() *armoury {
	a := newArmoury("")
	a.rails = map[string]*directorypb.Guardrail{"words": {
		Key: "words", Name: "W", Enabled: true, Action: "redact", Message: "Not here.",
		Rules: []byte(`{"pii":{},"wordFilter":{"words":["project falcon"],"action":"block"}}`),
	}}
	return a
}

// railedBench is a bench whose agent has guardrails.
func railedBench(t *testing.T, a *armoury, names func(*agentpb.Agent), rounds ...func(model.Stream) (*model.Answer, error)) *bench {
	t.Helper()
	b := newBench(t, rounds...)
	names(b.agent)
	b.renew(t, func(c *Config) { c.Guard = a.guard() })
	return b
}

func ofAgent(a *agentpb.Agent) { a.OutputGuardrail = "words" }

func ofModel(a *agentpb.Agent) {
	if a.Model == nil {
		a.Model = &agentpb.Model{}
	}
	a.Model.OutputGuardrail = "words"
}

const told = `{"action":"block","findings":[{"type":"word_filter","category":"word","severity":"medium","message":"The text holds a word that is filtered",` +
	`"action":"block","block":true}],"guardrail_key":"words"}`

// TestGuardrailBlocksOutput: nothing of what is blocked is streamed or kept, however it comes; what is before it was said already.
func TestGuardrailBlocksOutput(t *testing.T) {
	for name, names := range map[string]func(*agentpb.Agent){"agent": ofAgent, "model": ofModel} {
		for _, size := range []int{1, 3, 1000} {
			a := newRails()
			b := railedBench(t, a, names, inPieces("It is called Project  Falcon, and more.", size))
			finish := b.whole(t)
			require.Equal(t, []string{"ERROR", "guardrail_block", "Not here."}, []string{finish.GetStopReason().String(), finish.GetError().GetCode(), finish.GetError().GetMessage()}, name)
			require.JSONEq(t, told, string(finish.GetError().GetDetails()))
			require.NotContains(t, strings.ToLower(finish.String()), "falcon")
			require.True(t, strings.HasPrefix("It is called ", finish.GetContent()), finish.GetContent())
			require.Equal(t, finish.GetContent(), b.page.text.String(), "what is streamed is what is stored")
			require.Equal(t, []string{"output a block words: 1 word_filter"}, a.verdicts(), "however many pieces")
		}
	}
}

// TestGuardrailsOfOutput: an agent's guardrail only blocks, its model's takes out, too; one that is not enabled does nothing.
func TestGuardrailsOfOutput(t *testing.T) {
	const said = "Mail ada@example.com about the project. Falcons fly."
	require.Equal(t, said, railedBench(t, newRails(), ofAgent, inPieces(said, 2)).whole(t).GetContent())
	a := newRails()
	require.Equal(t, strings.Replace(said, "ada@example.com", "[REDACTED:email]", 1), railedBench(t, a, ofModel, inPieces(said, 2)).whole(t).GetContent())
	require.Equal(t, []string{"output a redact words: 1 pii"}, a.verdicts())
	a = newRails()
	a.rails["words"].Enabled = false
	finish := railedBench(t, a, ofModel, inPieces("Project Falcon, ada@example.com", 2)).whole(t)
	require.Equal(t, "Project Falcon, ada@example.com", finish.GetContent())
}

// TestGuardrailOfWholeAnswers: what an adapter does not stream is looked at as well.
func TestGuardrailOfWholeAnswers(t *testing.T) {
	whole := func(model.Stream) (*model.Answer, error) {
		return &model.Answer{Text: "Project Falcon", Usage: callUsage}, nil
	}
	finish := railedBench(t, newRails(), ofAgent, whole).whole(t)
	require.Equal(t, "guardrail_block", finish.GetError().GetCode())
	require.Empty(t, finish.GetContent())
}

// TestGuardrailOverTwoCalls: a phrase that begins before a tool is called and ends after it is one.
func TestGuardrailOverTwoCalls(t *testing.T) {
	a := newRails()
	finish := railedBench(t, a, ofAgent, asks("About project", `c1 read {}`), inPieces("falcon: done.", 4)).whole(t)
	require.Equal(t, "guardrail_block", finish.GetError().GetCode())
	require.Equal(t, []string{"output a block words: 1 word_filter"}, a.verdicts())
	require.NotContains(t, finish.GetContent(), "falcon")
}

// TestGuardrailOfCalls: arguments are shown and kept, so they are looked at, whatever their escapes.
func TestGuardrailOfCalls(t *testing.T) {
	b := railedBench(t, newRails(), ofAgent, asks("", `c1 read {"n":"Project\u0020Falcon"}`), says("never"))
	finish := b.whole(t)
	require.Equal(t, "guardrail_block", finish.GetError().GetCode())
	require.Empty(t, finish.GetToolCalls())
	require.Empty(t, b.shop.counts())
	require.Empty(t, b.book.steps)

	a := newRails()
	b = railedBench(t, a, ofModel, asks("", `c1 nothing {"mail":"ada@example.com"}`), inPieces("It is ada@example.com.", 3))
	require.Equal(t, []string{`c1 nothing {"mail":"[REDACTED:email]"} = there is no such tool`}, callsOf(b.whole(t).GetToolCalls()))
	require.Equal(t, []string{"output a redact words: 2 pii"}, a.verdicts(), "one for the whole turn")
}

// TestGuardrailLeavesResults: what tools of the server come to is a shield's to judge, not a guardrail's.
func TestGuardrailLeavesResults(t *testing.T) {
	names := func(a *agentpb.Agent) { a.InputGuardrail, a.OutputGuardrail = "words", "words" }
	b := railedBench(t, newRails(), names, asks("", `c1 read {}`), says("ok"))
	b.shop.hook = func(string, *http.Request) (int, string) { return http.StatusOK, "project falcon, ada@example.com" }
	require.Equal(t, []string{`c1 read {} = project falcon, ada@example.com`}, callsOf(b.whole(t).GetToolCalls()))
}

func TestGuardrailThatIsGone(t *testing.T) {
	for _, names := range []func(*agentpb.Agent){
		ofAgent, ofModel, func(a *agentpb.Agent) { a.InputGuardrail = "words" },
	} {
		finish := railedBench(t, newArmoury(""), names, says("never")).whole(t)
		require.Equal(t, []string{"guardrail_missing", "The agent's guardrail `words` does not exist"}, []string{finish.GetError().GetCode(), finish.GetError().GetMessage()})
	}
	a := newRails()
	gone := func(stream model.Stream) (*model.Answer, error) {
		a.mu.Lock()
		delete(a.rails, "words")
		a.mu.Unlock()
		return asks("", `c1 read {}`)(stream)
	}
	require.Equal(t, "guardrail_missing", railedBench(t, a, ofAgent, gone, says("never")).whole(t).GetError().GetCode(), "it was deleted meanwhile")
	b := newBench(t, says("never"))
	ofAgent(b.agent)
	require.Equal(t, "guardrail_missing", b.whole(t).GetError().GetCode(), "a runner without guardrails does not run its agent")
}

// TestGuardrailOfInput: what people said before the agent had a guardrail is shown to the model without what it takes out, and so are
// documents; one that it blocks is a note.
func TestGuardrailOfInput(t *testing.T) {
	a := newRails()
	b := railedBench(t, a, func(a *agentpb.Agent) { a.InputGuardrail = "words" }, says("ok"))
	job := b.book.on(b.job())
	job.UserMessage = &conversationpb.Message{Id: "m", Number: 1, Role: conversationpb.Role_USER, Content: "I am me@corp.com"}
	require.NoError(t, b.Start(job))
	<-b.reports
	require.Equal(t, []string{"user: I am [REDACTED:email]"}, messagesOf(b.talks.last().Messages))
	require.Equal(t, "I am me@corp.com", job.UserMessage.GetContent(), "it is the log's")
	require.Equal(t, []string{"input a redact words: 1 pii"}, a.verdicts())

	l := &modelLoop{runner: b.Runner, run: &run{job: b.job()}, agent: b.agent}
	require.NoError(t, l.openRails(t.Context()))
	left, note := l.admit(t.Context(), &conversationpb.FileRef{Name: "a.txt"}, "Mail me@corp.com")
	require.Equal(t, []string{"Mail [REDACTED:email]", ""}, []string{left, note})
	left, note = l.admit(t.Context(), &conversationpb.FileRef{Name: "b.txt"}, "About Project Falcon")
	require.Equal(t, []string{"", "Not here."}, []string{left, note})
	l.railed.tell(t.Context())
	require.Equal(t, []string{"input a redact words: 1 pii", "input a block words: 1 word_filter 1 pii"}, a.verdicts())
}

// TestGuardrailAndShieldOfOutput: both hear what the model says as it came.
func TestGuardrailAndShieldOfOutput(t *testing.T) {
	a := newRails()
	a.rails["words"].Rules = []byte(`{"pii":{"categories":{"email":"block"}}}`)
	both := func(agent *agentpb.Agent) { ofAgent(agent); agent.Shield = "default" }
	finish := railedBench(t, a, both, inPieces("Mail me@corp.com now", 3)).whole(t)
	require.Equal(t, "guardrail_block", finish.GetError().GetCode(), "what the shield takes out blocks all the same")
	finish = railedBench(t, newRails(), both, inPieces("Card "+card+".", 3)).whole(t)
	require.Equal(t, "Card [REDACTED:creditCard].", finish.GetContent())
}

// TestGuardrailOfTitles: a title that would be blocked is none.
func TestGuardrailOfTitles(t *testing.T) {
	b := railedBench(t, newRails(), func(a *agentpb.Agent) { ofAgent(a) }, says("Fine."))
	rails, err := b.config.Guard.Rails(t.Context(), "", "words")
	require.NoError(t, err)
	require.Empty(t, saidBeside(rails, nil, "On Project Falcon", nil))
	require.Equal(t, "Mail ada@example.com", saidBeside(rails, nil, "Mail ada@example.com", nil))
	require.Equal(t, "Mail [REDACTED:email]", saidBeside(rails, rails, "Mail ada@example.com", nil))
}
