package rawjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine/rawjson"
)

func TestGauge(t *testing.T) {
	const depth, values = 3, 5
	for text, fits := range map[string]bool{
		``:                               true,
		`[[[]]]`:                         true,
		`[[[[]]]]`:                       false,
		`{"a":{"b":{"c":{}}}}`:           false,
		`{"a":"[[[[[,,,,,,"}`:            true,
		`{"a":"\"[[[[","b":"\\"}`:        true,
		`{"a":"\\",[[[[`:                 false,
		`[1,2,3,4,5]`:                    true,
		`[1,2,3,4,5,6]`:                  false,
		`[[],[],[]]`:                     false,
		"[\n\n[\n\n[\n\n[":               false,
		": \"\n[[[[":                     false,
		": \"\rdata: [[[[":               false,
		"\"\\\n[[[[":                     false,
		`]]]][[[`:                        true,
		strings.Repeat("[1]\n", 6):       false,
		strings.Repeat("[1]\r\n\r\n", 6): false,
	} {
		require.Equal(t, fits, rawjson.Modest([]byte(text), depth, values), "%q", text)
	}
	events := func(text string) error {
		g := rawjson.Gauge{MaxDepth: depth, MaxValues: values, Events: true}
		for i := range len(text) {
			if err := g.Take([]byte(text[i : i+1])); err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, events(strings.Repeat("data: [1,2]\n\n", 10)))
	require.NoError(t, events(strings.Repeat("data: [1,2]\r\n\r\n", 10)))
	require.NoError(t, events("data: [[[\n\ndata: [[[\n\n"))
	require.ErrorIs(t, events(strings.Repeat("data: [\n", 4)), rawjson.ErrTooComplex, "an event of many lines is one text")
	require.ErrorIs(t, events(strings.Repeat("data: 1,\n", 6)), rawjson.ErrTooComplex)
	for _, between := range []string{"x\n", "\r\r\n", " \n", ":\n"} {
		require.ErrorIs(t, events(strings.Repeat("data: 1,\n"+between, 6)), rawjson.ErrTooComplex, "%q is no empty line", between)
	}
}

func TestGaugeOfCR(t *testing.T) {
	take := func(text string) error {
		g := rawjson.Gauge{MaxDepth: 3, MaxValues: 5, Events: true, CR: true}
		for i := range len(text) {
			if err := g.Take([]byte(text[i : i+1])); err != nil {
				return err
			}
		}
		return nil
	}
	for _, end := range []string{"\r", "\n", "\r\n"} {
		require.NoError(t, take(strings.Repeat("data: 1,2"+end+end, 9)), "%q", end)
		require.ErrorIs(t, take(strings.Repeat("data: 1,2"+end, 9)), rawjson.ErrTooComplex, "%q ends a line, not a text", end)
	}
}

func TestGaugeValues(t *testing.T) {
	g := rawjson.Gauge{MaxDepth: 9, MaxValues: 9, Events: true}
	for seen, text := range []string{"", "data: [1", ",2]\n", "\n", "data: {}", "\n\n", "data: [[]]\n\n"} {
		require.NoError(t, g.Take([]byte(text)))
		require.Equal(t, []int{0, 1, 2, 2, 3, 3, 5}[seen], g.Values(), "%q", text)
	}
}

// TestGaugeCounts: of JSON, the gauge is never below what there is.
func TestGaugeCounts(t *testing.T) {
	var measure func(value any) (depth, values int)
	measure = func(value any) (depth, values int) {
		inner := func(child any) {
			d, v := measure(child)
			depth, values = max(depth, d), values+v
		}
		switch value := value.(type) {
		case []any:
			for _, child := range value {
				inner(child)
			}
			depth++
		case map[string]any:
			for _, child := range value {
				inner(child)
			}
			depth++
		}
		return depth, values + 1
	}
	rapid.Check(t, func(t *rapid.T) {
		drawn := object(t, 4)
		raw, err := json.MarshalIndent(drawn, "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"))
		require.NoError(t, err)
		var decoded any
		require.NoError(t, json.Unmarshal(raw, &decoded))
		depth, values := measure(decoded)
		require.True(t, rawjson.Modest(raw, depth, 2*values))
		require.False(t, rawjson.Modest(raw, depth-1, 2*values))
		if values > 1 {
			require.False(t, rawjson.Modest(raw, depth, values/2-1))
		}
	})
}
