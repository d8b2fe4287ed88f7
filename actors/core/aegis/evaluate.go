package aegis

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"parley/actors/core/letters"
	"parley/actors/machine/rawjson"
)

// Stages at which a call is judged.
const (
	InputPre      = "input.pre"
	RetrievalPre  = "retrieval.pre"
	RetrievalPost = "retrieval.post"
	ToolPre       = "tool.pre"
	ToolPost      = "tool.post"
	OutputPre     = "output.pre"
)

// Stages are all of them.
func Stages() []string {
	return []string{InputPre, RetrievalPre, RetrievalPost, ToolPre, ToolPost, OutputPre}
}

// Decision is what may become of a call. Of two the larger one is stricter.
type Decision int

// Decisions.
const (
	Allow Decision = iota
	Redact
	Sandbox
	RequireApproval
	Block
)

// Decisions are the names of all decisions, in their order.
func Decisions() []string { return []string{"allow", "redact", "sandbox", "require_approval", "block"} }

// String is a decision's name.
func (d Decision) String() string { return Decisions()[d] }

// Severities.
const (
	Low      = "low"
	Medium   = "medium"
	High     = "high"
	Critical = "critical"
)

// Call is one thing that is about to happen.
type Call struct {
	Stage        string
	Type, Name   string          // of the resource
	Arguments    json.RawMessage // an object; nil = none
	Content      json.RawMessage
	Result       json.RawMessage
	Actor        string
	Roles        []string
	SandboxReady bool // what has side effects can run where it does no harm
}

// Finding is one reason for a decision.
type Finding struct {
	Code     string
	Severity string
	Reason   string
	Path     string // in the resource; "" = all of it
	Decision Decision
}

// Mutation is what is taken out of a resource.
type Mutation struct {
	Path        string
	Action      string // redact or remove
	Replacement string
}

// Result is what is decided about a call.
type Result struct {
	TraceID   string // under which it is kept; empty = it is not
	Mode      string
	Decision  Decision
	Enforced  bool
	Risk      float64 // 0 to 1
	Version   string
	Findings  []Finding
	Mutations []Mutation
	// Sanitized is the resource without what is redacted: what to go on with. nil = as it is.
	Sanitized json.RawMessage
}

// Reasons are the words of all findings, in their order; never nil.
func (r *Result) Reasons() []string {
	reasons := make([]string, 0, len(r.Findings))
	for _, f := range r.Findings {
		reasons = append(reasons, f.Reason)
	}
	return reasons
}

// Stopped says why a call must not go on where nobody can be asked about it, false when it may.
func (r *Result) Stopped() (reasons string, stopped bool) {
	if !r.Enforced || r.Decision < Sandbox {
		return "", false
	}
	return strings.Join(r.Deciding(), "; "), true
}

// Deciding are the words of the findings that made the decision what it is, each once.
func (r *Result) Deciding() []string {
	var reasons []string
	for _, f := range r.Findings {
		if f.Decision == r.Decision && !slices.Contains(reasons, f.Reason) {
			reasons = append(reasons, f.Reason)
		}
	}
	return reasons
}

// Part is a member of the resource to go on with: the one that is left of it, or the one that came.
func (r *Result) Part(name string, came json.RawMessage) json.RawMessage {
	if len(r.Sanitized) == 0 {
		return came
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(r.Sanitized, &members) != nil || len(members[name]) == 0 {
		return came // unreachable: it was made of what came
	}
	return members[name]
}

// How says how a call is asked about.
type How struct {
	TraceID string // empty = a new one
	// Approved uses up the approval of the call, if it has one. nil = it has none.
	Approved func(ctx context.Context) (bool, error)
	// Counted says that this very call was counted before, Again that it is not kept either. A judge is asked in any case: whether it was
	// before is not known.
	Counted, Again  bool
	UserID, TokenID string // who has caused the call, and with that the judge's, which the shield's project pays
}

// Ports are what a shield needs of the rest of the server.
type Ports struct {
	// Fits says why arguments do not fit a schema.
	Fits func(ctx context.Context, schema, arguments []byte) error
	// Take counts a call under a key, and says whether it is one of those that a minute may have.
	Take func(ctx context.Context, key string, perMinute int) (bool, error)
	// Approved uses up the approval of this call, if it has one.
	Approved func(ctx context.Context) (bool, error)
	// Ask asks a model, for a bounded time. The error's text is shown to whoever is judged.
	Ask func(ctx context.Context, question *Question) (answer string, err error)
}

// Evaluate judges a call. An error means that it could not be told; nothing is allowed then.
func (s *Shield) Evaluate(ctx context.Context, call *Call, ports Ports) (*Result, error) {
	result := &Result{Mode: s.GetMode(), Version: s.Version(), Enforced: s.GetMode() == Enforce}
	if s.GetMode() == Disabled {
		return result, nil
	}
	j := &judgement{shield: s, call: call}
	if err := j.tool(ctx, ports); err != nil {
		return nil, err
	}
	sanitized, err := j.resource()
	if err != nil {
		return nil, err
	}
	if err := j.limits(ctx, ports); err != nil {
		return nil, err
	}
	if err := j.judge(ctx, sanitized, ports); err != nil { // before an approval is used up that it may come to nothing with
		return nil, err
	}
	if j.strictest() == RequireApproval && result.Enforced {
		approved, err := ports.Approved(ctx)
		if err != nil {
			return nil, err
		}
		if approved {
			j.findings = slices.DeleteFunc(j.findings, func(f Finding) bool { return f.Decision == RequireApproval })
		}
	}
	result.Decision, result.Findings, result.Mutations = j.strictest(), j.findings, j.mutations
	result.Risk = j.risk
	for _, f := range j.findings {
		if f.Code != codeJudge && f.Code != codeSaid {
			result.Risk = max(result.Risk, risk(f.Severity))
		}
	}
	if len(j.mutations) > 0 && result.Enforced && result.Decision != Block {
		result.Sanitized = sanitized
	}
	return result, nil
}

func risk(severity string) float64 {
	switch severity {
	case Critical:
		return 1
	case High:
		return 0.8
	case Medium:
		return 0.5
	default:
		return 0.2
	}
}

// judgement is what was found so far.
type judgement struct {
	shield    *Shield
	call      *Call
	findings  []Finding
	mutations []Mutation
	risk      float64 // that the model has named

	allowed, denied domains // nil before the first text that may name a host
}

const (
	// maxFindings bounds the findings of a kind: a text of 1 MB may name 200,000 hosts.
	maxFindings = 32
	// maxReason bounds the words of a finding, in bytes.
	maxReason = 400
)

// find notes a finding, where not enough of its kind are noted. Reasons quote what they judge, and are kept and shown where that is not.
func (j *judgement) find(decision Decision, severity, code, reason, path string) {
	alike := 0
	for _, f := range j.findings {
		if f.Code == code && f.Decision == decision && f.Severity == severity {
			alike++
		}
	}
	if alike == maxFindings {
		return
	}
	reason = letters.Shorten(j.clean(reason, "", nil), maxReason)
	j.findings = append(j.findings, Finding{Code: code, Severity: severity, Reason: reason, Path: path, Decision: decision})
}

func (j *judgement) strictest() Decision {
	strictest := Allow
	for _, f := range j.findings {
		strictest = max(strictest, f.Decision)
	}
	return strictest
}

// tool judges who calls which tool with what.
func (j *judgement) tool(ctx context.Context, ports Ports) error {
	s, c := j.shield, j.call
	if !strings.HasPrefix(c.Stage, "tool.") {
		return nil
	}
	if slices.ContainsFunc(s.Rules.Deny, func(tool string) bool { return same(tool, c.Name) }) {
		j.find(Block, High, "tool_denied", "tool "+c.Name+" is denied", "name")
	}
	if len(s.Rules.Allow) > 0 && !slices.ContainsFunc(s.Rules.Allow, func(tool string) bool { return same(tool, c.Name) }) {
		j.find(Block, High, "tool_not_allowed", "tool "+c.Name+" is not among those that are allowed", "name")
	}
	for _, roles := range forTool(s.Rules.AllowedRoles, c.Name) {
		if !slices.ContainsFunc(c.Roles, func(role string) bool { return slices.Contains(roles, role) }) {
			j.find(Block, High, "role_missing", "the actor has no role that may call "+c.Name, "")
		}
	}
	if c.Stage != ToolPre {
		return nil
	}
	for _, schema := range forTool(s.Rules.ArgumentSchemas, c.Name) {
		if err := ports.Fits(ctx, schema, orObject(c.Arguments)); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			j.find(Block, Medium, "arguments_invalid", "arguments do not fit: "+err.Error(), "arguments")
		}
	}
	if effect := s.sideEffect(c.Name); effect == destructive || effect == external {
		if c.SandboxReady {
			j.find(Sandbox, Medium, "side_effect", "tool "+c.Name+" has an effect: "+effect, "name")
		} else {
			j.find(RequireApproval, High, "side_effect", "tool "+c.Name+" has an effect: "+effect, "name")
		}
	}
	return nil
}

// same compares names of tools: a denied tool is not let through by its spelling.
func same(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }

// forTool is what the rules say of a tool: all that name it, in the order of their names.
func forTool[V any](rules map[string]V, tool string) (said []V) {
	var names []string
	for name := range rules {
		if same(name, tool) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		said = append(said, rules[name])
	}
	return said
}

func orObject(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	return raw
}

// limits counts a call that nothing else has blocked: what is refused uses up nothing.
func (j *judgement) limits(ctx context.Context, ports Ports) error {
	s, c := j.shield, j.call
	if j.strictest() == Block || c.Stage != ToolPre && c.Stage != InputPre && c.Stage != RetrievalPre {
		return nil
	}
	for _, limit := range []struct {
		most      int
		key, what string
	}{{s.Rules.Limits.PerActorPerMinute, "actor\x00" + c.Actor, "actor"}, {s.Rules.Limits.PerToolPerMinute, "tool\x00" + strings.ToLower(strings.TrimSpace(c.Name)), "tool"}} {
		if limit.most == 0 || limit.what == "tool" && c.Stage != ToolPre {
			continue
		}
		within, err := ports.Take(ctx, limit.key, limit.most)
		if err != nil {
			return err
		}
		if !within {
			j.find(Block, Medium, "rate_limit", "the "+limit.what+"'s limit of calls in a minute is reached", "")
			return nil
		}
	}
	return nil
}

// Binding names this very call of an actor under a shield: an approval is good for it and for no other.
func (c *Call) Binding(s *Shield) string {
	text, err := json.Marshal([]any{
		s.GetTenantId(), s.GetProjectId(), s.GetId(), c.Actor, c.Stage, c.Type, c.Name, canonical(c.Arguments), canonical(c.Content), canonical(c.Result),
	})
	if err != nil {
		return "" // unreachable: canonical returns JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// canonical is JSON with its members in order and without blanks; numbers keep their digits.
func canonical(raw json.RawMessage) json.RawMessage {
	value, err := decode(raw)
	if err != nil {
		return json.RawMessage("null")
	}
	return encode(value)
}

func decode(raw json.RawMessage) (value any, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

func encode(value any) json.RawMessage {
	encoded, err := rawjson.AppendValue(nil, value)
	if err != nil {
		return json.RawMessage("null") // unreachable: it was decoded from JSON
	}
	return encoded
}
