package schema_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/schema"
)

// most is what anything hostile may allocate.
const most = 50 << 20

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// list joins what make returns for 0 to n-1.
func list(n int, produce func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = produce(i)
	}
	return strings.Join(parts, ",")
}

// bombs has as many patterns as fit into 84 KB, each of which the standard library expands to megabytes.
func bombs() string {
	return `{"type":"object","properties":{` + list(1500, func(i int) string {
		return fmt.Sprintf(`"p%d":{"type":"string","pattern":"a{1000}b{1000}c{%d}"}`, i, i%1000)
	}) + `}}`
}

// TestPatternBombs: a schema with patterns that expand is refused, with the place, before they do.
func TestPatternBombs(t *testing.T) {
	one := `"a{1000}b{1000}c{1000}d{1000}"`
	for name, test := range map[string]struct{ schema, place string }{
		"many":               {bombs(), "/properties/p"},
		"pattern":            {`{"properties":{"a":{"pattern":` + one + `}}}`, "'/properties/a/pattern'"},
		"below a definition": {`{"$ref":"#/$defs/x/y","$defs":{"x":{"y":{"pattern":` + one + `}}}}`, "'/$defs/x/y/pattern'"},
		"names": {
			`{"properties":{"a":{"patternProperties":{` + one + `:{}}}}}`, "'/properties/a/patternProperties/a{1000}b{1000}c{1000}d{1000}'",
		},
		"names of names": {`{"propertyNames":{"pattern":` + one + `}}`, "'/propertyNames/pattern'"},
		"draft 7": {
			`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"pattern":` + one + `},"not":{"pattern":"a"}}`, "'/items/pattern'",
		},
		"draft 2019": {`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":{"pattern":` + one + `}}`, "'/items/pattern'"},
		"together": {`{"allOf":[` + list(100, func(i int) string {
			return fmt.Sprintf(`{"pattern":"^[a-z]{%d}$"}`, 200+i)
		}) + `]}`, "'/allOf/"},
	} {
		t.Run(name, func(t *testing.T) {
			bytes := allocated(func() {
				err := schema.Check([]byte(test.schema))
				require.ErrorIs(t, err, schema.ErrTooComplex)
				require.ErrorContains(t, err, "too large")
				require.ErrorContains(t, err, test.place)
				require.Less(t, len(err.Error()), 1000)
			})
			require.Less(t, bytes, uint64(most))
		})
	}
}

// TestPatternsCountTogether: those of all schemas of a document.
func TestPatternsCountTogether(t *testing.T) {
	var document schema.Checker
	passed := 0
	bytes := allocated(func() {
		for i := range 500 {
			text := fmt.Appendf(nil, `{"properties":{"a":{"pattern":"^[a-z]{%d}$"},"b":{"pattern":"^\\d+$"}}}`, 500+i)
			if err := document.Check(text); err != nil {
				require.ErrorIs(t, err, schema.ErrTooComplex)
				continue
			}
			passed++
		}
	})
	require.Positive(t, passed)
	require.Less(t, passed, 50)
	require.Less(t, bytes, uint64(most))
}

// TestCompilerBombs: what makes the library's compiler copy or search without end is refused before. Most took seconds and gigabytes,
// the long names six minutes.
func TestCompilerBombs(t *testing.T) {
	long := `{"properties":{"` + strings.Repeat("k", 4000) + `":`
	places := func(prefix, of string) string {
		return prefix + `"allOf":[` + list(3300, func(i int) string { return fmt.Sprintf(`{"$ref":"#/%s/%d"}`, of, i) }) +
			`],"` + of + `":{` + list(3300, func(i int) string { return fmt.Sprintf(`"%d":{}`, i) }) + `}}`
	}
	for name, text := range map[string]string{
		"long names":           strings.Repeat(long, 28) + `{"allOf":[` + strings.Repeat("{},", 9000) + `{}]}` + strings.Repeat("}}", 28),
		"references":           places("{", "x"),
		"references, old":      places(`{"$schema":"http://json-schema.org/draft-07/schema#",`, "$defs"),
		"ids":                  `{"allOf":[` + list(4900, func(i int) string { return fmt.Sprintf(`{"$id":"x:%d"}`, i) }) + `]}`,
		"more values than fit": `{"allOf":[` + strings.Repeat("{},", 20_000) + `{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, len(text), schema.MaxSchemaBytes)
			bytes := allocated(func() { require.ErrorIs(t, schema.Check([]byte(text)), schema.ErrTooComplex) })
			require.Less(t, bytes, uint64(most))
		})
	}
	var document schema.Checker
	wide := `{"properties":{` + list(4900, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`
	refused := false
	for range 6 {
		refused = refused || document.Check([]byte(wide)) != nil
	}
	require.True(t, refused, "the compiler's time counts for the whole document")
	require.NoError(t, schema.Check([]byte(wide)))
}

// TestChecksAreBounded: whatever a schema makes of a value, the steps are bounded, and so is what is allocated. Steps are paid before
// they are made, so the test of each kind is that those who would need more are refused.
func TestChecksAreBounded(t *testing.T) {
	numbers := "[" + strings.Repeat("1,", 400_000) + "1]"
	letters := `"` + strings.Repeat("ab", 30_000) + `"`
	same := func(n int, one string) string { return "[" + strings.Repeat(one+",", n-1) + one + "]" }
	for name, test := range map[string]struct{ schema, value string }{
		"slow patterns": {
			`{"properties":{"x":{"allOf":[` + list(400, func(i int) string {
				return fmt.Sprintf(`{"pattern":"^(a?b?|ba|(x|a)*){%d}c$"}`, 4+i%2)
			}) + `]}}}`, `{"x":` + letters + `}`,
		},
		"patterns of names": {
			`{"patternProperties":{` + list(300, func(i int) string { return fmt.Sprintf(`"x%d(a|b)*c":{}`, i) }) + `}}`,
			`{` + list(3000, func(i int) string { return fmt.Sprintf(`"%d":1`, i) }) + `}`,
		},
		// Schemas without keywords are not asked anything by the library: they were not counted.
		"empty schemas":     {`{"allOf":` + same(2500, `{"items":{}}`) + `}`, numbers},
		"contains":          {`{"allOf":` + same(2500, `{"contains":true}`) + `}`, numbers},
		"chain":             {`{"items":{"$ref":"#/$defs/d0"},"$defs":{` + list(1000, func(i int) string { return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1) }) + `,"d1000":{}}}`, numbers},
		"numbers of enum":   {`{"items":{"enum":[` + list(9900, func(i int) string { return fmt.Sprint(i) }) + `]}}`, same(1000, "-1")},
		"long numbers":      {`{"items":{"allOf":` + same(20, `{"multipleOf":3}`) + `}}`, same(2500, strings.Repeat("9", 390)+"e-395")},
		"names not allowed": {`{"allOf":` + same(2000, `{"additionalProperties":{"type":"string"}}`) + `}`, `{` + list(6000, func(i int) string { return fmt.Sprintf(`"%d":1`, i) }) + `}`},
		"not evaluated":     {`{"allOf":` + same(300, `{"allOf":[{"minProperties":1}]}`) + `,"unevaluatedProperties":true}`, `{` + list(9000, func(i int) string { return fmt.Sprintf(`"%d":1`, i) }) + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Steps(t.Context(), []byte(test.schema), []byte(test.value))
			require.ErrorIs(t, err, schema.ErrTooComplex)
		})
	}
}

// TestUniqueItems: items whose hashes the library finds equal, but which differ, took quadratic time. Here it is linear.
func TestUniqueItems(t *testing.T) {
	// Each is the same sequence of bytes in the library's hash, cut into two texts at another place.
	item := func(i int) string {
		return fmt.Sprintf(`["%sa","%sa"]`, strings.Repeat(`a\u0004`, i), strings.Repeat(`a\u0004`, 400-i))
	}
	steps := func(n int) int {
		taken, err := schema.Steps(t.Context(), []byte(`{"uniqueItems":true}`), []byte(`[`+list(n, item)+`]`))
		require.NoError(t, err)
		return taken
	}
	require.Less(t, steps(200), 5*steps(50))
	require.Greater(t, steps(200), 3*steps(50), "what is compared has been paid")
	for value, wrong := range map[string]string{
		`[1,2,1.0]`: "items at 0 and 2 are equal", `[{"a":1,"b":[]},{"b":[],"a":10e-1}]`: "items at 0 and 1 are equal",
		`["a","b"]`: "", `["1",1,true,null,[],{}]`: "", `[["a","b"],["a\u0004b"],["ab",""]]`: "", `[1,-1]`: "", `[0,-0]`: "items at 0 and 1 are equal",
	} {
		err := schema.Validate(t.Context(), []byte(`{"uniqueItems":true}`), []byte(value))
		if wrong == "" {
			require.NoError(t, err, value)
		} else {
			require.EqualError(t, err, wrong, value)
		}
	}
}

// TestWordsAreBounded: the text about what is wrong does not quote a large value a thousand times.
func TestWordsAreBounded(t *testing.T) {
	long := `"` + strings.Repeat("ş", 100_000) + `"`
	test := `{"allOf":[` + list(1000, func(i int) string { return fmt.Sprintf(`{"format":"ipv4","const":%d},{"pattern":"^x"}`, i) }) + `]}`
	bytes := allocated(func() {
		err := schema.Validate(t.Context(), []byte(test), []byte(long))
		require.Error(t, err)
		require.Less(t, len(err.Error()), 2000)
	})
	require.Less(t, bytes, uint64(100<<20))
	deep := strings.Repeat(`{"`+strings.Repeat("k", 10_000)+`":`, 60) + "[" + strings.Repeat("1,", 1000) + "1]" + strings.Repeat("}", 60)
	bytes = allocated(func() {
		err := schema.Validate(t.Context(), []byte(`{"type":["object","array"],"additionalProperties":{"$ref":"#"},"items":false}`), []byte(deep))
		require.Error(t, err)
	})
	require.Less(t, bytes, uint64(100<<20))
}

// TestPatternsAsValues: format "regex" asks whether a value is a pattern.
func TestPatternsAsValues(t *testing.T) {
	text := []byte(`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"format":"regex"}}`)
	require.NoError(t, schema.Validate(t.Context(), text, []byte(`["^a+$"]`)))
	bytes := allocated(func() {
		err := schema.Validate(t.Context(), text, []byte(`[`+list(300, func(i int) string { return fmt.Sprintf(`"a{990}b{%d}"`, i) })+`]`))
		require.ErrorContains(t, err, "too large")
	})
	require.Less(t, bytes, uint64(most))
}

// TestContext: a check ends with its context, also in its midst.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := schema.Validate(ctx, []byte(`{"items":{"type":"number"}}`), []byte("["+strings.Repeat("1,", 60_000)+"1]"))
	require.ErrorIs(t, err, context.Canceled)

	ctx = &ending{Context: t.Context(), after: 5}
	steps, err := schema.Steps(ctx, []byte(`{"items":{"type":"number"}}`), []byte("["+strings.Repeat("1,", 60_000)+"1]"))
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, steps, schema.MaxSteps/2)
}

// ending is a context that ends when it has been asked some times.
type ending struct {
	context.Context //nolint:containedctx // it is one

	after int
}

func (e *ending) Err() error {
	if e.after--; e.after < 0 {
		return context.Canceled
	}
	return nil
}

// TestBriefly: what rules may still check themselves is small.
func TestBriefly(t *testing.T) {
	require.NoError(t, schema.ValidateBriefly([]byte(`{"type":"object","properties":{"a":{"pattern":"^x+$"}}}`), []byte(`{"a":"xx"}`)))
	require.EqualError(t, schema.ValidateBriefly([]byte(`{"required":["a"]}`), []byte(`{}`)), "missing property 'a'")
	for name, test := range map[string]struct{ schema, value string }{
		"large schema":   {`{"title":"` + strings.Repeat("x", schema.MaxBriefBytes) + `"}`, `{}`},
		"large value":    {`{}`, `"` + strings.Repeat("x", schema.MaxBriefBytes) + `"`},
		"large patterns": {`{"pattern":"a{900}"}`, `"a"`},
		"slow patterns":  {`{"pattern":"^(a|b|aa|ab){20}c"}`, `"` + strings.Repeat("ab", 3000) + `"`},
		"many items":     {`{"items":{"type":"integer"}}`, "[" + strings.Repeat("1,", 3000) + "1]"},
	} {
		require.ErrorIs(t, schema.ValidateBriefly([]byte(test.schema), []byte(test.value)), schema.ErrTooComplex, name)
	}
}
