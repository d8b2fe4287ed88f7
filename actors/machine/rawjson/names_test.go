package rawjson_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/machine/rawjson"
)

func TestNames(t *testing.T) {
	type inner struct {
		Tokens int `json:"tokens,omitempty"`
	}
	type outer struct {
		inner

		ID   string
		Kind string `json:"kind"`
		Not  string `json:"-"`
	}
	names := rawjson.NamesOf(reflect.TypeFor[outer]())
	for spelt, exact := range map[string]bool{"tokens": true, "kind": true, "Tokens": false, "tokenſ": false, "\u212aind": false} {
		var filled outer
		require.NoError(t, json.Unmarshal([]byte(`{"`+spelt+`":null}`), &filled))
		require.Equal(t, []bool{true, exact}, []bool{names.Has(spelt), names.Is(spelt)}, spelt)
	}
	members := map[string]json.RawMessage{"kind": nil, "not": nil, "-": nil, "ID": nil, "": nil, "TOKENS": nil}
	require.Equal(t, []string{"", "-", "ID", "not"}, names.Unknown(members))
}
