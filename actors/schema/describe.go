package schema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"parley/actors/core/letters"
)

const (
	maxFindings     = 5
	maxFindingBytes = 200
	maxLeaves       = 1000 // examined, so that the findings have a stable order
	maxLeafBytes    = 2 << 20
)

// describe lists what is wrong, with locations: "'/city': got number, want string".
func describe(invalid *jsonschema.ValidationError) string {
	found := &leaves{room: maxLeafBytes}
	found.collect(invalid)
	findings := make([]string, len(found.list))
	for i, leaf := range found.list {
		text := (&jsonschema.ValidationError{InstanceLocation: leaf.InstanceLocation, ErrorKind: leaf.ErrorKind}).Error()
		text = strings.TrimPrefix(text, "at ")
		findings[i] = shorten(strings.TrimPrefix(text, "'': "))
	}
	slices.Sort(findings)
	findings = slices.Compact(findings)
	return strings.Join(findings[:min(len(findings), maxFindings)], "; ")
}

// leaves are single findings. Each quotes the value and where it is, which may be a megabyte, so their number is bounded by that, too.
type leaves struct {
	list []*jsonschema.ValidationError
	room int
}

func (l *leaves) collect(invalid *jsonschema.ValidationError) {
	if len(l.list) >= maxLeaves || l.room < 0 {
		return
	}
	if len(invalid.Causes) > 0 {
		for _, cause := range invalid.Causes {
			l.collect(cause)
		}
		return
	}
	if l.room -= quoted(invalid); l.room < 0 && len(l.list) > 0 {
		return
	}
	if additional, ok := invalid.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(additional.Properties)
	}
	l.list = append(l.list, invalid)
}

// quoted is about how much text a finding has.
func quoted(leaf *jsonschema.ValidationError) (bytes int) {
	texts := func(some []string) {
		for _, one := range some {
			bytes += 8 + len(one)
		}
	}
	values := func(some ...any) {
		for _, one := range some {
			text, _ := one.(string)
			bytes += 8 + len(text)
		}
	}
	texts(leaf.InstanceLocation)
	switch k := leaf.ErrorKind.(type) {
	case *kind.Pattern:
		values(k.Got, k.Want)
	case *kind.Format:
		values(k.Got, k.Got) // its error quotes it, too
	case *kind.Enum:
		values(k.Want...)
	case *kind.Const:
		values(k.Want)
	case *kind.PropertyNames:
		values(k.Property)
	case *kind.AdditionalProperties:
		texts(k.Properties)
	case *kind.Required:
		texts(k.Missing)
	case *kind.Dependency:
		texts(k.Missing)
	case *kind.DependentRequired:
		texts(k.Missing)
	case *kind.MinContains:
		bytes += 8 * len(k.Got)
	case *kind.MaxContains:
		bytes += 8 * len(k.Got)
	}
	return bytes
}

// shorten cuts a text, which may quote the value.
func shorten(text string) string { return letters.Shorten(text, maxFindingBytes) }
