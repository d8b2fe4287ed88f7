package routing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Key is the key of the provider that dynamic models name, and their driver.
const Key = "dynamic"

// Strategies.
const (
	RuleBased  = "rule-based"
	ModelBased = "model-based"
	Priority   = "priority"
	Weighted   = "weighted"
	Cheapest   = "cheapest"
	Fastest    = "fastest"
)

// Strategies returns all of them.
func Strategies() []string {
	return []string{RuleBased, ModelBased, Priority, Weighted, Cheapest, Fastest}
}

// Bounds of a dynamic model.
const (
	MaxNesting  = 3
	MaxTried    = 16 // models that one request is tried with
	MaxKeywords = 256
	MaxText     = 64 << 10

	maxTargets     = 16
	maxRules       = 32
	maxConditions  = 16
	maxKeyword     = 128
	maxLabel       = 64
	maxDescription = 1000
	maxPrompt      = 8 << 10
	maxWeight      = 1_000_000
)

// Settings are what a dynamic model's settings hold under "dynamic". Keys that are not named here are kept and say nothing.
type Settings struct {
	Strategy         string   `json:"strategy"`
	DefaultModelKey  string   `json:"defaultModelKey,omitempty"`
	FallbackModelKey string   `json:"fallbackModelKey,omitempty"`
	Rules            []Rule   `json:"rules,omitempty"`   // of rule-based
	Decider          *Decider `json:"decider,omitempty"` // of model-based
	Targets          []Target `json:"targets,omitempty"` // of the others
}

// Rule sends requests that match it to a model.
type Rule struct {
	Label          string      `json:"label,omitempty"`
	TargetModelKey string      `json:"targetModelKey"`
	MatchType      string      `json:"matchType,omitempty"` // all (default) or any of the conditions
	Conditions     []Condition `json:"conditions,omitempty"`
}

// Condition compares a signal of a request.
type Condition struct {
	Signal   string          `json:"signal"`
	Operator string          `json:"operator"`
	Value    json.RawMessage `json:"value"`

	test func(*Signals) bool
}

// Decider is a model that is asked which label fits a request.
type Decider struct {
	ModelKey       string  `json:"modelKey"`
	PromptOverride string  `json:"promptOverride,omitempty"`
	Labels         []Label `json:"labels"`
}

// Label is a word that a decider may say.
type Label struct {
	Label          string `json:"label"`
	Description    string `json:"description,omitempty"`
	TargetModelKey string `json:"targetModelKey"`
}

// Target is one model of several.
type Target struct {
	ModelKey string   `json:"modelKey"`
	Weight   *float64 `json:"weight,omitempty"` // of weighted; default 1
}

func (t *Target) weight() float64 {
	if t.Weight == nil {
		return 1
	}
	return *t.Weight
}

// Of reads the settings of a model as they are stored; nil when it is not dynamic, or they say nothing that can be read.
func Of(providerKey string, settings []byte) *Settings {
	if providerKey != Key {
		return nil
	}
	var stored struct {
		Dynamic *Settings `json:"dynamic"`
	}
	if json.Unmarshal(settings, &stored) != nil || stored.Dynamic == nil || stored.Dynamic.check() != nil {
		return nil
	}
	return stored.Dynamic
}

// Read checks the settings that a client sent for a dynamic model: the JSON object whose member "dynamic" this is about.
func Read(raw string) (*Settings, *failure.Failure) {
	var sent struct {
		Dynamic json.RawMessage `json:"dynamic"`
	}
	if json.Unmarshal([]byte(raw), &sent) != nil {
		return nil, invalid(failure.MustBeObject).In("settings")
	}
	if len(sent.Dynamic) == 0 || bytes.Equal(sent.Dynamic, []byte("null")) {
		return nil, invalid(failure.Required).In(top)
	}
	settings := &Settings{}
	if err := json.Unmarshal(sent.Dynamic, settings); err != nil {
		at := top
		if wrong, is := err.(*json.UnmarshalTypeError); is && wrong.Field != "" { //nolint:errorlint // it is not wrapped
			at += "." + wrong.Field
		}
		return nil, invalid(failure.WrongJSONType).In(at)
	}
	return settings, settings.check()
}

// top is where the settings are, in errors.
const top = "settings.dynamic"

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, reason)
}

// check says what is wrong with the settings by themselves, and makes their conditions ready.
func (s *Settings) check() *failure.Failure {
	if !slices.Contains(Strategies(), s.Strategy) {
		return invalid(failure.NotOneOf).Param("name", top+".strategy").Param("choices", strings.Join(Strategies(), ", "))
	}
	if refused := firstOf(
		optionalKey(top+".defaultModelKey", s.DefaultModelKey), optionalKey(top+".fallbackModelKey", s.FallbackModelKey),
		s.checkRules(), s.Decider.check(), s.checkTargets(),
	); refused != nil {
		return refused
	}
	switch s.Strategy {
	case RuleBased, ModelBased:
		if s.DefaultModelKey == "" {
			return invalid(failure.Required).In(top + ".defaultModelKey")
		}
		if s.Strategy == ModelBased && s.Decider == nil {
			return invalid(failure.Required).In(top + ".decider")
		}
	default:
		if len(s.Targets) == 0 {
			return invalid(failure.Required).In(top + ".targets")
		}
	}
	return nil
}

func firstOf(refusals ...*failure.Failure) *failure.Failure {
	for _, refused := range refusals {
		if refused != nil {
			return refused
		}
	}
	return nil
}

var keyRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func needKey(field, key string) *failure.Failure {
	if key == "" {
		return invalid(failure.Required).In(field)
	}
	return optionalKey(field, key)
}

func optionalKey(field, key string) *failure.Failure {
	if key != "" && !keyRule.MatchString(key) {
		return invalid(failure.BadKey).In(field)
	}
	return nil
}

func tooMany(field string, most int) *failure.Failure {
	return invalid(failure.TooManyEntries).In(field).Param("most", most)
}

func atMost(field, text string, most int) *failure.Failure {
	if utf8.RuneCountInString(text) > most {
		return invalid(failure.AtMostCharacters).In(field).Param("most", most)
	}
	return nil
}

func (s *Settings) checkRules() *failure.Failure {
	if len(s.Rules) > maxRules {
		return tooMany(top+".rules", maxRules)
	}
	keywords := MaxKeywords
	for i := range s.Rules {
		rule, at := &s.Rules[i], fmt.Sprintf("%s.rules[%d]", top, i)
		if refused := firstOf(needKey(at+".targetModelKey", rule.TargetModelKey), atMost(at+".label", rule.Label, maxLabel)); refused != nil {
			return refused
		}
		if rule.MatchType != "" && rule.MatchType != "all" && rule.MatchType != "any" {
			return invalid(failure.EitherOr).In(at+".matchType").Param("one", "all").Param("other", "any")
		}
		if len(rule.Conditions) > maxConditions {
			return tooMany(at+".conditions", maxConditions)
		}
		for n := range rule.Conditions {
			if refused := rule.Conditions[n].prepare(fmt.Sprintf("%s.conditions[%d]", at, n), &keywords); refused != nil {
				return refused
			}
		}
	}
	return nil
}

func (d *Decider) check() *failure.Failure {
	const at = top + ".decider"
	switch {
	case d == nil:
		return nil
	case len(d.Labels) == 0:
		return invalid(failure.Required).In(at + ".labels")
	case len(d.Labels) > maxTargets:
		return tooMany(at+".labels", maxTargets)
	}
	if refused := firstOf(needKey(at+".modelKey", d.ModelKey), atMost(at+".promptOverride", d.PromptOverride, maxPrompt)); refused != nil {
		return refused
	}
	said := map[string]bool{}
	for i, label := range d.Labels {
		in := fmt.Sprintf("%s.labels[%d]", at, i)
		if strings.TrimSpace(label.Label) == "" {
			return invalid(failure.Required).In(in + ".label")
		}
		if refused := firstOf(
			atMost(in+".label", label.Label, maxLabel), atMost(in+".description", label.Description, maxDescription),
			needKey(in+".targetModelKey", label.TargetModelKey),
		); refused != nil {
			return refused
		}
		if name := plain(label.Label); said[name] {
			return invalid(failure.NamedTwice).In(in+".label").Param("name", label.Label)
		}
		said[plain(label.Label)] = true
	}
	return nil
}

// plain is how labels are compared.
func plain(label string) string { return strings.ToLower(strings.TrimSpace(label)) }

func (s *Settings) checkTargets() *failure.Failure {
	if len(s.Targets) > maxTargets {
		return tooMany(top+".targets", maxTargets)
	}
	named, sum := map[string]bool{}, 0.0
	for i := range s.Targets {
		target, at := &s.Targets[i], fmt.Sprintf("%s.targets[%d]", top, i)
		if refused := needKey(at+".modelKey", target.ModelKey); refused != nil {
			return refused
		}
		if named[target.ModelKey] {
			return invalid(failure.NamedTwice).In(at+".modelKey").Param("name", target.ModelKey)
		}
		named[target.ModelKey] = true
		weight := target.weight()
		if !(weight >= 0 && weight <= maxWeight) || math.IsInf(weight, 0) {
			return invalid(failure.OutOfRange).In(at+".weight").Param("least", 0).Param("most", maxWeight)
		}
		sum += weight
	}
	if s.Strategy == Weighted && len(s.Targets) > 0 && sum == 0 {
		return invalid(failure.NumberAboveZero).In(top + ".targets[0].weight")
	}
	return nil
}

// named are all models that the settings name, with where they do.
func (s *Settings) named() (fields, keys []string) {
	add := func(field, key string) {
		if key != "" {
			fields, keys = append(fields, top+"."+field), append(keys, key)
		}
	}
	add("defaultModelKey", s.DefaultModelKey)
	add("fallbackModelKey", s.FallbackModelKey)
	for i := range s.Rules {
		add(fmt.Sprintf("rules[%d].targetModelKey", i), s.Rules[i].TargetModelKey)
	}
	for i := range s.Targets {
		add(fmt.Sprintf("targets[%d].modelKey", i), s.Targets[i].ModelKey)
	}
	if s.Decider != nil {
		for i := range s.Decider.Labels {
			add(fmt.Sprintf("decider.labels[%d].targetModelKey", i), s.Decider.Labels[i].TargetModelKey)
		}
	}
	return fields, keys
}

// Models are the keys of all models that may be called in the place of the dynamic one.
func (s *Settings) Models() []string {
	_, keys := s.named()
	return keys
}

// Names says whether the settings name a model, as a target or to decide.
func (s *Settings) Names(key string) bool {
	_, keys := s.named()
	return slices.Contains(keys, key) || s.Decider != nil && s.Decider.ModelKey == key
}
