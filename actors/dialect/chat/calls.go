package chat

import (
	"slices"
	"strings"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// maxCalls bounds the tool calls of a choice.
const maxCalls = 128

// Call is what an event adds to a tool call.
type Call struct {
	Number    int          // from 0
	First     bool         // the call was not heard of before
	ID        string       // of a First; "" = none, or one that another call has
	Name      string       // what is new of it
	Arguments rawjson.Text // the next piece of them
	Kind      Kind
	Rest      rawjson.Fields
}

// Kind is what is called, and where that is said.
type Kind int

// Kinds of calls.
const (
	Function Kind = iota
	// Custom is no function: its arguments are a text.
	Custom
	// Legacy is the `function_call` of a message, from before there were `tool_calls`: an answer has one at most, without an id.
	Legacy
)

// piece is an item of a list of tool calls, as it came.
type piece struct {
	index     int // -1 = none
	id, name  string
	arguments rawjson.Text
	kind      Kind
	rest      rawjson.Fields
}

// call is a tool call under way.
type call struct {
	number    int // -1 = it has no name yet, and was not told
	ids       [2]string
	indexes   [2]int // the first and the newest, as with ids
	name      string
	arguments value
	seam      rawjson.Seam
	held      rawjson.Text // arguments that came before the name
	rest      rawjson.Fields
	list      int  // the newest list that named it
	again     bool // its name was repeated after its arguments were whole
}

// calls puts the tool calls of one choice together. See the package's documentation for the rules.
type calls struct {
	all  []*call
	told []string // ids
	kind Kind     // of the newest that was told
	list int      // the number of the list that is read
}

// next begins a list.
func (a *calls) next() { a.list++ }

// add says what a piece adds, nil = nothing that is to be told yet. whole says that each piece is a call.
func (a *calls) add(p *piece, whole bool) (*Call, error) {
	known, by := a.find(p)
	if known != nil && !whole {
		switch a.judge(known, p, by) {
		case repeats:
			known.again = known.again || p.name != ""
			if p.rest == nil || known.number < 0 {
				return nil, nil //nolint:nilnil // nothing is told
			}
			return &Call{Number: known.number, Rest: p.rest}, nil
		case continues:
			return a.grow(known, p), nil
		case opens:
		}
	}
	if len(a.all) == maxCalls {
		return nil, &provider.Failure{Class: provider.TooLarge, Reason: provider.ErrAnswerSize}
	}
	opened := &call{number: -1, indexes: [2]int{-1, -1}}
	if known != nil && known.again && p.name == "" { // its head looked like a repetition
		p.name, opened.ids, known.again = known.name, known.ids, false
	}
	a.all = append(a.all, opened)
	return a.grow(opened, p), nil
}

// nameless says that there is a call with arguments that has no name.
func (a *calls) nameless() bool {
	return slices.ContainsFunc(a.all, func(one *call) bool { return one.name == "" && one.arguments.size > 0 })
}

// match is by what a piece and a call were found to belong together.
type match int

const (
	byPlace match = iota // the newest call
	byIndex
	byID
)

// find is the call that a piece is compared with.
func (a *calls) find(p *piece) (*call, match) {
	var newest *call
	by := byPlace
	for i := len(a.all) - 1; i >= 0; i-- {
		one := a.all[i]
		sameID := p.id != "" && slices.Contains(one.ids[:], p.id)
		sameIndex := p.index >= 0 && slices.Contains(one.indexes[:], p.index)
		switch {
		case sameID && (sameIndex || p.index < 0):
			return one, byID
		case sameID && by != byID:
			newest, by = one, byID
		case sameIndex && by == byPlace:
			newest, by = one, byIndex
		}
	}
	if newest == nil && len(a.all) > 0 {
		newest = a.all[len(a.all)-1]
	}
	return newest, by
}

type judgement int

const (
	opens judgement = iota
	continues
	repeats
)

// judge says what a piece is to the call that it was compared with.
func (a *calls) judge(known *call, p *piece, by match) judgement {
	newID := p.id != "" && by != byID
	newIndex := p.index >= 0 && !slices.Contains(known.indexes[:], p.index)
	whole, says := known.arguments.whole, len(p.arguments) > 2
	if p.name == "" {
		return a.judgeNameless(known, p, newID, newIndex && by == byPlace)
	}
	switch {
	case known.list == a.list && by != byID, newIndex && by == byPlace:
		return opens
	case known.name == "":
		return continues
	case known.name != p.name && (says || known.arguments.size > 0 || newID || newIndex || by == byPlace):
		return opens
	case known.name != p.name: // the rest of it
		return continues
	case newIndex && !says && known.arguments.size == 0: // two with the same id
		return opens
	case !whole:
		return continues
	case newID || newIndex, says && by == byPlace:
		return opens
	case !says || known.arguments.same(p.arguments):
		return repeats
	}
	return opens
}

// judgeNameless judges a piece without a name.
func (a *calls) judgeNameless(known *call, p *piece, newID, newIndex bool) judgement {
	says := len(p.arguments) > 2
	switch {
	case !known.arguments.whole && (says || !newIndex):
		return continues
	case says && a.lacking() != nil:
		return continues
	case newIndex, newID, says && known.again:
		return opens // its name may follow, or has been said
	case says && known.arguments.same(p.arguments):
		return repeats
	}
	return continues
}

// lacking is the newest call whose arguments are not whole, nil = there is none.
func (a *calls) lacking() *call {
	for i := len(a.all) - 1; i >= 0; i-- {
		if one := a.all[i]; one.name != "" && !one.arguments.whole {
			return one
		}
	}
	return nil
}

// grow adds a piece to its call, and says what is to be told.
func (a *calls) grow(one *call, p *piece) *Call {
	if p.name == "" && one.arguments.whole && len(p.arguments) > 2 {
		if other := a.lacking(); other != nil {
			one = other
		}
	}
	if p.id != "" {
		remember(&one.ids, p.id, "")
	}
	if p.index >= 0 {
		remember(&one.indexes, p.index, -1)
	}
	named := ""
	if p.name != "" {
		one.list = a.list
		switch {
		case p.name == one.name:
		case strings.HasPrefix(p.name, one.name):
			named = p.name[len(one.name):]
		default:
			named = p.name
		}
		one.name += named
	}
	arguments := one.seam.Join(p.arguments)
	one.arguments.add(arguments)
	if one.name == "" {
		one.held = slices.Clone(one.held.And(arguments)) // the event ends before it is told
		for _, field := range p.rest {
			one.rest = append(one.rest, rawjson.Field{Name: field.Name, Value: slices.Clone(field.Value)})
		}
		return nil
	}
	told := &Call{Number: one.number, Name: named, Arguments: arguments, Kind: p.kind, Rest: p.rest}
	if one.number >= 0 {
		if named == "" && arguments == nil && p.rest == nil {
			return nil
		}
		return told
	}
	one.number = len(a.told)
	told.Number, told.First, told.Name, told.Arguments = one.number, true, one.name, one.held.And(arguments)
	told.Rest = append(one.rest, p.rest...)
	if one.held, one.rest = nil, nil; !slices.Contains(a.told, one.ids[0]) {
		told.ID = one.ids[0]
	}
	a.told, a.kind = append(a.told, one.ids[0]), p.kind
	return told
}

// remember keeps the first and the newest: a server that makes a new one for each piece does not come back to it.
func remember[T comparable](known *[2]T, one, none T) {
	switch one {
	case known[0], known[1]:
		return
	}
	if known[0] == none {
		known[0] = one
		return
	}
	known[1] = one
}
