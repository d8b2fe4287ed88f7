// Package moderate is the built-in moderation guardrail: it judges a text by the words in it, for the 26 categories of document 3,
// 10.8. It is pure.
//
// It is not a model and understands nothing: it finds phrases from short lists in English, whole words only, whatever their case.
// What is put otherwise it misses, and a text about a topic it may take for the thing itself. It is a first net, for tests and for
// servers without a moderation model; whoever needs judgement names a model of category moderation.
package moderate

import (
	"slices"
	"strings"
)

// Key is the guardrail's key.
const Key = "default"

// Severity says how bad a finding is.
type severity int

const (
	low severity = iota
	medium
	high
)

func (s severity) name() string { return [...]string{"low", "medium", "high"}[s] }

func (s severity) score() float64 { return [...]float64{0.3, 0.6, 0.9}[s] }

// Categories are all there are, in the order of document 3, 10.8.
func Categories() []string { return slices.Clone(categories) }

// Each calls back for each phrase, with what it is a sign of.
func Each(do func(phrase, category, severity string)) {
	for _, entry := range phrases {
		for phrase := range strings.SplitSeq(entry.list, "|") {
			do(phrase, entry.category, entry.severity.name())
		}
	}
}

// Clear is the result of a text in which nothing was found.
func Clear() Result {
	result := Result{
		Categories: make(map[string]bool, len(categories)), CategoryScores: make(map[string]float64, len(categories)),
		Findings: []Finding{},
	}
	for _, category := range categories {
		result.Categories[category], result.CategoryScores[category] = false, 0
	}
	return result
}

// Only is a result with what is of some categories alone, and what is done about it.
func (r Result) Only(of []string, action string) Result {
	left := Clear()
	for _, category := range of {
		left.Categories[category], left.CategoryScores[category] = r.Categories[category], r.CategoryScores[category]
		left.Flagged = left.Flagged || r.Categories[category]
	}
	for _, found := range r.Findings {
		if slices.Contains(of, found.Category) {
			found.Action, found.Block = action, action == "block"
			left.Findings = append(left.Findings, found)
		}
	}
	return left
}

// Result is the judgement of one text.
type Result struct {
	Flagged        bool               `json:"flagged"`
	Categories     map[string]bool    `json:"categories"`
	CategoryScores map[string]float64 `json:"category_scores"`
	Findings       []Finding          `json:"findings"`
}

// Finding is one phrase that was found.
type Finding struct {
	Type     string `json:"type" enum:"moderation"`
	Category string `json:"category"`
	Severity string `json:"severity" enum:"low,medium,high"`
	Message  string `json:"message"`
	Action   string `json:"action" enum:"block,warn,flag,redact"`
	Block    bool   `json:"block"`
	Value    string `json:"value" doc:"The phrase"`
}

// maxFindings bounds the findings of a result; further ones count and are not listed.
const maxFindings = 64

// Judge judges a text. Its time grows with the text only.
func Judge(text string) Result {
	result, seen := Clear(), make(map[string]bool)
	rules.Find(text, func(_, _ int, phrase string, found rule) { result.add(found, phrase, seen) })
	return result
}

func (r *Result) add(found rule, phrase string, seen map[string]bool) {
	r.Flagged = true
	r.Categories[found.category] = true
	r.CategoryScores[found.category] = max(r.CategoryScores[found.category], found.severity.score())
	key := found.category + "\x00" + phrase
	if seen[key] || len(r.Findings) == maxFindings {
		return
	}
	seen[key] = true
	r.Findings = append(r.Findings, Finding{
		Type: "moderation", Category: found.category, Severity: found.severity.name(), Action: "flag", Value: phrase,
		Message: "The text holds a phrase of category " + found.category,
	})
}
