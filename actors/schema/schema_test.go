package schema_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/schema"
)

// TestScripts runs testdata: "check" takes a schema, "value" a value that is checked against the last one.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		var current []byte
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var err error
			switch d.Cmd {
			case "check":
				current = []byte(d.Input)
				err = schema.Check(current)
			case "value":
				err = schema.Validate(t.Context(), current, []byte(d.Input))
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			if err != nil {
				return err.Error() + "\n"
			}
			return "ok\n"
		})
	})
}

// TestBounds: what would take for ever, or much memory, is given up soon.
func TestBounds(t *testing.T) {
	const soon = 30 * time.Second // much more than it takes, much less than for ever
	doubling := func(keyword string) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/d0","$defs":{"d60":{"type":"integer"}`)
		for i := range 60 {
			fmt.Fprintf(&b, `,"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, keyword, i+1, i+1)
		}
		b.WriteString(`}}`)
		return b.String()
	}
	sub := `{"properties":{"x":{"$ref":"#"}}}`
	deep := strings.Repeat(`{"x":`, 60) + "1" + strings.Repeat("}", 60)
	numbers := "[" + strings.Repeat("1,", 50_000) + "1]"
	enum := "[" + strings.Repeat("2,", 5_000) + "2]"
	for name, test := range map[string]struct{ schema, value string }{
		"doubling allOf":   {doubling("allOf"), "1"},
		"doubling anyOf":   {doubling("anyOf"), `"x"`},
		"doubling oneOf":   {doubling("oneOf"), "1"},
		"doubling with x":  {`{"allOf":[` + sub + "," + sub + "," + sub + `]}`, deep},
		"long enum":        {`{"items":{"enum":` + enum + `}}`, numbers},
		"large number":     {`{"multipleOf":0.1}`, "1e999999"},
		"small number":     {`{"maximum":1}`, "1e-999999"},
		"many digits":      {`{"maximum":1}`, strings.Repeat("9", 1000)},
		"large in schema":  {`{"maximum":1e999999}`, "1"},
		"deep value":       {`{}`, strings.Repeat("[", 70) + strings.Repeat("]", 70)},
		"very deep value":  {`{}`, strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000)},
		"deep schema":      {strings.Repeat(`{"not":`, 70) + "{}" + strings.Repeat("}", 70), "1"},
		"wide schema":      {`{"allOf":[` + strings.Repeat("{},", 20_000) + `{}]}`, "1"},
		"large schema":     {`{"title":"` + strings.Repeat("x", schema.MaxSchemaBytes) + `"}`, "1"},
		"large value":      {`{}`, `"` + strings.Repeat("x", schema.MaxValueBytes) + `"`},
		"dynamic":          {`{"$dynamicRef":"#x","$dynamicAnchor":"x"}`, "1"},
		"dynamic, escaped": {`{"allOf":[{"\u0024dynamicRef":"#x"}]}`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			err := schema.Validate(t.Context(), []byte(test.schema), []byte(test.value))
			require.Error(t, err)
			if name != "very deep value" { // that is no JSON for the decoder
				require.ErrorIs(t, err, schema.ErrTooComplex)
			}
			require.Less(t, time.Since(begun), soon)
			require.Less(t, len(err.Error()), 2000)
		})
	}
}

// TestNoWayOut: nothing is looked up outside the text, also not a file that is a schema.
func TestNoWayOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"type":"object"}`), 0o600))
	for _, address := range []string{"http://localhost:1/x", "file://" + file, "other.json", file, "#/nowhere"} {
		require.Error(t, schema.Check(fmt.Appendf(nil, `{"$ref":%q}`, address)), address)
		require.Error(t, schema.Check(fmt.Appendf(nil, `{"$schema":%q}`, address)), address)
	}
	require.Error(t, schema.Check(fmt.Appendf(nil, `{"$id":"file://%s/","$ref":"schema.json"}`, filepath.Dir(file))))
	require.NoError(t, schema.Check([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#"}`)), "the drafts are built in")
}

// TestMessagesAreBounded: a large wrong value is not quoted whole, and no character is cut in two.
func TestMessagesAreBounded(t *testing.T) {
	value := `"` + strings.Repeat("ş", 100_000) + `"`
	for _, text := range []string{`{"const":1}`, `{"enum":["a"]}`, `{"maxLength":1}`, `{"pattern":"^x$"}`} {
		err := schema.Validate(t.Context(), []byte(text), []byte(value))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 2000)
		require.NotContains(t, err.Error(), "\ufffd")
	}
	many := `{"` + strings.Repeat("k", 5000) + `":1,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`
	err := schema.Validate(t.Context(), []byte(`{"additionalProperties":{"type":"string"}}`), []byte(many))
	require.Error(t, err)
	require.Less(t, len(err.Error()), 2000)
}

// TestTogether: calls share nothing, also not the drafts' own schemas.
func TestTogether(t *testing.T) {
	text := []byte(`{"$ref":"https://json-schema.org/draft/2020-12/meta/validation"}`)
	if schema.Check(text) != nil {
		text = []byte(`{"type":"object"}`)
	}
	done := make(chan error)
	for range 8 {
		go func() { done <- schema.Validate(t.Context(), text, []byte(`{"type":"object"}`)) }()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
}

// TestAnything: no text makes it panic, and objects fit the schema that demands nothing.
func TestAnything(t *testing.T) {
	keywords := []string{
		"type", "properties", "items", "enum", "const", "allOf", "anyOf", "not", "$ref", "$defs", "if", "then", "required",
		"pattern", "minimum", "unevaluatedProperties", "patternProperties", "format", "$id", "$anchor", "dependentSchemas",
	}
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kind := rapid.IntRange(0, 5).Draw(t, "kind")
			if depth == 0 {
				kind %= 4
			}
			switch kind {
			case 0:
				return rapid.SampledFrom([]string{"1", "-0.5", "true", "null", "[]", "{}"}).Draw(t, "plain")
			case 1, 2:
				return fmt.Sprintf("%q", rapid.SampledFrom([]string{"object", "string", "#", "#/$defs/a", "a", "(", "x://y"}).Draw(t, "text"))
			case 3:
				return "1e3"
			case 4:
				return "[" + strings.Join(rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list"), ",") + "]"
			}
			var fields []string
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keywords), 0, 4, rapid.ID[string]).Draw(t, "keys") {
				fields = append(fields, fmt.Sprintf("%q:%s", key, value(depth-1).Draw(t, "value")))
			}
			return "{" + strings.Join(fields, ",") + "}"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text, document := value(4).Draw(t, "schema"), value(3).Draw(t, "document")
		checked := schema.Check([]byte(text))
		err := schema.Validate(context.Background(), []byte(text), []byte(document))
		if checked != nil {
			require.Error(t, err, "an unusable schema refuses every value")
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	text := []byte(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1}},"required":["city"]}`)
	value := []byte(`{"city":"Ankara","days":3}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := schema.Validate(b.Context(), text, value); err != nil {
			b.Fatal(err)
		}
	}
}
