package rawjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine/rawjson"
)

// value draws any JSON value.
func value(t *rapid.T, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.String().Draw(t, "text")
	case 1:
		return rapid.Float64Range(-1e9, 1e9).Draw(t, "number")
	case 2:
		return rapid.Bool().Draw(t, "flag")
	case 3:
		return nil
	case 4:
		values := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range values {
			values[i] = value(t, depth-1)
		}
		return values
	default:
		return object(t, depth-1)
	}
}

func object(t *rapid.T, depth int) map[string]any {
	fields := map[string]any{}
	for range rapid.IntRange(0, 4).Draw(t, "fields") {
		fields[rapid.String().Draw(t, "name")] = value(t, depth)
	}
	return fields
}

// TestSplitIsDecode: what Object and Array cut out is what encoding/json decodes, however it is spaced.
func TestSplitIsDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := object(t, 3)
		raw, err := json.Marshal(fields)
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "indented") {
			var indented bytes.Buffer
			require.NoError(t, json.Indent(&indented, raw, " ", "\t"))
			raw = append([]byte("\n "), append(indented.Bytes(), '\r')...)
		}
		var want map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &want))
		split, err := rawjson.Object(raw)
		require.NoError(t, err)
		require.Len(t, split, len(want))
		for _, field := range split {
			require.Equal(t, string(want[field.Name]), string(field.Value))
			items, err := rawjson.Array(field.Value, 10)
			if field.Value[0] != '[' {
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			var wantItems []json.RawMessage
			require.NoError(t, json.Unmarshal(field.Value, &wantItems))
			require.Len(t, items, len(wantItems))
			for i := range items {
				require.Equal(t, string(wantItems[i]), string(items[i]))
			}
		}
	})
}

func TestLastOfTwoNames(t *testing.T) {
	fields, err := rawjson.Object([]byte(`{"model":"a","\u006dodel":"b","n":null,"on":true}`))
	require.NoError(t, err)
	require.Equal(t, "b", fields.Text("model"))
	require.Nil(t, fields.Get("n"))
	require.True(t, fields.True("on"))
	require.Len(t, fields, 3)
}

func TestRefused(t *testing.T) {
	var many bytes.Buffer
	for i := range rawjson.MaxFields + 1 {
		fmt.Fprintf(&many, `,"f%d":1`, i)
	}
	for _, raw := range []string{"", " ", "[]", `"x"`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{1:2}`, "{" + many.String()[1:] + "}"} {
		_, err := rawjson.Object([]byte(raw))
		require.Error(t, err, raw)
	}
	for _, raw := range []string{"", "{}", "[", "[1", "[1,2,3]"} {
		_, err := rawjson.Array([]byte(raw), 2)
		require.Error(t, err, raw)
	}
}

func TestAppendString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var back string
		require.NoError(t, json.Unmarshal(rawjson.AppendString(nil, text), &back))
		require.Equal(t, text, back)
	})
}

// FuzzSplit: no text makes the splitter leave its text or run on.
func FuzzSplit(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\\\""}],"c":"}"}`))
	f.Add([]byte(`{"a`))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = rawjson.Object(raw)
		_, _ = rawjson.Array(raw, 10)
	})
}

// TestWriteCompact: only the space between the parts goes.
func TestWriteCompact(t *testing.T) {
	for _, text := range []string{
		`1`, ` "a b" `, "\n{ \"a\\\" b\" : [ 1 , 2.50e1 ,\tnull ] ,\r\n \"\\\\\": { } }", `{"a":"x  \u00e9","b":[[],[ "  " ]]}`, `[]`,
	} {
		var want, got bytes.Buffer
		require.NoError(t, json.Compact(&want, []byte(text)))
		require.NoError(t, rawjson.WriteCompact(&got, []byte(text)))
		require.Equal(t, want.String(), got.String())
	}
}
