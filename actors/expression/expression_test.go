package expression_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/builtin"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/actors/expression"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func names() map[string]any { return map[string]any{"args": map[string]any{}} }

func values(tb testing.TB, args string) map[string]any {
	tb.Helper()
	var decoded map[string]any
	require.NoError(tb, json.Unmarshal([]byte(args), &decoded))
	return map[string]any{"args": decoded}
}

const order = `{"amount": 120.5, "to": "Me@example.org", "tags": ["b", "a", "b"], "deep": {"er": [{"n": 1}, {"n": 2.5}]},
	"yes": true, "none": null, "date": "2026-11-22", "count": 3, "when": "90m"}`

// What an ordinary expression says is what the language says without the guards.
func TestSameAsTheLanguage(t *testing.T) {
	t.Parallel()
	evaluator := expression.New(2)
	for _, source := range []string{
		`args.amount > 100`, `args.amount + 1 < 100`, `args.to == "Me@example.org"`, `args.to != args.tags[0]`, `args.tags == ["b", "a", "b"]`,
		`"a" in args.tags`, `"x" not in args.tags`, `"deep" in args`, `2 in 1..3`, `args.count in 1..3`, `len(args.tags) == 3 and args.yes`, `not args.yes or args.none == nil`,
		`lower(args.to) endsWith "@example.org"`, `upper(args.to) startsWith "ME"`, `args.to contains "@"`, `args.none contains "a"`,
		`args.to matches "^[A-Za-z]+@example[.]org$"`, `args.to not matches "x"`, `args.none matches "a"`, `args.deep?.er[0].n == 1`, `(args.nothing?.er?.n ?? 5) == 5`,
		`(args.nothing ?? {"a": 1}).a == 1`, `args["to"][0:2] == "Me"`, `args.tags[1:][0] == "a"`, `args.tags[len(args.tags) - 1] == "b"`,
		`all(args.deep.er, .n > 0)`, `any(args.deep.er, {.n > 2})`, `one(args.tags, # == "a")`, `none(args.tags, # == "c")`,
		`count(args.tags, # == "b") == 2`, `count([true, false, true]) == 2`, `sum([1, 2, 3]) == 6`, `sum(args.deep.er, .n) == 3.5`,
		`map(args.tags, upper(#)) == ["B", "A", "B"]`, `filter(args.tags, # != "b") == ["a"]`, `find(args.tags, # < "b") == "a"`, `findIndex(args.tags, # == "a") == 1`,
		`findLast(args.tags, # == "b") == "b"`, `findLastIndex(args.tags, # == "b") == 2`, `len(groupBy(args.tags, #)["b"]) == 2`, `sortBy(args.deep.er, .n, "desc")[0].n == 2.5`,
		`sort(args.tags) == ["a", "b", "b"]`, `sort(args.tags, "desc")[0] == "b"`, `uniq(args.tags) == ["b", "a"]`, `reduce(1..4, #acc * #, 1) == 24`, `reduce(args.tags, #acc + #) == "bab"`,
		`join(args.tags, "-") == "b-a-b"`, `split("a,b", ",") == ["a", "b"]`, `split(args.to, "@", 1)[0] == args.to`, `splitAfter("a,b", ",")[0] == "a,"`, `replace("aXa", "X", "b") == "aba"`,
		`repeat("ab", 2) == "abab"`, `trim("  a ") == "a"`, `trim("xax", "x") == "a"`, `trimPrefix("ab", "a") == "b"`, `trimSuffix("ab", "b") == "a"`, `indexOf("abc", "c") == 2`, `lastIndexOf("abca", "a") == 3`,
		`hasPrefix("ab", "a")`, `hasSuffix("ab", "b")`, `string(args.count) == "3"`, `int("7") == 7`, `float("1.5") == 1.5`, `abs(-1) == 1`, `ceil(1.2) == 2`, `floor(1.8) == 1`, `round(1.5) == 2`,
		`max(1, args.amount) == 120.5`, `min([3, 1, 2]) == 1`, `mean([1, 3]) == 2`, `median([1, 2, 9]) == 2`, `first(args.tags) == "b"`, `last(args.tags) == "b"`, `get(args, "nope") == nil`, `take(args.tags, 1) == ["b"]`,
		`len(keys(args.deep)) == 1`, `values({"a": 1}) == [1]`, `toPairs({"a": 1})[0][1] == 1`, `fromPairs([["a", 1]]).a == 1`, `reverse(args.tags)[0] == "b"`, `concat([1], [2]) == [1, 2]`, `flatten([[1], [2, [3]]]) == [1, 2, 3]`,
		`fromJSON('{"a": [1]}').a[0] == 1`, `toJSON({"a": 1}) contains "1"`, `fromBase64(toBase64("a")) == "a"`, `type(args.count) == "float"`, `bitand(6, 3) == 2`, `bitshl(1, 4) == 16`,
		`date(args.date).Year() == 2026`, `date(args.date) < date("2027-01-01")`, `duration(args.when).Minutes() == 90`, `date(args.date) + duration("24h") == date("2026-11-23")`, `date("22.11.2026", "02.01.2006").Day() == 22`, `now().Year() > 2000`,
		`let x = args.count; x ** 2 == 9`, `let f = filter(args.tags, # == "b"); len(f) == 2`, `args.yes ? args.count == 3 : false`, `if args.yes { int(args.count) % 2 == 1 } else { false }`, `args.amount > 1; args.yes`,
		`args.to | lower() | hasPrefix("me")`, `-args.count == -3`, `args.count == 3.0`, `args.yes`, `args.nothing`, `"b" + "a" == args.tags[0] + args.tags[1]`, `{"a": args.count} == {"a": 3.0}`, `map(args.tags, ({v: #}))[0].v == "b"`,
		`all([[1, 2], [3]], all(#, # > 0))`, `map(1..3, map(1..#, #index))[2] == [0, 1, 2]`, `args.tags[0] <= args.tags[1]`, `args.amount >= args.count`,
	} {
		program, err := expr.Compile(source, expr.Env(names()), expr.AsBool())
		require.NoError(t, err, source)
		want, err := expr.Run(program, values(t, order))
		require.NoError(t, err, source)
		condition, err := expression.Condition(source, names())
		require.NoError(t, err, source)
		for range 2 {
			got, err := evaluator.Holds(t.Context(), condition, values(t, order))
			require.NoError(t, err, source)
			require.Equal(t, want, got, source)
		}
	}
}

// Every function of the language is either used above, or refused for a reason.
func TestEveryFunctionIsDecided(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("charge.go")
	require.NoError(t, err)
	for _, function := range builtin.Builtins {
		if function.Name == "timezone" {
			continue
		}
		require.Contains(t, string(text), `"`+function.Name+`"`)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`args.`:                                      "unexpected end",
		`nothing > 1`:                                "unknown name nothing",
		`1 + 1`:                                      "expected bool",
		`$env["args"] == 1`:                          "$env cannot be used",
		`timezone("UTC") == nil`:                     "timezone cannot be used",
		`date("a", "b", "UTC") == nil`:               "with a time zone",
		`exec("rm")`:                                 "unknown name exec",
		`args.f()`:                                   "f cannot be called",
		`now().Format("2006") == "2026"`:             "Format cannot be called",
		`get(now(), "Format")("2006") == 1`:          "unexpected token",
		`args.a matches args.b`:                      "must be written out",
		`args.a matches "(a{100}){100}"`:             "invalid repeat count",
		`args.a matches "((a{100}|b{100}){10})"`:     "too large",
		`args.a matches "("`:                         "missing closing",
		`all(args.a, 1)`:                             "should return boolean",
		`lower(1) == "a"`:                            "cannot use int",
		strings.Repeat("(", 5000) + "true":           "unexpected token",
		strings.Repeat("!", 300) + "true":            "nested deeper",
		strings.Repeat("!", 5000) + "true":           "exceeds maximum allowed nodes",
		strings.Repeat("true or ", 290) + "true":     "nested deeper",
		strings.Repeat(" ", 9000) + "true":           "at most 8192 bytes",
		"[" + strings.Repeat("1,", 1500) + "1] == 1": "exceeds maximum allowed nodes",
	} {
		_, err := expression.Condition(source, names())
		require.ErrorContains(t, err, want, source[:min(len(source), 60)])
		require.Less(t, len(err.Error()), 600)
	}
}

// hostile are expressions, or arguments, that would take for ever, or all memory.
func hostile() map[string]string {
	big, list := strings.Repeat("a", 60_000), "["+strings.TrimSuffix(strings.Repeat(`"aaaaaaaaaaaaaaaaaaaaaaaaaaa",`, 2000), ",")+"]"
	nested := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	args := fmt.Sprintf(`{"big": %q, "list": %s, "nested": %s, "count": 1000000000}`, big, list, nested)
	return map[string]string{
		`let r = 1..1000; all(r, all(r, all(r, all(r, # >= 0))))`:                                                                 args,
		`len(1..1000000000) > 0`:                                                                                                  args,
		`len(-9223372036854775807..9223372036854775807) > 0`:                                                                      args,
		`len(1..args.count) > 0`:                                                                                                  args,
		`len(repeat("a", args.count)) > 0`:                                                                                        args,
		`len(repeat(args.big, 999999)) > 0`:                                                                                       args,
		`len(repeat(repeat(args.big, 100), 1000)) > 0`:                                                                            args,
		`len(reduce(1..60, #acc + #acc, "xx")) > 0`:                                                                               args,
		`len(reduce(1..60, concat(#acc, #acc), [1])) > 0`:                                                                         args,
		`string(reduce(1..60, [#acc, #acc], 1)) == "x"`:                                                                           args,
		`toJSON(reduce(1..60, [#acc, #acc], 1)) == "x"`:                                                                           args,
		`flatten(reduce(1..60, [#acc, #acc], 1)) == [1]`:                                                                          args,
		`reduce(1..60, [#acc, #acc], 1) == reduce(1..60, [#acc, #acc], 1)`:                                                        args,
		`reduce(1..60, [#acc, #acc], 1) in [reduce(1..60, [#acc, #acc], 1)]`:                                                      args,
		`max(reduce(1..60, [#acc, #acc], 1)) == 1`:                                                                                args,
		`len(fromPairs(reduce(1..60, [#acc, #acc], 1))) == 1`:                                                                     args,
		`len(fromPairs([reduce(1..60, {"a": #acc, "b": #acc}, 1)])) == 1`:                                                         args,
		`len(uniq(1..100000)) > 0`:                                                                                                args,
		`let s = repeat(args.big, 20); all(1..100000, s + "a" != s + "b")`:                                                        args,
		`let s = repeat(args.big, 20); let u = s + ""; all(1..100000, s == u and s == u and s == u)`:                              args,
		`let s = repeat(args.big, 20); let u = s + "b"; all(1..100000, s < u and u > s)`:                                          args,
		`let s = repeat(args.big, 20); all(1..100000, lower(s) != upper(s))`:                                                      args,
		`let s = repeat(args.big, 20); all(1..100000, not (s contains "ab"))`:                                                     args,
		`all(1..1000, args.big not matches "(a*)*(a|b)*b$")`:                                                                      args,
		`all(1..100000, args.big not matches "(.*)(.*)(.*)(.*)(.*)[^a]")`:                                                         args,
		`let l = 1..500000; all(l, sum(l) > 0 and count(l, true) > 0)`:                                                            args,
		`let l = args.list; all(l, {let x = #; all(l, {let y = #; all(l, # + x + y != "")})})`:                                    args,
		`len(sortBy(1..100000, args.big[# % 50000:])) > 0`:                                                                        args,
		`len(groupBy(1..100000, args.big[# % 50000:])) > 0`:                                                                       args,
		`len(sort(map(1..100000, args.big[# % 50000:]))) > 0`:                                                                     args,
		`len(map(1..100000, map(1..1000, #))) > 0`:                                                                                args,
		`len(map(1..400000, {})) > 0`:                                                                                             args,
		`len(reduce(1..30, replace(#acc, "a", #acc), "aa")) > 0`:                                                                  args,
		`len(reduce(1..30, replace(#acc, "", "aaaaaaaa"), args.big)) > 0`:                                                         args,
		`len(reduce(1..30, join(split(#acc, ""), #acc), "aa")) > 0`:                                                               args,
		`len(map(1..1000, split(args.big, ""))) > 0`:                                                                              args,
		`len(reduce(1..60, toBase64(#acc), args.big)) > 0`:                                                                        args,
		`len(reduce(1..60, toJSON([#acc, #acc]), args.big)) > 0`:                                                                  args,
		`all(1..100000, fromJSON("[" + repeat("[],", 100000) + "1]") != nil)`:                                                     args,
		`args.nested == args.nested`:                                                                                              args,
		`toJSON(args.nested) == ""`:                                                                                               args,
		`let p = reduce(1..17, toPairs(fromPairs([[#acc, #acc]]))[0], "a"); all(1..100000, get(fromPairs([["a", 1]]), p) == nil)`: args,
		`reduce(1..200000, [#acc], 1) == reduce(1..200000, [#acc], 1)`:                                                            args,
		`all(1..100000, date(args.big) == nil)`:                                                                                   args,
		`all(1..1000000, trim(args.big, args.big) == "")`:                                                                         args,
		`all(1..100000, len(keys(args)) > 0 and len(values(args)) > 0 and len(toPairs(args)) > 0)`:                                args,
		`len(map(1..1000000, args.big + "a")) > 0`:                                                                                args,
		`len(reduce(1..1000000, {"a": #acc}, 1)) > 0`:                                                                             args,
		`args[reduce(1..60, [#acc, #acc], 1)] == 1`:                                                                               args,
		`(1 ?? args)[reduce(1..60, [#acc, #acc], 1):1] == 1`:                                                                      args,
		`get(args, reduce(1..60, [#acc, #acc], 1)) == 1 and string(reduce(1..60, [#acc, #acc], 1)) == ""`:                         args,
		`reduce(1..60, {"a": #acc, "b": #acc}, 1).a in {"x": 1}`:                                                                  args,
		`median(reduce(1..40, [#acc, #acc], 1)) == mean(reduce(1..40, [#acc, #acc], 1))`:                                          args,
		`let r = 1..1000; let a = args.list; none(r, any(a, one(a, count(r, # == 5) == 0)))`:                                      args,
		`let r = 1..100000; all(r, findLastIndex(r, # < 0) == nil and findLast(r, # < 0) == nil)`:                                 args,
	}
}

// A hostile expression costs a bounded time and memory, and an error says so.
func TestHostile(t *testing.T) { // not parallel: it measures
	evaluator := expression.New(1)
	for source, args := range hostile() {
		condition, err := expression.Condition(source, names())
		if err != nil {
			require.NotContains(t, err.Error(), "internal", source) // the language refuses it by itself
			continue
		}
		given := values(t, args)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, err = evaluator.Holds(t.Context(), condition, given)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		t.Logf("%6.1f ms %6.1f MB %v: %s", took.Seconds()*1000, float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), err, source)
		require.Error(t, err, source)
		require.Less(t, len(err.Error()), 600, source)
		require.Less(t, took, 30*time.Second, source) // 100 ms, and what else the machine has to do
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(200<<20), source)
	}
}

// TestCancelled: the context is looked at in mid-evaluation, and while waiting for a slot.
func TestCancelled(t *testing.T) {
	t.Parallel()
	condition, err := expression.Condition(`let r = 1..1000; all(r, all(r, all(r, # >= 0)))`, names())
	require.NoError(t, err)
	ctx := &stopping{Context: t.Context(), after: 3}
	_, err = expression.New(1).Holds(ctx, condition, names())
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 5, ctx.asked) // before it began, three times while it ran, and for what the error was

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = expression.New(1).Holds(ended, condition, names())
	require.ErrorIs(t, err, context.Canceled)
}

// stopping ends after it was asked so often.
type stopping struct {
	context.Context //nolint:containedctx // it is one
	asked, after    int
}

func (s *stopping) Err() error {
	if s.asked++; s.asked > s.after {
		return context.Canceled
	}
	return nil
}

// Only so many evaluations run at once; the others wait and are served.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	evaluator := expression.New(2)
	condition, err := expression.Condition(`all(1..1000, # > 0)`, names())
	require.NoError(t, err)
	done := make(chan error)
	for range 50 {
		go func() {
			holds, err := evaluator.Holds(t.Context(), condition, names())
			if err == nil && !holds {
				err = fmt.Errorf("all(1..1000, # > 0) does not hold")
			}
			done <- err
		}()
	}
	for range 50 {
		require.NoError(t, <-done)
	}
}

// Nothing of an expression is evaluated when it is compiled, and what is nested costs no more than its size.
func TestCompileIsBounded(t *testing.T) { // not parallel: it measures
	for _, source := range []string{
		`len(1..1000000000) == 1`, `1 in 1..1000000000`, `reduce(1..1000000000, # + #acc) == 1`, `"a" + repeat("a", 1000000) == ""`, `2 ** 1000000 == 1`,
		strings.Repeat("all([1], ", 120) + "true" + strings.Repeat(")", 120),
		strings.Repeat("(true ? ", 120) + "true" + strings.Repeat(" : false)", 120),
		strings.Repeat("[", 120) + strings.Repeat("]", 120) + " == 1",
		strings.Repeat(`{"a": `, 100) + "1" + strings.Repeat("}", 100) + " == 1",
		strings.Repeat("let x = 1; ", 120) + "true",
		strings.Repeat("lower(", 200) + `"a"` + strings.Repeat(")", 200) + ` == "a"`,
		strings.Repeat("(", 3000) + "true" + strings.Repeat(")", 3000),
		"args" + strings.Repeat("?.a", 200) + " == 1",
		"args" + strings.Repeat("[args", 200) + strings.Repeat("]", 200) + " == 1",
		strings.Repeat("(args.a ?? ", 200) + "1" + strings.Repeat(")", 200) + " == 1",
		`args.a matches "` + strings.Repeat(`(?i)\\pL`, 100) + `"`,
	} {
		began := time.Now()
		_, _ = expression.Condition(source, names())
		require.Less(t, time.Since(began), 30*time.Second, source[:min(len(source), 60)])
	}
}

// FuzzCondition: whatever is written and given, evaluation ends, in time and memory.
func FuzzCondition(f *testing.F) {
	for source := range hostile() {
		f.Add(source, `{"big":"aaa","list":["a","b"],"nested":[[1]],"count":10}`)
	}
	f.Add(`args.a matches "^a+$" and date(args.b).Year() > 2000`, `{"a":"aa","b":"2026-01-01"}`)
	evaluator := expression.New(1)
	f.Fuzz(func(t *testing.T, source, args string) {
		var decoded map[string]any
		if len(args) > 64<<10 || json.Unmarshal([]byte(args), &decoded) != nil {
			return
		}
		began := time.Now()
		condition, err := expression.Condition(source, names())
		require.Less(t, time.Since(began), 30*time.Second)
		if err != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began = time.Now()
		_, err = evaluator.Holds(t.Context(), condition, map[string]any{"args": decoded})
		require.Less(t, time.Since(began), 30*time.Second)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20))
		if err != nil {
			require.Less(t, len(err.Error()), 600)
		}
	})
}

func BenchmarkCondition(b *testing.B) {
	evaluator := expression.New(1)
	condition, err := expression.Condition(`args.amount > 100 and args.to != "me"`, names())
	require.NoError(b, err)
	given := values(b, order)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := evaluator.Holds(b.Context(), condition, given); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPatternsCountTogether: hundreds of patterns in one expression expand together.
func TestPatternsCountTogether(t *testing.T) {
	one := `args.a matches "a{100}"`
	_, err := expression.Approval(strings.TrimSuffix(strings.Repeat(one+" or ", 90), " or "))
	require.NoError(t, err)
	_, err = expression.Approval(strings.TrimSuffix(strings.Repeat(one+" or ", 120), " or "))
	require.ErrorContains(t, err, "too large together")
}
