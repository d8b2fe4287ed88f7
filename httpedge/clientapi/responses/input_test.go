package responses

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzResponsesBody(f *testing.F) {
	f.Add([]byte(`{"model":"a","input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_file","file_id":"f"}]}]}`))
	f.Add([]byte(`{"model":"a","input":[{"role":"user","content":"x"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"y"}]},{"id":"fc_c.1.0"}],"tools":[{"type":"function","name":"f"}],"text":{"format":{"type":"json_object"}}}`))
	f.Add([]byte(`{"model":null,"input":{"role":"user"},"version":1e9,"conversation":{"id":null},"budget":{"max_cost_usd":1e308}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var whole createResponseIn
		if json.Unmarshal(raw, &whole) == nil && whole.Validate() == nil {
			if said, failure := readItems(whole.Input.items); failure == nil && said.newest != nil {
				require.LessOrEqual(t, len(said.messages()), len(whole.Input.items))
			}
		}
		var in createAgentResponseIn
		if json.Unmarshal(raw, &in) != nil {
			return
		}
		if in.Validate() == nil && in.Input.check() == nil {
			require.NotEmpty(t, strings.TrimSpace(in.Input.Text))
			require.NotEmpty(t, in.Model.Text)
		}
		if id, _, failure := in.named(); failure == nil && id != "" {
			require.False(t, in.SessionID.Text != "" && in.SessionID.Text != id)
		}
		if in.Budget.Set && !in.Budget.Null && in.Budget.Failure == nil {
			require.Positive(t, in.Budget.Budget.GetMaxCostNanoUsd())
		}
	})
}
