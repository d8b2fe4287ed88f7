package failure

import (
	"fmt"
	"strconv"
	"strings"
)

// Wording is how a surface words failures. What it leaves out is worded as by default; nil words everything by default.
//
// Words are templates: {name} is a parameter or detail, {name:q} the same in quotation marks, {name:c} with a capital first
// letter, {field} the failure's field and {.name} any other field of the rules, both in the surface's spelling, {conversation}
// what the surface calls a conversation, {{ a brace.
type Wording struct {
	// Own returns the surface's words for a reason, empty = the default words.
	Own func(Reason) string
	// Spell returns the surface's name of a field or detail of the rules; nil = as the rules spell it.
	Spell func(name string) string
	// Conversation is what the surface calls a conversation; empty = conversation.
	Conversation string
}

// Text words a failure.
func (w *Wording) Text(f *Failure) string {
	text := show(f.value(paramText))
	if f.Reason != Literal {
		text = w.fill(w.Words(f.Reason), f)
	}
	if path, ok := f.value(paramPath).(string); ok {
		return path + ": " + text
	}
	return text
}

// Words returns the template for a reason; for one that is not known (a newer node's) its name.
func (w *Wording) Words(reason Reason) string {
	if w != nil && w.Own != nil {
		if own := w.Own(reason); own != "" {
			return own
		}
	}
	if words := reason.words(); words != "" {
		return words
	}
	return strings.ReplaceAll(string(reason), "{", "{{")
}

// Details returns a failure's details under the surface's names; nil if there are none.
func (w *Wording) Details(f *Failure) map[string]any {
	if w == nil || w.Spell == nil || len(f.Details) == 0 {
		return f.Details
	}
	spelled := make(map[string]any, len(f.Details))
	for name, value := range f.Details {
		spelled[w.Spell(name)] = value
	}
	return spelled
}

func (w *Wording) fill(template string, f *Failure) string {
	if strings.IndexByte(template, '{') < 0 {
		return template
	}
	var b strings.Builder
	for {
		plain, rest, found := strings.Cut(template, "{")
		b.WriteString(plain)
		if !found {
			return b.String()
		}
		if after, brace := strings.CutPrefix(rest, "{"); brace {
			b.WriteByte('{')
			template = after
			continue
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString(w.placeholder(name, f))
		template = after
	}
}

func (w *Wording) placeholder(name string, f *Failure) string {
	if field, ok := strings.CutPrefix(name, "."); ok {
		return w.spell(field)
	}
	switch name {
	case "field":
		return w.spell(f.Field)
	case "conversation":
		if w != nil && w.Conversation != "" {
			return w.Conversation
		}
		return name
	}
	name, form, _ := strings.Cut(name, ":")
	text := show(f.value(name))
	switch {
	case form == "q":
		return strconv.Quote(text)
	case form == "c" && text != "":
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}

func (w *Wording) spell(name string) string {
	if w == nil || w.Spell == nil {
		return name
	}
	return w.Spell(name)
}

// show writes a value. A whole number that came from another node as JSON is written as one.
func show(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}
