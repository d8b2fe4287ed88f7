package guardrail

import (
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/core/aegis"
	"parley/actors/core/dlp"
	"parley/actors/core/failure"
	"parley/actors/core/moderate"
	"parley/actors/core/phrase"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Actions, the stricter ones last.
const (
	Flag   = "flag"   // it is told
	Warn   = "warn"   // it is told, too
	Redact = "redact" // it is taken out
	Block  = "block"  // the text goes no further
)

// Actions are all of them.
func Actions() []string { return []string{Flag, Warn, Redact, Block} }

// stricter is the stricter one of two actions; "" is none.
func stricter(a, b string) string {
	if slices.Index(Actions(), a) > slices.Index(Actions(), b) {
		return a
	}
	return b
}

// Types of findings, which are those of rules.
const (
	PII          = "pii"
	WordFilter   = "word_filter"
	Moderation   = "moderation"
	PromptShield = "prompt_shield"
)

// Rules say what is looked for; nil = not for that. An action that is "" is the guardrail's.
type Rules struct {
	PII          *PIIRule        `json:"pii"`
	WordFilter   *WordRule       `json:"wordFilter"`
	Moderation   *ModerationRule `json:"moderation"`
	PromptShield *ShieldRule     `json:"promptShield"`
}

// PIIRule finds personal data and secrets.
type PIIRule struct {
	Action     string            `json:"action"`
	Categories map[string]string `json:"categories"` // to their actions; nil = the usual ones
}

// WordRule finds words and phrases.
type WordRule struct {
	Action string   `json:"action"`
	Words  []string `json:"words"`
}

// ModerationRule finds what package moderate does.
type ModerationRule struct {
	Action     string   `json:"action"`
	Categories []string `json:"categories"` // nil = all
}

// ShieldRule finds attempts to take a model over, in what goes to it.
type ShieldRule struct {
	Action string `json:"action"`
}

// secrets is the category of everything that opens something.
const secrets = "apiKey"

// Categories are those of personal data that can be found.
func Categories() []string {
	kinds := []dlp.Kind{
		dlp.Email, dlp.Phone, dlp.CreditCard, dlp.IBAN, dlp.Swift, dlp.SocialSecurity, dlp.TCKN, dlp.Passport, dlp.BirthDate, dlp.IPAddress, dlp.CryptoWallet,
		dlp.TaxpayerID, dlp.VKN, dlp.RoutingNumber,
	}
	all := make([]string, 0, len(kinds)+1)
	for _, kind := range kinds {
		all = append(all, string(kind))
	}
	return append(all, secrets)
}

// usual are the categories of a rule that names none (document 3, 10.12).
func usual() []string {
	return []string{string(dlp.Email), string(dlp.Phone), string(dlp.CreditCard), string(dlp.TCKN), secrets}
}

// Bounds of a guardrail.
const (
	maxName    = 200
	maxText    = 2000
	maxWords   = 500
	maxWord    = 100 // bytes
	maxInWords = 8   // of a phrase
)

// Guardrail is a record, and what it says.
type Guardrail struct {
	*directorypb.Guardrail

	Rules Rules
	all   *finder // of texts to models
	some  *finder // of texts from them
	ends  *finder // of these, what blocks; nil = nothing does
}

// Of reads a recorded guardrail. What it does not know is refused: a rule that is dropped would let through what it was made for.
func Of(record *directorypb.Guardrail) (*Guardrail, *failure.Failure) {
	g := &Guardrail{Guardrail: record}
	if wrong := aegis.Strict(record.GetRules(), &g.Rules, "rules"); wrong != nil {
		return nil, wrong
	}
	if wrong := g.validate(); wrong != nil {
		return nil, wrong
	}
	g.all, g.some = g.finder(true), g.finder(false)
	g.ends = g.some.blocking()
	return g, nil
}

// Moderates says whether the guardrail is one for POST /moderations.
func (g *Guardrail) Moderates() bool { return g.GetEnabled() && g.Rules.Moderation != nil }

func (g *Guardrail) validate() *failure.Failure {
	r := &g.Rules
	switch {
	case strings.TrimSpace(g.GetName()) == "" || utf8.RuneCountInString(g.GetName()) > maxName:
		return invalid(failure.OneToCharacters).In("name").Param("most", maxName)
	case utf8.RuneCountInString(g.GetDescription()) > maxText:
		return invalid(failure.AtMostCharacters).In("description").Param("most", maxText)
	case utf8.RuneCountInString(g.GetMessage()) > maxText:
		return invalid(failure.AtMostCharacters).In("message").Param("most", maxText)
	case !slices.Contains(Actions(), g.GetAction()):
		return notOneOf("action", Actions())
	case r.PII == nil && r.WordFilter == nil && r.Moderation == nil && r.PromptShield == nil:
		return invalid(failure.NoGuardrailRule).Param("choices", "pii, wordFilter, moderation, promptShield")
	}
	if r.PII != nil {
		if wrong := r.PII.validate(); wrong != nil {
			return wrong
		}
	}
	if r.WordFilter != nil {
		if wrong := r.WordFilter.validate(); wrong != nil {
			return wrong
		}
	}
	if r.Moderation != nil {
		for _, category := range r.Moderation.Categories {
			if !slices.Contains(moderate.Categories(), category) {
				return notOneOf("rules.moderation.categories", moderate.Categories())
			}
		}
		if wrong := action("rules.moderation.action", r.Moderation.Action); wrong != nil {
			return wrong
		}
	}
	if r.PromptShield != nil {
		return action("rules.promptShield.action", r.PromptShield.Action)
	}
	return nil
}

func (r *PIIRule) validate() *failure.Failure {
	for category, does := range r.Categories {
		if !slices.Contains(Categories(), category) {
			return notOneOf("rules.pii.categories", Categories())
		}
		if wrong := action("rules.pii.categories."+category, does); wrong != nil {
			return wrong
		}
	}
	return action("rules.pii.action", r.Action)
}

func (r *WordRule) validate() *failure.Failure {
	const place = "rules.wordFilter.words"
	if len(r.Words) > maxWords {
		return invalid(failure.MoreEntries).In(place).Param("most", maxWords)
	}
	if len(r.Words) == 0 {
		return invalid(failure.Required).In(place)
	}
	for _, word := range r.Words {
		if count := phrase.Words(word); len(word) > maxWord || count == 0 || count > maxInWords {
			return invalid(failure.OneToCharacters).In(place).Param("most", maxWord)
		}
	}
	return action("rules.wordFilter.action", r.Action)
}

func action(place, name string) *failure.Failure {
	if name == "" || slices.Contains(Actions(), name) {
		return nil
	}
	return notOneOf(place, Actions())
}

func notOneOf(place string, choices []string) *failure.Failure {
	return invalid(failure.NotOneOf).Param("name", place).Param("choices", strings.Join(choices, ", "))
}

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, reason)
}
