package tool

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/proto/agentpb"
)

func TestCallersTools(t *testing.T) {
	for name, c := range map[string]struct {
		tools []*agentpb.Tool
		says  string
	}{
		"fine":          {[]*agentpb.Tool{{Name: "a"}, {Name: "b", Schema: []byte(`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#"}`)}}, ""},
		"twice":         {[]*agentpb.Tool{{Name: "a"}, {Name: "a"}}, `the tool "a": there is another one of that name`},
		"no_name":       {[]*agentpb.Tool{{}}, "1 to 64"},
		"long_name":     {[]*agentpb.Tool{{Name: strings.Repeat("a", 65)}}, "1 to 64"},
		"no_object":     {[]*agentpb.Tool{{Name: "a", Schema: []byte(`{"type":"string"}`)}}, "not of an object"},
		"broken_schema": {[]*agentpb.Tool{{Name: "a", Schema: []byte(`{"properties":3}`)}}, "schema"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Checks{}.Tools(c.tools)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}
