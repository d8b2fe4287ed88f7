package routing_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/core/failure"
	"parley/actors/core/routing"
)

func told(refused *failure.Failure) string {
	if refused == nil {
		return ""
	}
	return (&failure.Wording{}).Text(refused)
}

func read(tb testing.TB, dynamic string) *routing.Settings {
	tb.Helper()
	settings, refused := routing.Read(`{"dynamic":` + dynamic + `}`)
	require.Empty(tb, told(refused))
	return settings
}

func TestRefused(t *testing.T) {
	many := strings.Repeat(`{"modelKey":"a"},`, 17)
	words := strings.Repeat(`"w",`, routing.MaxKeywords+1)
	rule := func(condition string) string {
		return `{"strategy":"rule-based","defaultModelKey":"a","rules":[{"targetModelKey":"b","conditions":[` + condition + `]}]}`
	}
	for dynamic, want := range map[string]string{
		`null`:                      "settings.dynamic is required",
		`{}`:                        "settings.dynamic.strategy must be one of: rule-based, model-based, priority, weighted, cheapest, fastest",
		`{"strategy":7}`:            "settings.dynamic.strategy has the wrong type",
		`{"strategy":"rule-based"}`: "settings.dynamic.defaultModelKey is required",
		`{"strategy":"model-based","defaultModelKey":"a"}`:                                                                                                              "settings.dynamic.decider is required",
		`{"strategy":"model-based","defaultModelKey":"a","decider":{"modelKey":"d","labels":[]}}`:                                                                       "settings.dynamic.decider.labels is required",
		`{"strategy":"model-based","defaultModelKey":"a","decider":{"labels":[{"label":"x","targetModelKey":"a"}]}}`:                                                    "settings.dynamic.decider.modelKey is required",
		`{"strategy":"model-based","defaultModelKey":"a","decider":{"modelKey":"d","labels":[{"label":"x","targetModelKey":"a"},{"label":" X","targetModelKey":"a"}]}}`: `settings.dynamic.decider.labels[1].label: " X" is there twice`,
		`{"strategy":"priority"}`: "settings.dynamic.targets is required",
		`{"strategy":"priority","targets":[` + many[:len(many)-1] + `]}`:                                      "settings.dynamic.targets has more than 16 entries",
		`{"strategy":"priority","targets":[{"modelKey":"a"},{"modelKey":"a"}]}`:                               `settings.dynamic.targets[1].modelKey: "a" is there twice`,
		`{"strategy":"priority","targets":[{}]}`:                                                              "settings.dynamic.targets[0].modelKey is required",
		`{"strategy":"priority","targets":[{"modelKey":"a b"}]}`:                                              "settings.dynamic.targets[0].modelKey must be 1 to 128 letters, digits, '.', '-' and '_', beginning with a letter or digit",
		`{"strategy":"weighted","targets":[{"modelKey":"a","weight":-1}]}`:                                    "settings.dynamic.targets[0].weight must be between 0 and 1000000",
		`{"strategy":"weighted","targets":[{"modelKey":"a","weight":0}]}`:                                     "settings.dynamic.targets[0].weight must be a number above 0",
		`{"strategy":"rule-based","defaultModelKey":"a","rules":[{}]}`:                                        "settings.dynamic.rules[0].targetModelKey is required",
		`{"strategy":"rule-based","defaultModelKey":"a","rules":[{"targetModelKey":"b","matchType":"none"}]}`: "settings.dynamic.rules[0].matchType must be all or any",
		rule(`{"signal":"mood","operator":"eq","value":1}`):                                                   "settings.dynamic.rules[0].conditions[0].signal must be one of: inputTokensEst, messageCount, lastUserLength, hasTools, hasResponseFormat, hasImages, estimatedCostUsd, keyword",
		rule(`{"signal":"messageCount","operator":"contains","value":1}`):                                     "settings.dynamic.rules[0].conditions[0].operator: signal messageCount is compared by one of: gt, gte, lt, lte, eq, neq",
		rule(`{"signal":"messageCount","operator":"gt","value":"1"}`):                                         "settings.dynamic.rules[0].conditions[0].value must be a number",
		rule(`{"signal":"hasTools","operator":"eq"}`):                                                         "settings.dynamic.rules[0].conditions[0].value must be true or false",
		rule(`{"signal":"keyword","operator":"matches","value":"(a+)+$"}`):                                    "settings.dynamic.rules[0].conditions[0].operator: signal keyword is compared by one of: contains, not_contains",
		rule(`{"signal":"keyword","operator":"contains","value":[` + words[:len(words)-1] + `]}`):             "settings.dynamic.rules: keywords has more than 256 entries",
		rule(`{"signal":"keyword","operator":"contains","value":" "}`):                                        "settings.dynamic.rules[0].conditions[0].value must be 1 to 128 characters",
		rule(`{"signal":"keyword","operator":"contains","value":3}`):                                          "settings.dynamic.rules[0].conditions[0].value must be a text or an array of texts",
	} {
		_, refused := routing.Read(`{"dynamic":` + dynamic + `}`)
		require.Equal(t, want, told(refused), dynamic)
	}
}

// TestConditions: signals against operators and values.
func TestConditions(t *testing.T) {
	request := &routing.Signals{
		InputTokensEst: 100, MessageCount: 3, LastUserLength: 12, HasTools: true, Text: "Please WRITE code (a+)+", EstimatedCostUSD: 0,
	}
	for condition, want := range map[string]bool{
		`"inputTokensEst","operator":"gt","value":99`: true, `"inputTokensEst","operator":">","value":100`: false,
		`"messageCount","operator":"lte","value":3`: true, `"messageCount","operator":"==","value":3`: true, `"messageCount","operator":"!=","value":3`: false,
		`"lastUserLength","operator":"<","value":12`: false, `"lastUserLength","operator":"gte","value":12`: true,
		`"hasTools","operator":"eq","value":true`: true, `"hasTools","operator":"neq","value":true`: false,
		`"hasImages","operator":"eq","value":false`: true, `"hasResponseFormat","operator":"eq","value":true`: false,
		`"keyword","operator":"contains","value":"write CODE"`: true, `"keyword","operator":"contains","value":["no","(A+)+"]`: true,
		`"keyword","operator":"contains","value":"a.*c"`: false, `"keyword","operator":"not_contains","value":["poem"]`: true,
		`"estimatedCostUsd","operator":"gt","value":0.5`: true, `"estimatedCostUsd","operator":"gt","value":1.5`: false,
	} {
		settings := read(t, `{"strategy":"rule-based","defaultModelKey":"d","rules":[{"targetModelKey":"skipped"},{"targetModelKey":"x","conditions":[{"signal":`+condition+`}]}]}`)
		got := routing.Order(settings, &routing.Env{
			Signals: request, Find: func(string) (routing.Found, bool) { return routing.Found{}, true },
			Cost: func(key string) (int64, bool) { return 1e9, key == "d" },
		})
		require.Equal(t, want, got[0] == "x", condition)
	}
}

// TestOrder: what each strategy tries, in a project whose model "gone" does not exist.
func TestOrder(t *testing.T) {
	const conditions = `"conditions":[{"signal":"messageCount","operator":"eq","value":1},{"signal":"hasTools","operator":"eq","value":true}]`
	const three = `"targets":[{"modelKey":"a"},{"modelKey":"b"},{"modelKey":"c"}]`
	nested := map[string]string{
		"inner": `{"strategy":"priority","targets":[{"modelKey":"b"},{"modelKey":"c"}]}`,
		"asks":  `{"strategy":"model-based","defaultModelKey":"b","decider":{"modelKey":"judge","labels":[{"label":"hard","targetModelKey":"c"}]}}`,
		"deep1": `{"strategy":"priority","targets":[{"modelKey":"deep2"},{"modelKey":"a"}]}`,
		"deep2": `{"strategy":"priority","targets":[{"modelKey":"deep3"},{"modelKey":"b"}]}`,
		"deep3": `{"strategy":"priority","targets":[{"modelKey":"c"},{"modelKey":"deep1"}]}`,
	}
	for _, c := range []struct{ name, dynamic, word, want string }{
		{"first match", `{"strategy":"rule-based","defaultModelKey":"a","fallbackModelKey":"c","rules":[{"targetModelKey":"b","matchType":"any",` + conditions + `},{"targetModelKey":"a",` + conditions + `}]}`, "", "b c"},
		{"all of them", `{"strategy":"rule-based","defaultModelKey":"a","rules":[{"targetModelKey":"b",` + conditions + `}]}`, "", "a"},
		{"a target that is gone", `{"strategy":"rule-based","defaultModelKey":"a","fallbackModelKey":"c","rules":[{"targetModelKey":"gone","matchType":"any",` + conditions + `}]}`, "", "a c"},
		{"decided", `{"strategy":"model-based","defaultModelKey":"a","decider":{"modelKey":"judge","labels":[{"label":"Hard","targetModelKey":"c"}]}}`, " hard\n", "c"},
		{"not decided", `{"strategy":"model-based","defaultModelKey":"a","fallbackModelKey":"a","decider":{"modelKey":"judge","labels":[{"label":"Hard","targetModelKey":"c"}]}}`, "no idea", "a"},
		{"priority", `{"strategy":"priority",` + three + `,"defaultModelKey":"a","fallbackModelKey":"d"}`, "", "a b c d"},
		{"weighted", `{"strategy":"weighted","targets":[{"modelKey":"a","weight":0},{"modelKey":"b","weight":1},{"modelKey":"c","weight":9}]}`, "", "c b a"},
		{"cheapest", `{"strategy":"cheapest","targets":[{"modelKey":"d"},{"modelKey":"a"},{"modelKey":"b"},{"modelKey":"c"}]}`, "", "c b a d"},
		{"fastest", `{"strategy":"fastest","targets":[{"modelKey":"a"},{"modelKey":"b"},{"modelKey":"d"}]}`, "", "d b a"},
		{"nested", `{"strategy":"priority","targets":[{"modelKey":"inner"},{"modelKey":"a"},{"modelKey":"b"}]}`, "", "b c a"},
		{"nested by cost", `{"strategy":"cheapest","targets":[{"modelKey":"a"},{"modelKey":"inner"}]}`, "", "b c a"},
		{"a decider that leads", `{"strategy":"priority","targets":[{"modelKey":"asks"}]}`, "hard", "c"},
		{"a decider that does not", `{"strategy":"priority","targets":[{"modelKey":"a"},{"modelKey":"asks"}]}`, "hard", "a b"},
		{"too deep", `{"strategy":"priority","targets":[{"modelKey":"deep1"}]}`, "", "b a"},
		{"nothing is left", `{"strategy":"priority","targets":[{"modelKey":"gone"}]}`, "", ""},
	} {
		env := &routing.Env{
			Signals: &routing.Signals{MessageCount: 1}, Draw: func() float64 { return 0.5 }, Decide: func(*routing.Decider) string { return c.word },
			Find: func(key string) (routing.Found, bool) {
				if dynamic, is := nested[key]; is {
					return routing.Found{Dynamic: read(t, dynamic)}, true
				}
				return routing.Found{}, key != "gone"
			},
			Cost: func(key string) (int64, bool) {
				cost, known := map[string]int64{"a": 3, "b": 2, "c": 1}[key]
				return cost, known
			},
			Pace: func(key string) (time.Duration, bool) {
				pace, known := map[string]time.Duration{"a": 3, "b": 2}[key]
				return pace, known
			},
		}
		require.Equal(t, c.want, strings.Join(routing.Order(read(t, c.dynamic), env), " "), c.name)
	}
}

// TestWeights: a target is first as often as its weight says, and all are tried.
func TestWeights(t *testing.T) {
	settings := read(t, `{"strategy":"weighted","targets":[{"modelKey":"a","weight":1},{"modelKey":"b","weight":3},{"modelKey":"c","weight":6}]}`)
	first, at := map[string]int{}, 0.0
	for range 20_000 {
		got := routing.Order(settings, &routing.Env{
			Find: func(string) (routing.Found, bool) { return routing.Found{}, true },
			Draw: func() float64 { at += 0.6180339887498949; at -= float64(int(at)); return mix(at) },
		})
		require.Len(t, got, 3)
		first[got[0]]++
	}
	for key, share := range map[string]float64{"a": 0.1, "b": 0.3, "c": 0.6} {
		require.InDelta(t, share, float64(first[key])/20_000, 0.02, key)
	}
}

// mix makes numbers that follow each other look as if they had nothing to do with each other.
func mix(u float64) float64 {
	x := uint64(u * (1 << 53))
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// TestNeverACycle: whatever dynamic models name, what the checker lets pass has no cycle and is not deep, every model that is tried
// exists, none is dynamic, none is tried twice, and an order ends.
func TestNeverACycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"p", "q", "d0", "d1", "d2", "d3", "d4"}
		project := map[string]routing.Found{"p": {}, "q": {Category: "llm"}}
		find := func(key string) (routing.Found, bool) { found, known := project[key]; return found, known }
		for _, key := range names[2:] {
			if !rapid.Bool().Draw(t, "is there") {
				continue
			}
			targets := rapid.SliceOfNDistinct(rapid.SampledFrom(append(names, "gone")), 1, 3, rapid.ID).Draw(t, key)
			dynamic := &routing.Settings{Strategy: rapid.SampledFrom(routing.Strategies()[2:]).Draw(t, "strategy")}
			for _, target := range targets {
				dynamic.Targets = append(dynamic.Targets, routing.Target{ModelKey: target})
			}
			if rapid.Bool().Draw(t, "falls back") {
				dynamic.FallbackModelKey = rapid.SampledFrom(names).Draw(t, "fallback")
			}
			project[key] = routing.Found{Dynamic: dynamic}
			checker := routing.NewChecker(find)
			refused := checker.Check(key, "llm", dynamic)
			for other := range project {
				if refused == nil && project[other].Dynamic != nil {
					refused = checker.CheckNesting(other)
				}
			}
			if refused != nil {
				delete(project, key)
				continue
			}
			depth, cycle := deepest(project, key, nil)
			if cycle || depth > routing.MaxNesting {
				t.Fatalf("%s is %d deep, cycle: %v", key, depth, cycle)
			}
		}
		for key, model := range project {
			if model.Dynamic == nil {
				continue
			}
			got := routing.Order(model.Dynamic, &routing.Env{
				Find: find, Draw: func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "draw") },
				Cost: func(key string) (int64, bool) { return int64(len(key)), key == "p" },
				Pace: func(key string) (time.Duration, bool) { return 1, key == "q" },
			})
			for i, tried := range got {
				if found, known := project[tried]; !known || found.Dynamic != nil || slices.Contains(got[:i], tried) {
					t.Fatalf("%s tries %v", key, got)
				}
			}
		}
	})
}

func deepest(project map[string]routing.Found, key string, path []string) (int, bool) {
	dynamic := project[key].Dynamic
	if dynamic == nil {
		return 0, false
	}
	if slices.Contains(path, key) {
		return 0, true
	}
	most := 0
	for _, target := range append(slices.Clone(dynamic.Targets), routing.Target{ModelKey: dynamic.FallbackModelKey}) {
		depth, cycle := deepest(project, target.ModelKey, append(slices.Clone(path), key))
		if cycle {
			return 0, true
		}
		most = max(most, depth)
	}
	return most + 1, false
}
