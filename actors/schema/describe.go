package schema

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

const (
	maxFindings     = 5
	maxFindingBytes = 200
	maxLeaves       = 1000 // examined, so that the findings have a stable order
)

// describe lists what is wrong, with locations: "'/city': got number, want string".
func describe(invalid *jsonschema.ValidationError) string {
	var leaves []*jsonschema.ValidationError
	collect(invalid, &leaves)
	findings := make([]string, len(leaves))
	for i, leaf := range leaves {
		text := (&jsonschema.ValidationError{InstanceLocation: leaf.InstanceLocation, ErrorKind: leaf.ErrorKind}).Error()
		text = strings.TrimPrefix(text, "at ")
		findings[i] = shorten(strings.TrimPrefix(text, "'': "))
	}
	slices.Sort(findings)
	findings = slices.Compact(findings)
	return strings.Join(findings[:min(len(findings), maxFindings)], "; ")
}

func collect(invalid *jsonschema.ValidationError, leaves *[]*jsonschema.ValidationError) {
	if len(*leaves) >= maxLeaves {
		return
	}
	if len(invalid.Causes) > 0 {
		for _, cause := range invalid.Causes {
			collect(cause, leaves)
		}
		return
	}
	if additional, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(additional.Properties)
	}
	*leaves = append(*leaves, invalid)
}

// shorten cuts a text, which may quote the value, at a character boundary.
func shorten(text string) string {
	if len(text) <= maxFindingBytes {
		return text
	}
	cut := maxFindingBytes
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}
