package guardrail

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/proto/decisionpb"
)

// Where texts go that a guardrail looks at.
const (
	Input  = "input"  // to a model
	Output = "output" // from one
)

// What texts are of that a guardrail looks at.
const (
	OfGateway     = "gateway"
	OfModerations = "moderations"
	OfAgent       = "agent"
	OfEvaluate    = "evaluate"
)

// Kind is what findings are counted by. It holds nothing of the text.
type Kind struct{ Type, Category, Severity, Action string }

func (f *Finding) kind() Kind { return Kind{f.Type, f.Category, f.Severity, f.Action} }

// Tally is how often something was found, by kind; nil = nothing was.
type Tally map[Kind]int

func (t *Tally) count(kind Kind, times int) {
	if *t == nil {
		*t = Tally{}
	}
	(*t)[kind] += times
}

// Add adds what was found in another text.
func (t *Tally) Add(other Tally) {
	for kind, times := range other {
		t.count(kind, times)
	}
}

// most takes the larger counts of two looks at the same text.
func (t *Tally) most(other Tally) {
	for kind, times := range other {
		t.count(kind, max(0, times-(*t)[kind]))
	}
}

// Beyond is what was found more than at a first look at the same text. What that took out is not there any more.
func (t Tally) Beyond(first Tally) (more Tally) {
	for kind, times := range t {
		if kind.Action != Redact {
			times -= first[kind]
		}
		if times > 0 {
			more.count(kind, times)
		}
	}
	return more
}

// Only is the part of one action.
func (t Tally) Only(action string) (part Tally) {
	for kind, times := range t {
		if kind.Action == action {
			part.count(kind, times)
		}
	}
	return part
}

// maxKinds bounds the kinds of a verdict; the less strict ones are left out.
const maxKinds = 64

// Verdict is what is kept of what the guardrail found; origin says in which call. nil = it found nothing.
func (g *Guardrail) Verdict(origin *decisionpb.Verdict, found Tally) *decisionpb.Verdict {
	if len(found) == 0 {
		return nil
	}
	kinds := slices.SortedFunc(maps.Keys(found), func(a, b Kind) int {
		return cmp.Or(
			cmp.Compare(slices.Index(Actions(), b.Action), slices.Index(Actions(), a.Action)),
			cmp.Compare(a.Type, b.Type), cmp.Compare(a.Category, b.Category), cmp.Compare(a.Severity, b.Severity),
		)
	})
	v := proto.CloneOf(origin)
	v.Decision, v.Enforced, v.Rail.Key, v.Rail.Name = kinds[0].Action, true, g.GetKey(), g.GetName()
	for _, kind := range kinds[:min(len(kinds), maxKinds)] {
		v.Rail.Found = append(v.Rail.Found, &decisionpb.Found{
			Type: kind.Type, Category: kind.Category, Severity: kind.Severity, Action: kind.Action, Count: uint32(found[kind]), //nolint:gosec // of one text
		})
	}
	return v
}
