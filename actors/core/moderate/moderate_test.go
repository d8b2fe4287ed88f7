package moderate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEveryPhrase: each phrase can be found, wherever it stands and however it is written, and is a sign of a known category.
func TestEveryPhrase(t *testing.T) {
	used := map[string]bool{}
	for _, entry := range phrases {
		require.Contains(t, categories, entry.category)
		used[entry.category] = true
		for phrase := range strings.SplitSeq(entry.list, "|") {
			require.Equal(t, strings.ToLower(phrase), phrase)
			result := Judge("Well: '" + strings.ToUpper(phrase) + "'!")
			require.True(t, result.Flagged, phrase)
			require.True(t, result.Categories[entry.category], phrase)
			require.GreaterOrEqual(t, result.CategoryScores[entry.category], entry.severity.score(), phrase)
		}
	}
	require.Len(t, used, len(categories), "every category has a phrase")
	require.Len(t, categories, 26)
}

func TestHarmless(t *testing.T) {
	for _, text := range []string{
		"", "The weather is nice today.", "How do I bake bread?", "Sussex and Essex", "skill your killer whale", "isis was a goddess",
	} {
		result := Judge(text)
		require.False(t, result.Flagged, text)
		require.Empty(t, result.Findings)
		require.Len(t, result.Categories, 26)
		require.Len(t, result.CategoryScores, 26)
	}
}

// TestWhole: a result says the same in its three places, whatever was said.
func TestWhole(t *testing.T) {
	var all []string
	Each(func(phrase, _, _ string) { all = append(all, phrase) })
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(all), rapid.String()), 0, 100).Draw(t, "parts")
		result := Judge(strings.Join(parts, rapid.SampledFrom([]string{" ", ", ", "\n"}).Draw(t, "between")))
		flagged := false
		for category, is := range result.Categories {
			flagged = flagged || is
			require.Equal(t, is, result.CategoryScores[category] > 0)
		}
		require.Equal(t, flagged, result.Flagged)
		require.LessOrEqual(t, len(result.Findings), maxFindings)
		for _, finding := range result.Findings {
			require.True(t, result.Categories[finding.Category])
		}
	})
}
