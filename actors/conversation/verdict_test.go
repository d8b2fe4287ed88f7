package conversation_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/conversation"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// approving pauses a turn for the approval of a call with this schema, and returns the resolution with other arguments.
func approving(t *testing.T, schema, args string) (*talk, func(*conversationpb.ArgsVerdict) *conversationpb.Command) {
	t.Helper()
	k := newTalk(t, conversation.DefaultLimits())
	k.do(&conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{Content: "x"}}})
	k.do(progress(1, "", &conversationpb.Progress_Use{Use: &conversationpb.ToolUse{
		Calls: []*conversationpb.ToolCall{{Id: "c1", Name: "order", Arguments: "{}"}},
		Open:  []*conversationpb.OpenCall{{Need: conversationpb.Need_APPROVAL, Args: []byte(`{}`), Schema: []byte(schema)}},
	}}))
	require.Len(t, k.state().GetPending(), 1)
	return k, func(verdict *conversationpb.ArgsVerdict) *conversationpb.Command {
		return &conversationpb.Command{Body: &conversationpb.Command_Resolve{Resolve: &conversationpb.Resolve{
			ActionId: k.state().GetPending()[0].GetId(),
			Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{
				Allow: true, ApprovedArgs: []byte(args), Verdict: verdict,
			}},
		}}}
	}
}

// slowSchema has patterns that take seconds for a long text.
func slowSchema() string {
	var patterns []string
	for i := range 150 {
		patterns = append(patterns, fmt.Sprintf(`{"pattern":"^(a?b?|ba|(x|a)*){%d}c$"}`, 4+i%2))
	}
	return `{"type":"object","properties":{"x":{"allOf":[` + strings.Join(patterns, ",") + `]}}}`
}

// TestRulesTakeTheVerdict: the rules check no arguments that their sender has checked, and refuse in the words of the verdict.
func TestRulesTakeTheVerdict(t *testing.T) {
	k, resolve := approving(t, `{"type":"object","required":["n"]}`, `{"m":1}`)
	_, refused := k.try(resolve(&conversationpb.ArgsVerdict{Problem: "missing property 'n'"}))
	require.NotNil(t, refused)
	require.Equal(t, failurepb.Code_INVALID_APPROVED_ARGS, refused.Code)
	_, checked := k.try(resolve(nil))
	require.NotNil(t, checked)
	require.Equal(t, refused.Error(), checked.Error(), "as the rules said it before")
	k.do(resolve(&conversationpb.ArgsVerdict{}))
	require.Empty(t, k.state().GetPending(), "the rules have not checked them again")
}

// TestRulesCheckLittle: a command of the release before has no verdict. What is small is checked by the rules, the rest is refused; both
// within some milliseconds.
func TestRulesCheckLittle(t *testing.T) {
	for name, schema := range map[string]string{"slow": slowSchema(), "fine": `{"type":"object"}`} {
		k, resolve := approving(t, schema, `{"x":"`+strings.Repeat("ab", 25_000)+`"}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, refused := k.try(resolve(nil))
		runtime.ReadMemStats(&after)
		require.NotNil(t, refused, name)
		require.Contains(t, refused.Error(), "too complex to check", name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20), name)
		k.do(resolve(&conversationpb.ArgsVerdict{}))
	}
	k, resolve := approving(t, slowSchema(), `{"x":"`+strings.Repeat("ab", 3_000)+`"}`)
	_, refused := k.try(resolve(nil))
	require.NotNil(t, refused)
	require.Contains(t, refused.Error(), "too complex to check")
}
