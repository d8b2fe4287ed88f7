package phrase_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/core/phrase"
)

func set(phrases ...string) *phrase.Set[string] {
	made := &phrase.Set[string]{}
	for _, text := range phrases {
		made.Add(text, "of "+text)
	}
	made.Ready()
	return made
}

// TestFind: whole words, whatever their case, quotes around them and what stands between.
func TestFind(t *testing.T) {
	looked := set("Kill  him!", "him", "you're")
	for text, want := range map[string][]string{
		"":                         nil,
		"skill him":                {"him 6:9"},
		"KILL -- Him":              {"kill him 0:11", "him 8:11"},
		"'kill him'":               {"kill him 1:9", "him 6:9"},
		"You're it, said 'you're'": {"you're 0:6", "you're 17:23"},
		"you\xffre":                nil,
	} {
		var found []string
		looked.Find(text, func(start, end int, phrase, sign string) {
			require.Equal(t, phrase, strings.TrimPrefix(strings.Join(strings.Fields(strings.ToLower(strings.Trim(sign, "!"))), " "), "of "))
			found = append(found, fmt.Sprintf("%s %d:%d", phrase, start, end))
		})
		require.Equal(t, want, found, text)
	}
	require.True(t, (&phrase.Set[string]{}).Empty())
	require.False(t, looked.Empty())
	require.Equal(t, 3, phrase.Words("one 'two' three's --"))
	each := map[string]string{}
	looked.Each(func(phrase, sign string) { each[phrase] = sign })
	require.Equal(t, map[string]string{"kill him": "of Kill  him!", "him": "of him", "you're": "of you're"}, each)
}

// TestOpen: whatever follows, no phrase begins before what is open.
func TestOpen(t *testing.T) {
	looked := set("one two three", "two", "three one")
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringMatching(`((one|two|three|on|four|'|-)[ .]?){0,6}`)
		before, after := piece.Draw(t, "before"), piece.Draw(t, "after")
		open := looked.Open(before)
		looked.Find(before+after, func(start, end int, phrase, _ string) {
			require.False(t, start < open && end > len(before), "%q in %q + %q, open from %d", phrase, before, after, open)
		})
	})
}
