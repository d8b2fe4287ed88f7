package routing

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/actors/core/failure"
)

// Signals are what conditions look at of a request.
type Signals struct {
	InputTokensEst    int64 // characters / 4
	MessageCount      int64
	LastUserLength    int64 // characters
	EstimatedCostUSD  float64
	HasTools          bool
	HasResponseFormat bool
	HasImages         bool
	// Text is the last user message, of which MaxText bytes are looked at.
	Text string

	folded *string
}

// fold is the text that keywords are looked for in.
func (s *Signals) fold() string {
	if s.folded == nil {
		text := strings.ToLower(s.Text[:min(len(s.Text), MaxText)])
		s.folded = &text
	}
	return *s.folded
}

func numbers() map[string]func(*Signals) float64 {
	return map[string]func(*Signals) float64{
		"inputTokensEst":   func(s *Signals) float64 { return float64(s.InputTokensEst) },
		"messageCount":     func(s *Signals) float64 { return float64(s.MessageCount) },
		"lastUserLength":   func(s *Signals) float64 { return float64(s.LastUserLength) },
		"estimatedCostUsd": func(s *Signals) float64 { return s.EstimatedCostUSD },
	}
}

func flags() map[string]func(*Signals) bool {
	return map[string]func(*Signals) bool{
		"hasTools":          func(s *Signals) bool { return s.HasTools },
		"hasResponseFormat": func(s *Signals) bool { return s.HasResponseFormat },
		"hasImages":         func(s *Signals) bool { return s.HasImages },
	}
}

const keyword = "keyword"

// signals are all signals, as clients know them.
func signals() []string {
	return []string{
		"inputTokensEst", "messageCount", "lastUserLength", "hasTools", "hasResponseFormat", "hasImages", "estimatedCostUsd", keyword,
	}
}

func comparisons() map[string]func(a, b float64) bool {
	return map[string]func(a, b float64) bool{
		"gt": func(a, b float64) bool { return a > b }, "gte": func(a, b float64) bool { return a >= b },
		"lt": func(a, b float64) bool { return a < b }, "lte": func(a, b float64) bool { return a <= b },
		"eq": func(a, b float64) bool { return a == b }, "neq": func(a, b float64) bool { return a != b },
	}
}

// operator is the name of an operator that may be written as a sign.
func operator(written string) string {
	signs := map[string]string{">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "=": "eq", "==": "eq", "!=": "neq"}
	if name, is := signs[written]; is {
		return name
	}
	return written
}

// prepare checks a condition and makes its test. keywords is how many more the model may have.
func (c *Condition) prepare(at string, keywords *int) *failure.Failure {
	how := operator(c.Operator)
	if number, is := numbers()[c.Signal]; is {
		compare, known := comparisons()[how]
		if !known {
			return wrongOperator(at, c.Signal, "gt, gte, lt, lte, eq, neq")
		}
		var value float64
		if json.Unmarshal(c.Value, &value) != nil || string(c.Value) == "null" {
			return invalid(failure.NotA).In(at+".value").Param("what", "a number")
		}
		c.test = func(s *Signals) bool { return compare(number(s), value) }
		return nil
	}
	if flag, is := flags()[c.Signal]; is {
		if how != "eq" && how != "neq" {
			return wrongOperator(at, c.Signal, "eq, neq")
		}
		var value bool
		if json.Unmarshal(c.Value, &value) != nil || string(c.Value) == "null" {
			return invalid(failure.MustBeBoolean).In(at + ".value")
		}
		c.test = func(s *Signals) bool { return (flag(s) == value) == (how == "eq") }
		return nil
	}
	if c.Signal != keyword {
		return invalid(failure.NotOneOf).Param("name", at+".signal").Param("choices", strings.Join(signals(), ", "))
	}
	return c.prepareKeywords(at, how, keywords)
}

func wrongOperator(at, signal, choices string) *failure.Failure {
	return invalid(failure.BadOperator).In(at+".operator").Param("signal", signal).Param("choices", choices)
}

func (c *Condition) prepareKeywords(at, how string, left *int) *failure.Failure {
	if how != "contains" && how != "not_contains" {
		return wrongOperator(at, keyword, "contains, not_contains")
	}
	var words []string
	var word string
	if json.Unmarshal(c.Value, &word) == nil {
		words = []string{word}
	} else if json.Unmarshal(c.Value, &words) != nil {
		return invalid(failure.NotA).In(at+".value").Param("what", "a text or an array of texts")
	}
	if *left -= len(words); *left < 0 {
		return tooMany(top+".rules: keywords", MaxKeywords)
	}
	if len(words) == 0 {
		return invalid(failure.Required).In(at + ".value")
	}
	folded := make([]string, len(words))
	for i, word := range words {
		if folded[i] = strings.ToLower(strings.TrimSpace(word)); folded[i] == "" || len(word) > maxKeyword {
			return invalid(failure.OneToCharacters).In(at+".value").Param("most", maxKeyword)
		}
	}
	c.test = func(s *Signals) bool {
		found := slices.ContainsFunc(folded, func(word string) bool { return strings.Contains(s.fold(), word) })
		return found == (how == "contains")
	}
	return nil
}

// matches says whether a rule fits a request. One without conditions fits none.
func (r *Rule) matches(s *Signals) bool {
	if len(r.Conditions) == 0 {
		return false
	}
	for i := range r.Conditions {
		holds := r.Conditions[i].test(s)
		if holds == (r.MatchType == "any") {
			return holds
		}
	}
	return r.MatchType != "any"
}
