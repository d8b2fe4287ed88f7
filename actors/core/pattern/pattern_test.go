package pattern_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/pattern"
)

func allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostile: what expands, or takes long to read, is refused before it does either, or costs little.
func TestHostile(t *testing.T) {
	many := func(one string) string { return strings.Repeat(one, pattern.MaxBytes/len(one)) }
	for name, source := range map[string]string{
		"repeats":           "a{1000}b{1000}",
		"repeats in row":    many("a{1000}"),
		"nested":            "((a{100}){10}|b)",
		"literal":           strings.Repeat("a{990}", 11),
		"classes":           many(`\pL`),
		"classes in one":    "[" + strings.Repeat(`\pL`, 1000) + "]",
		"classes repeated":  `^\pL{998}$`,
		"optional classes":  `^\pL{0,998}$`,
		"folded classes":    "(?i)" + strings.Repeat(`\pL`, 1000),
		"folded range":      "(?i)[" + strings.Repeat("B-\U0001e943", 500) + "]",
		"folded ranges":     "(?i)" + strings.Repeat("[B-\U0001e943]", 300),
		"folded, escaped":   "(?i)" + strings.Repeat(`[B-\x{1e943}]`, 300),
		"folded, with more": "(?s:x)(?s-i:(?mi:" + strings.Repeat("[B-\U0001e943]", 300) + "))",
		"long":              strings.Repeat("a", pattern.MaxBytes+1),
		"alternatives":      strings.Repeat("(a|b)", 600),
		"empty repeats":     strings.Repeat("(){1000}", 500),
		"deep":              strings.Repeat("(", 990) + strings.Repeat(")?", 990),
		"at the limit":      "(?:" + strings.Repeat("[a-cx-z]", 2) + "){0,900}",
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			bytes := allocated(func() {
				var all pattern.Allowance
				for range 1000 { // until the allowance is spent
					if _, err := pattern.Compile(source, pattern.MaxSize, &all); err != nil {
						break
					}
				}
			})
			t.Logf("%d KB, %v", bytes>>10, time.Since(begun))
			require.Less(t, bytes, uint64(50<<20))
		})
	}
}

// TestTogether: the patterns of a document share what it may cost, and each is bounded alone, too.
func TestTogether(t *testing.T) {
	var all pattern.Allowance
	compiled := 0
	for i := range 1000 {
		_, err := pattern.Compile(fmt.Sprintf("^[a-z]{%d}$", 100+i%10), pattern.MaxSize, &all)
		if err != nil {
			require.ErrorIs(t, err, pattern.ErrTooLarge)
			require.ErrorContains(t, err, "together")
			break
		}
		compiled++
	}
	require.Greater(t, compiled, 50)
	require.Less(t, compiled, 1000)
	_, err := pattern.Compile("a", pattern.MaxSize, &all)
	require.ErrorIs(t, err, pattern.ErrTooLarge, "what is spent stays so")
	_, err = pattern.Compile("a{600}", 500, new(pattern.Allowance))
	require.EqualError(t, err, "the pattern is too large: some 2401 instructions, at most 500")
}

// TestUsual: patterns that people write pass.
func TestUsual(t *testing.T) {
	for source, text := range map[string]string{
		`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`: "123e4567-e89b-12d3-a456-426614174000",
		`^.{1,1000}$`:              "x",
		`^[\p{L}\p{M}' -]{1,100}$`: "Ayşe",
		`^(?i)[a-z0-9._%+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}$`:                                                                           "a@b.example",
		`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?$`: "1.2.3-rc.1",
	} {
		compiled, err := pattern.Compile(source, pattern.MaxSize, new(pattern.Allowance))
		require.NoError(t, err, source)
		require.True(t, compiled.MatchString(text), source)
		require.True(t, compiled.Match([]byte(text)), source)
		require.Equal(t, source, compiled.String())
		require.Positive(t, compiled.Steps(0))
	}
	_, err := pattern.Compile("(", pattern.MaxSize, new(pattern.Allowance))
	require.Error(t, err)
	require.NotErrorIs(t, err, pattern.ErrTooLarge)
}
