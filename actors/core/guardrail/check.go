package guardrail

import (
	"cmp"
	"slices"
	"strings"

	"parley/actors/core/aegis"
	"parley/actors/core/dlp"
	"parley/actors/core/moderate"
	"parley/actors/core/phrase"
)

// Severities of findings.
const (
	Low    = "low"
	Medium = "medium"
	High   = "high"
)

// Finding is something that was found in a text.
type Finding struct {
	Type     string `json:"type" enum:"pii,word_filter,moderation,prompt_shield"`
	Category string `json:"category"`
	Severity string `json:"severity" enum:"low,medium,high"`
	Message  string `json:"message"`
	Action   string `json:"action" enum:"block,warn,flag,redact"`
	Block    bool   `json:"block"`
	Value    string `json:"value,omitempty" doc:"The phrase; of personal data and secrets nothing"`
}

// maxFindings bounds the findings of a text; further ones count and are not listed.
const maxFindings = 64

// Result is what is found in a text.
type Result struct {
	Action   string // the strictest of the findings; "" = nothing was found
	Findings []Finding
	Text     string // what is left of it
	Tally    Tally
}

// Blocked says that a text must go no further.
func (r *Result) Blocked() bool { return r.Action == Block }

// Reasons are the words of the findings that block, each once.
func (r *Result) Reasons() string {
	var reasons []string
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Block && !slices.Contains(reasons, f.Message) {
			reasons = append(reasons, f.Message)
		}
	}
	return strings.Join(reasons, "; ")
}

// list adds a finding, which is not counted.
func (r *Result) list(found Finding) {
	r.Action = stricter(found.Action, r.Action)
	if len(r.Findings) < maxFindings && !slices.Contains(r.Findings, found) {
		r.Findings = append(r.Findings, found)
	}
}

// hit is a finding and where it is.
type hit struct {
	Finding

	start, end int
}

// finder is the rules of a guardrail, made for looking.
type finder struct {
	data    map[string]string // categories of personal data to actions
	phrases phrase.Set[sign]
}

// finder makes one for texts to models, or from them.
func (g *Guardrail) finder(toModel bool) *finder {
	f, r := &finder{data: map[string]string{}}, &g.Rules
	if !g.GetEnabled() {
		return f
	}
	if r.PII != nil {
		base := cmp.Or(r.PII.Action, g.GetAction())
		for category, does := range r.PII.Categories {
			f.data[category] = cmp.Or(does, base)
		}
		if r.PII.Categories == nil {
			for _, category := range usual() {
				f.data[category] = base
			}
		}
	}
	if r.WordFilter != nil {
		for _, word := range r.WordFilter.Words {
			f.phrases.Add(word, sign{WordFilter, "word", Medium, cmp.Or(r.WordFilter.Action, g.GetAction())})
		}
	}
	if m := r.Moderation; m != nil {
		moderate.Each(func(phrase, category, severity string) {
			if m.Categories == nil || slices.Contains(m.Categories, category) {
				f.phrases.Add(phrase, sign{Moderation, category, severity, cmp.Or(m.Action, g.GetAction())})
			}
		})
	}
	if r.PromptShield != nil && toModel {
		for _, entry := range takeovers {
			for text := range strings.SplitSeq(entry.list, "|") {
				f.phrases.Add(text, sign{PromptShield, entry.category, High, cmp.Or(r.PromptShield.Action, g.GetAction())})
			}
		}
	}
	f.phrases.Ready()
	return f
}

// blocking is the part of the rules that blocks; nil = none does.
func (f *finder) blocking() *finder {
	left := &finder{data: map[string]string{}}
	for category, does := range f.data {
		if does == Block {
			left.data[category] = does
		}
	}
	f.phrases.Each(func(phrase string, one sign) {
		if one.action == Block {
			left.phrases.Add(phrase, one)
		}
	})
	if len(left.data) == 0 && left.phrases.Empty() {
		return nil
	}
	left.phrases.Ready()
	return left
}

// hits are what is in a text, in order. Data is only looked for behind a byte, see dlp.ScanAfter.
func (f *finder) hits(text string, from int) []hit {
	var all []hit
	if len(f.data) > 0 {
		for _, found := range dlp.ScanAfter(text, from) {
			category, severity := string(found.Kind), Medium
			if found.Class == dlp.Secret {
				category = secrets
			}
			if found.Class == dlp.Secret || found.Kind == dlp.CreditCard {
				severity = High
			}
			if does, looked := f.data[category]; looked {
				all = append(all, hit{Finding{
					Type: PII, Category: category, Severity: severity, Action: does, Block: does == Block, Message: "The text holds something of kind " + string(found.Kind),
				}, found.Start, found.End})
			}
		}
	}
	f.phrases.Find(text, func(start, end int, value string, one sign) {
		message := "The text holds a phrase of category " + one.category
		if one.kind == WordFilter {
			message = "The text holds a word that is filtered"
		}
		all = append(all, hit{Finding{
			Type: one.kind, Category: one.category, Severity: one.severity, Action: one.action, Block: one.action == Block, Message: message, Value: value,
		}, start, end})
	})
	slices.SortStableFunc(all, func(a, b hit) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	return all
}

// open is from where on a text may still become part of something, were more to follow.
func (f *finder) open(text string) int {
	first := f.phrases.Open(text)
	if len(f.data) > 0 {
		first = min(first, dlp.Open(text))
	}
	return first
}

func (g *Guardrail) of(toModel bool) *finder {
	if toModel {
		return g.all
	}
	return g.some
}

// Check looks at a whole text that goes to a model, or comes from one. A guardrail that is not enabled finds nothing.
func (g *Guardrail) Check(text string, toModel bool) *Result {
	result := &Result{Findings: []Finding{}}
	var clean strings.Builder
	last := 0
	for _, h := range g.of(toModel).hits(text, 0) {
		result.list(h.Finding)
		result.Tally.count(h.kind(), 1)
		if h.Action != Redact || h.end <= last {
			continue
		}
		clean.WriteString(text[last:max(last, h.start)])
		clean.WriteString(mark(h.Category))
		last = h.end
	}
	clean.WriteString(text[last:])
	result.Text = clean.String()
	return result
}

func mark(category string) string { return "[REDACTED:" + category + "]" }

// Stream is a text from a model that comes in pieces: of what came it holds back only what may still become part of something. nil changes
// nothing.
type Stream struct {
	text   *aegis.Stream
	finder *finder
	hits   []hit // as they were last found
	tally  Tally
}

// Stream begins a text.
func (g *Guardrail) Stream() *Stream {
	s := &Stream{finder: g.some}
	s.text = aegis.NewStream(s)
	return s
}

// Ends begins a text of which nothing is taken out, and which ends where something blocks. nil = nothing does.
func (g *Guardrail) Ends() *Stream {
	if g.ends == nil {
		return nil
	}
	s := &Stream{finder: g.ends}
	s.text = aegis.NewStream(s)
	return s
}

// After says what stands before the text, see aegis.Stream.
func (s *Stream) After(text string) {
	if s != nil {
		s.text.After(text)
	}
}

// Cuts implements aegis.Patterns.
func (s *Stream) Cuts(text string, from int) []aegis.Cut {
	s.hits = s.finder.hits(text, from)
	var cuts []aegis.Cut
	for _, h := range s.hits {
		if h.Action == Redact || h.Block {
			cuts = append(cuts, aegis.Cut{Start: h.start, End: h.end, Mark: mark(h.Category), Last: h.Block})
		}
	}
	return cuts
}

// Open implements aegis.Patterns.
func (s *Stream) Open(text string) int { return s.finder.open(text) }

// Passed implements aegis.Patterns.
func (s *Stream) Passed(from, to int) {
	for _, h := range s.hits {
		if from < h.end && h.end <= to {
			s.tally.count(h.kind(), 1)
		}
	}
}

// Tally is what was found in what is not held back, and in what is taken out or ends the text.
func (s *Stream) Tally() Tally {
	if s == nil {
		return nil
	}
	return s.tally
}

// Write takes a piece and returns what can be given away. blocked says why nothing of the text goes further; nil = it does.
func (s *Stream) Write(piece string) (out string, blocked *Result) {
	if s == nil {
		return piece, nil
	}
	return s.result(s.text.Write(piece))
}

// Close ends the text and returns the rest of it.
func (s *Stream) Close() (out string, blocked *Result) {
	if s == nil {
		return "", nil
	}
	return s.result(s.text.Close())
}

func (s *Stream) result(out string) (string, *Result) {
	at, over := s.text.Over()
	if !over {
		return out, nil
	}
	result := &Result{Action: Block}
	for _, h := range s.hits {
		if h.Block && h.start == at.Start && h.end == at.End {
			result.Findings = append(result.Findings, h.Finding)
		}
	}
	return out, result
}
