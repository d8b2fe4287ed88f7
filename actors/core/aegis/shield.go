package aegis

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// DefaultID is the shield that every project has.
const DefaultID = "default"

// Modes of a shield.
const (
	Enforce  = "enforce"
	Simulate = "simulate"
	Disabled = "disabled"
)

// Modes are all of them.
func Modes() []string { return []string{Enforce, Simulate, Disabled} }

// Shield is a policy of a project: a record, and what it says.
type Shield struct {
	*directorypb.Shield
	Rules Rules
	DLP   DLP
	LLM   LLM

	version string
}

// Of reads a recorded shield. What it does not know is refused: a rule that is dropped would let through what it was made for.
func Of(record *directorypb.Shield) (*Shield, *failure.Failure) {
	s := &Shield{Shield: record}
	if wrong := Strict(record.GetRules(), &s.Rules, "rules"); wrong != nil {
		return nil, wrong
	}
	if wrong := Strict(record.GetDlp(), &s.DLP, "dlp"); wrong != nil {
		return nil, wrong
	}
	if wrong := Strict(record.GetLlm(), &s.LLM, "llm"); wrong != nil {
		return nil, wrong
	}
	s.LLM.fill()
	s.version = s.sum()
	return s, nil
}

// Strict decodes a member of a record that says what is judged, an object of known fields; empty is {}. The refusal names the member.
func Strict(text []byte, into any, member string) *failure.Failure {
	if len(text) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && text[0] == '{' {
		return nil
	}
	if name, unknown := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); unknown {
		return invalid(failure.UnknownField).In(member).Param("name", strings.Trim(name, `"`))
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is && wrong.Field != "" {
		return invalid(failure.WrongJSONType).In(member + "." + wrong.Field)
	}
	return invalid(failure.MustBeObject).In(member)
}

// Rules are what may be called, with what, by whom and how often. Empty lists and maps, and limits of 0, bound nothing.
type Rules struct {
	Allow               []string                   `json:"allow"` // tools
	Deny                []string                   `json:"deny"`
	SideEffects         map[string]string          `json:"sideEffects"`  // of tools; what is not in it is guessed by the tool's name
	AllowedRoles        map[string][]string        `json:"allowedRoles"` // of whoever calls a tool
	AllowedDomains      []string                   `json:"allowedDomains"`
	DeniedDomains       []string                   `json:"deniedDomains"`
	AllowedPathPrefixes []string                   `json:"allowedPathPrefixes"`
	DeniedPathPrefixes  []string                   `json:"deniedPathPrefixes"`
	ArgumentSchemas     map[string]json.RawMessage `json:"argumentSchemas"` // JSON Schemas of tools' arguments
	Limits              Limits                     `json:"limits"`
}

// Limits bound calls; 0 = not at all.
type Limits struct {
	PerActorPerMinute int `json:"perActorPerMinute"`
	PerToolPerMinute  int `json:"perToolPerMinute"`
	MaxArgBytes       int `json:"maxArgBytes"`
	MaxResultBytes    int `json:"maxResultBytes"`
}

// DLP says what is taken out of texts.
type DLP struct {
	RedactSecrets bool `json:"redactSecrets"`
	RedactPII     bool `json:"redactPii"`
}

// CheckDLP says why what a client writes as a shield's dlp cannot be: it says of both whether they are taken out (document 3, 15.3).
func CheckDLP(text []byte) *failure.Failure {
	var said struct {
		RedactSecrets *bool `json:"redactSecrets"`
		RedactPII     *bool `json:"redactPii"`
	}
	wrong := Strict(text, &said, "dlp")
	switch {
	case wrong != nil:
		return wrong
	case said.RedactSecrets == nil:
		return invalid(failure.Required).In("dlp.redactSecrets")
	case said.RedactPII == nil:
		return invalid(failure.Required).In("dlp.redactPii")
	}
	return nil
}

// Default is the built-in shield of a project (document 3, 15.5).
func Default(tenantID, projectID string) *directorypb.Shield {
	return &directorypb.Shield{
		Id: DefaultID, TenantId: tenantID, ProjectId: projectID, Name: "Default", Mode: Enforce,
		Rules: []byte(`{}`), Dlp: []byte(`{"redactSecrets":true,"redactPii":true}`),
	}
}

// Version names what a shield decides by: it changes when that does.
func (s *Shield) Version() string { return s.version }

func (s *Shield) sum() string {
	decides := []any{s.GetMode(), s.Rules, s.DLP}
	if s.LLM.Judge.Enabled {
		decides = append(decides, s.LLM)
	}
	text, err := json.Marshal(decides)
	if err != nil {
		return "" // unreachable: plain data, and schemas that were JSON when they were stored
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Bounds of a shield.
const (
	maxName    = 200
	maxText    = 2000
	maxEntries = 500 // of a list or map
	maxEntry   = 500 // bytes of one of their texts
	maxSchema  = 32 << 10
	maxLimit   = 1 << 30
)

// Validate says why a shield cannot be; checkSchema does for a JSON Schema.
func (s *Shield) Validate(checkSchema func([]byte) error) *failure.Failure {
	switch {
	case strings.TrimSpace(s.GetName()) == "" || utf8.RuneCountInString(s.GetName()) > maxName:
		return invalid(failure.OneToCharacters).In("name").Param("most", maxName)
	case utf8.RuneCountInString(s.GetDescription()) > maxText:
		return invalid(failure.AtMostCharacters).In("description").Param("most", maxText)
	case !slices.Contains(Modes(), s.GetMode()):
		return invalid(failure.NotOneOf).Param("name", "mode").Param("choices", strings.Join(Modes(), ", "))
	}
	if wrong := s.LLM.validate(); wrong != nil {
		return wrong
	}
	return s.Rules.validate(checkSchema)
}

func (r *Rules) validate(checkSchema func([]byte) error) *failure.Failure {
	for name, list := range map[string][]string{
		"allow": r.Allow, "deny": r.Deny, "allowedDomains": r.AllowedDomains, "deniedDomains": r.DeniedDomains,
		"allowedPathPrefixes": r.AllowedPathPrefixes, "deniedPathPrefixes": r.DeniedPathPrefixes,
	} {
		if wrong := entries("rules."+name, list); wrong != nil {
			return wrong
		}
	}
	for tool, effect := range r.SideEffects {
		if !slices.Contains(effects(), effect) {
			return invalid(failure.NotOneOf).Param("name", "rules.sideEffects."+tool).Param("choices", strings.Join(effects(), ", "))
		}
	}
	for tool, roles := range r.AllowedRoles {
		if wrong := entries("rules.allowedRoles."+tool, roles); wrong != nil {
			return wrong
		}
	}
	for tool, schema := range r.ArgumentSchemas {
		place := "rules.argumentSchemas." + tool
		if len(schema) > maxSchema {
			return invalid(failure.AtMostBytes).In(place).Param("most", maxSchema)
		}
		if err := checkSchema(schema); err != nil {
			return invalid(failure.BadShieldSchema).In(place).Param("problem", err.Error())
		}
	}
	l := r.Limits
	if min(l.PerActorPerMinute, l.PerToolPerMinute, l.MaxArgBytes, l.MaxResultBytes) < 0 ||
		max(l.PerActorPerMinute, l.PerToolPerMinute, l.MaxArgBytes, l.MaxResultBytes) > maxLimit {
		return invalid(failure.OutOfRange).In("rules.limits").Param("least", 0).Param("most", maxLimit)
	}
	if len(r.SideEffects) > maxEntries || len(r.AllowedRoles) > maxEntries || len(r.ArgumentSchemas) > maxEntries {
		return invalid(failure.MoreEntries).In("rules").Param("most", maxEntries)
	}
	return nil
}

// entries says why a list of texts cannot be.
func entries(place string, list []string) *failure.Failure {
	if len(list) > maxEntries {
		return invalid(failure.MoreEntries).In(place).Param("most", maxEntries)
	}
	for _, text := range list {
		if text == "" || len(text) > maxEntry {
			return invalid(failure.OneToCharacters).In(place).Param("most", maxEntry)
		}
	}
	return nil
}

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, reason)
}

// Side effects of tools, the harmless ones first.
const (
	none        = "none"
	read        = "read"
	write       = "write"
	destructive = "destructive"
	external    = "external"
)

func effects() []string { return []string{none, read, write, destructive, external} }

// sideEffect is what a tool does: what its shield says, else what the verbs of its name say.
func (s *Shield) sideEffect(tool string) string {
	if said := forTool(s.Rules.SideEffects, tool); len(said) > 0 {
		return slices.MaxFunc(said, func(a, b string) int { return slices.Index(effects(), a) - slices.Index(effects(), b) })
	}
	worst := read
	for i, word := range words(tool) {
		switch word {
		case "delete", "drop", "remove", "destroy", "truncate", "purge", "wipe", "erase", "kill", "terminate", "revoke", "uninstall", "rm", "overwrite", "shutdown":
			return destructive
		case "send", "transfer", "pay", "publish", "tweet", "purchase", "buy", "refund", "withdraw", "notify", "upload", "deploy", "exec", "execute", "shell", "invite", "submit":
			worst = external
		case "create", "update", "write", "insert", "edit", "add", "save", "rename":
			if worst == read {
				worst = write
			}
		case "format", "post", "email", "mail", "sms", "wire", "order", "charge", "share": // verbs where they come first, else what something is about
			switch {
			case i > 0:
			case word == "format":
				return destructive
			default:
				worst = external
			}
		}
	}
	return worst
}

// words are the words of a name: send_mail, sendMail, send-mail, mail.send.
func words(name string) []string {
	var all []string
	start := 0
	flush := func(end int) {
		if end > start {
			all = append(all, strings.ToLower(name[start:end]))
		}
		start = end
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'A' && c <= 'Z' && i > 0 && (name[i-1] < 'A' || name[i-1] > 'Z'):
			flush(i)
		case (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c < utf8.RuneSelf:
			flush(i)
			start = i + 1
		}
	}
	flush(len(name))
	return all
}
