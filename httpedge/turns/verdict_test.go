package turns_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/schema"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
)

// TestJudge: the verdict is on the schema of the action that is pending, and only where arguments are set.
func TestJudge(t *testing.T) {
	pending := []*conversationpb.PendingAction{
		{Id: "other", Schema: []byte(`{"required":["x"]}`)},
		{Id: "act", Schema: []byte(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`)},
		{Id: "ran", Schema: []byte(`{"required":["n"]}`), UnknownOutcome: true},
		{Id: "any"},
		{Id: "slow", Schema: []byte(`{"properties":{"x":{"allOf":[` + strings.Repeat(`{"pattern":"^(a?b?|ba|(x|a)*){9}c$"},`, 99) + `{}]}}}`)},
	}
	judged := func(ctx context.Context, action, args string, allow bool) (*conversationpb.ArgsVerdict, error) {
		approval := &conversationpb.ToolApproval{Allow: allow, ApprovedArgs: []byte(args)}
		err := turns.Judge(ctx, schema.Validate, pending, &conversationpb.Resolve{
			ActionId: action, Resolution: &conversationpb.Resolve_Approval{Approval: approval},
		})
		return approval.GetVerdict(), err
	}
	long := `{"x":"` + strings.Repeat("ab", 30_000) + `"}`
	for _, c := range []struct {
		action, args string
		allow        bool
		problem      string // - = no verdict
	}{
		{"act", `{"n":1}`, true, ""},
		{"act", `{}`, true, "missing property 'n'"},
		{"act", `{"n":"1"}`, true, "'/n': got string, want integer"},
		{"act", "", true, "-"},
		{"act", `{}`, false, "-"},
		{"ran", `{}`, true, "-"},
		{"gone", `{}`, true, "-"},
		{"any", `{}`, true, ""},
		{"slow", long, true, "too complex to check"},
	} {
		verdict, err := judged(t.Context(), c.action, c.args, c.allow)
		require.NoError(t, err)
		require.Equal(t, c.problem == "-", verdict == nil, "%v", c)
		if verdict != nil {
			require.Equal(t, c.problem, verdict.GetProblem())
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := judged(gone, "slow", long, true)
	require.ErrorIs(t, err, context.Canceled, "nobody waits for it any more")
	require.NoError(t, turns.Judge(t.Context(), nil, pending, &conversationpb.Resolve{}))
}
