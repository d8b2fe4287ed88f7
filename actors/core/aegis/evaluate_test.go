package aegis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/core/aegis"
)

// world is what a shield needs of the server, by hand.
type world struct {
	taken    map[string]int
	approved int
	failing  error
}

func (w *world) ports() aegis.Ports {
	return aegis.Ports{
		Fits: func(_ context.Context, _, arguments []byte) error {
			if string(arguments) == `{"bad":1}` {
				return errors.New("bad is not known")
			}
			return nil
		},
		Take: func(_ context.Context, key string, perMinute int) (bool, error) {
			w.taken[key]++
			return w.taken[key] <= perMinute, w.failing
		},
		Approved: func(context.Context) (bool, error) {
			w.approved--
			return w.approved >= 0, w.failing
		},
	}
}

func shield(edit func(*aegis.Shield)) *aegis.Shield {
	s, wrong := aegis.Of(aegis.Default("t1", "p1"))
	if wrong != nil {
		panic(wrong)
	}
	if edit != nil {
		edit(s)
	}
	return s
}

func evaluate(t *testing.T, s *aegis.Shield, call aegis.Call) *aegis.Result {
	t.Helper()
	result, err := s.Evaluate(t.Context(), &call, (&world{taken: map[string]int{}}).ports())
	require.NoError(t, err)
	return result
}

func tool(name, arguments string) aegis.Call {
	return aegis.Call{Stage: aegis.ToolPre, Type: "tool", Name: name, Arguments: json.RawMessage(arguments), Actor: "ann", Roles: []string{"clerk"}}
}

func TestRules(t *testing.T) {
	bound := shield(func(s *aegis.Shield) {
		s.Rules = aegis.Rules{
			Deny: []string{"format_disk"}, SideEffects: map[string]string{"send_report": "read", "lookup": "external", "note": "write"},
			AllowedRoles: map[string][]string{"payroll": {"boss"}}, AllowedDomains: []string{"example.com"}, DeniedDomains: []string{"evil.example.com"},
			AllowedPathPrefixes: []string{"/data"}, DeniedPathPrefixes: []string{"/data/private"},
			ArgumentSchemas: map[string]json.RawMessage{"strict": json.RawMessage(`{}`)}, Limits: aegis.Limits{MaxArgBytes: 200},
		}
	})
	narrow := shield(func(s *aegis.Shield) { s.Rules.Allow = []string{"read_file"} })
	for _, c := range []struct {
		shield *aegis.Shield
		call   aegis.Call
		want   string
		codes  string
	}{
		{bound, tool("lookup_order", `{}`), "allow", "[]"},
		{bound, tool("Format_Disk ", `{}`), "block", "[tool_denied side_effect]"},
		{bound, tool("send_report", `{}`), "allow", "[]"},
		{bound, tool("lookup", `{}`), "require_approval", "[side_effect]"},
		{bound, tool("deleteAccount", `{}`), "require_approval", "[side_effect]"},
		{bound, tool("mail.send", `{}`), "require_approval", "[side_effect]"},
		{bound, tool("note", `{}`), "allow", "[]"},
		{bound, tool("payroll", `{}`), "block", "[role_missing]"},
		{bound, tool(" PAYROLL", `{}`), "block", "[role_missing]"},
		{bound, tool("LOOKUP", `{}`), "require_approval", "[side_effect]"},
		{bound, tool("Strict", `{"bad":1}`), "block", "[arguments_invalid]"},
		{bound, tool("strict", `{"bad":1}`), "block", "[arguments_invalid]"},
		{bound, tool("fetch", `{"url":"https://api.example.com/x"}`), "allow", "[]"},
		{bound, tool("fetch", `{"url":"https://a.evil.example.com/x"}`), "block", "[domain_denied]"},
		{bound, tool("fetch", `{"url":"https://example.com@bad.test/"}`), "block", "[domain_not_allowed dlp_email]"},
		{bound, tool("fetch", `{"url":"https://bad.test\\@example.com/"}`), "block", "[domain_not_allowed]"},
		{bound, tool("fetch", `{"q":"see //EXAMPLE.com./ and https://bad.test:80:80/"}`), "block", "[domain_not_allowed]"},
		{bound, tool("fetch", `{"host":"notexample.com"}`), "block", "[domain_not_allowed]"},
		{bound, tool("open", `{"path":"/data/a/../b.txt"}`), "allow", "[]"},
		{bound, tool("open", `{"path":"/data/../etc/passwd"}`), "block", "[path_not_allowed]"},
		{bound, tool("open", `{"path":"/data/x/%2e%2e/private/key"}`), "block", "[path_denied]"},
		{bound, tool("open", `{"list":["file:///data/private"]}`), "block", "[path_denied]"},
		{bound, tool("open", `{"path":"\\data\\..\\windows"}`), "block", "[path_not_allowed]"},
		{bound, tool("open", `{"text":"`+fmt.Sprintf("%0250d", 0)+`"}`), "block", "[too_large]"},
		{narrow, tool("read_file", `{}`), "allow", "[]"},
		{narrow, tool("write_file", `{}`), "block", "[tool_not_allowed]"},
		{bound, aegis.Call{Stage: aegis.InputPre, Type: "message", Name: "format_disk", Content: json.RawMessage(`"see https://bad.test"`)}, "allow", "[]"},
	} {
		got := evaluate(t, c.shield, c.call)
		codes := []string{}
		for _, f := range got.Findings {
			codes = append(codes, f.Code)
		}
		require.Equal(t, []string{c.want, c.codes}, []string{got.Decision.String(), fmt.Sprint(codes)}, "%s %s", c.call.Name, c.call.Arguments)
	}
}

// TestHosts: a host is judged as whoever calls it reads it, however it is written.
func TestHosts(t *testing.T) {
	denies := shield(func(s *aegis.Shield) {
		s.Rules.DeniedDomains = []string{"evil.example.com", "*.Bücher.example", "169.254.169.254", "::1"}
	})
	allows := shield(func(s *aegis.Shield) { s.Rules.AllowedDomains = []string{"example.com"} })
	for _, c := range []struct {
		arguments      string
		denied, beside bool // with denies, with allows
	}{
		{`{"url":"https://evil。example.com/"}`, true, false},
		{`{"url":"https://ⓔｖｉｌ.example.com"}`, true, false},
		{`{"url":"https://evil%2eexample.com"}`, true, false},
		{`{"url":"https://shop.xn--bcher-kva.example"}`, true, true},
		{`{"note":"open https:evil.example.com/x"}`, true, false},
		{`{"note":"open HTTPS:///evil.example.com"}`, true, false},
		{`{"note":"https:\\\\evil.example.com"}`, true, false},
		{`{"url":"https://ev\til.example.com"}`, true, true},
		{`{"url":"https://example.com\t.bad.test"}`, false, true},
		{`{"url":"https://example.com\\@bad.test"}`, false, true},
		{`{"url":"http://2852039166/latest"}`, true, true},
		{`{"url":"http://0xa9.0376.43518"}`, true, true},
		{`{"url":"http://[::ffff:169.254.169.254]:80/"}`, true, true},
		{`{"url":"http://[0:0::1]"}`, true, true},
		{`{"webhookUrl":"evil.example.com:8080"}`, true, false},
		{`{"hosts":["a.example.com","evil.example.com."]}`, true, false},
		{`{"headers":{"https://evil.example.com/":1}}`, true, false},
		{`{"url":"https://` + strings.Repeat("x", 5000) + `@evil.example.com"}`, true, false},
		{`{"url":"https://evil.example.com:` + strings.Repeat("0", 5000) + `443"}`, true, false},
		{`{"note":"` + strings.Repeat("https:", 20_000) + `//evil.example.com"}`, true, true},
		{`{"note":"` + strings.Repeat("/", 100_000) + `evil.example.com"}`, true, false},
		{`{"note":"see https://example.com\nand news: 1.2.3.4, ghost"}`, false, false},
		{`{"ghost":"bob","ratio":"2852039166","domain":"example.com"}`, false, false},
	} {
		require.Equal(t, c.denied, evaluate(t, denies, tool("fetch", c.arguments)).Decision == aegis.Block, "denied: %s", c.arguments)
		require.Equal(t, c.beside, evaluate(t, allows, tool("fetch", c.arguments)).Decision == aegis.Block, "allowed: %s", c.arguments)
	}
}

// TestManyHosts: a text names more than anybody would read.
func TestManyHosts(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "https://%d.test/%s ", i, strings.Repeat("x", i%7))
	}
	fmt.Fprintf(&text, "https://%s.example.com https://evil.example.com", strings.Repeat("x", 1000))
	got := evaluate(t, shield(func(s *aegis.Shield) {
		s.Rules.AllowedDomains, s.Rules.DeniedDomains = []string{"7.test"}, []string{"example.com"}
	}), tool("open", `{"note":"`+text.String()+`"}`))
	require.Len(t, got.Reasons(), 32+2)
	require.Contains(t, got.Reasons(), "host evil.example.com is denied")
	for _, reason := range got.Reasons() {
		require.LessOrEqual(t, len(reason), 403)
	}
}

// TestReasons: what a reason quotes is redacted as the resource is.
func TestReasons(t *testing.T) {
	got := evaluate(t, shield(func(s *aegis.Shield) { s.Rules.DeniedPathPrefixes = []string{"/"} }), tool("open", `{"path":"/home/ann@example.com"}`))
	require.Contains(t, got.Reasons(), "path /home/[REDACTED:email] is denied")
}

func TestRedaction(t *testing.T) {
	call := tool("lookup", `{"n":12345678901234567890,"to":["ann@example.com","nobody"],"ann@example.com":1,"card":4111111111111111,"html":"<b>"}`)
	got := evaluate(t, shield(nil), call)
	require.Equal(t, "redact", got.Decision.String())
	require.JSONEq(t, `{"arguments":{"card":"[REDACTED:creditCard]","html":"<b>","n":12345678901234567890,"to":["[REDACTED:email]","nobody"]},"name":"lookup","type":"tool"}`, string(got.Sanitized))
	require.Contains(t, string(got.Sanitized), `:12345678901234567890,`, "numbers keep their digits")
	require.Equal(t, []aegis.Mutation{
		{Path: "arguments.ann@example.com", Action: "remove"},
		{Path: "arguments.card", Action: "redact", Replacement: "[REDACTED:creditCard]"},
		{Path: "arguments.to[0]", Action: "redact", Replacement: "[REDACTED:email]"},
	}, got.Mutations)
	require.InDelta(t, 0.8, got.Risk, 0)

	simulated := evaluate(t, shield(func(s *aegis.Shield) { s.Mode = aegis.Simulate }), call)
	require.Equal(t, []any{"redact", false, json.RawMessage(nil)}, []any{simulated.Decision.String(), simulated.Enforced, simulated.Sanitized})
	off := evaluate(t, shield(func(s *aegis.Shield) { s.Mode = aegis.Disabled }), tool("delete", `{}`))
	require.Equal(t, []any{"allow", false, 0}, []any{off.Decision.String(), off.Enforced, len(off.Findings)})
	secretsOnly := evaluate(t, shield(func(s *aegis.Shield) { s.DLP.RedactPII = false }), call)
	require.Equal(t, "allow", secretsOnly.Decision.String())
}

func TestApprovalsAndLimits(t *testing.T) {
	w := &world{taken: map[string]int{}, approved: 1}
	s := shield(func(s *aegis.Shield) { s.Rules.Limits = aegis.Limits{PerActorPerMinute: 2, PerToolPerMinute: 100} })
	call := tool("send_mail", `{"to":"ann@example.com"}`)
	decide := func() string {
		got, err := s.Evaluate(t.Context(), &call, w.ports())
		require.NoError(t, err)
		return got.Decision.String()
	}
	require.Equal(t, []string{"redact", "require_approval", "block"}, []string{decide(), decide(), decide()}, "approved once; then over the limit")
	require.Equal(t, 3, w.taken["actor\x00ann"])
	call.SandboxReady, call.Actor = true, "ben"
	require.Equal(t, "sandbox", decide())

	w.failing = errors.New("the counters are away")
	_, err := s.Evaluate(t.Context(), &call, w.ports())
	require.Error(t, err, "never an allow")
}

func TestBindingIsOfOneCall(t *testing.T) {
	s := shield(nil)
	call := tool("pay", `{"to": "ann", "sum": 5}`)
	same := tool("pay", `{"sum":5,"to":"ann"}`)
	require.Equal(t, call.Binding(s), same.Binding(s))
	other := s
	for _, changed := range []func(*aegis.Call){
		func(c *aegis.Call) { c.Actor = "ben" }, func(c *aegis.Call) { c.Name = "pay2" }, func(c *aegis.Call) { c.Stage = aegis.ToolPost },
		func(c *aegis.Call) { c.Arguments = json.RawMessage(`{"to":"ann","sum":5.0}`) }, func(c *aegis.Call) { c.Content = json.RawMessage(`1`) },
		func(*aegis.Call) { other = shield(func(s *aegis.Shield) { s.ProjectId = "p2" }) },
	} {
		edited := call
		changed(&edited)
		require.NotEqual(t, call.Binding(s), edited.Binding(other))
	}
}

func TestValidate(t *testing.T) {
	check := func(schema []byte) error {
		if string(schema) == `{"type":7}` {
			return errors.New("type is no text")
		}
		return nil
	}
	require.Nil(t, shield(nil).Validate(check))
	for want, edit := range map[string]func(*aegis.Shield){
		"name must be 1 to 200 characters":                 func(s *aegis.Shield) { s.Name = " " },
		"mode must be one of: enforce, simulate, disabled": func(s *aegis.Shield) { s.Mode = "off" },
		"rules.limits must be between 0 and 1073741824":    func(s *aegis.Shield) { s.Rules.Limits.MaxArgBytes = -1 },
		"rules.deny must be 1 to 500 characters":           func(s *aegis.Shield) { s.Rules.Deny = []string{""} },
		"rules.argumentSchemas.x: type is no text": func(s *aegis.Shield) {
			s.Rules.ArgumentSchemas = map[string]json.RawMessage{"x": json.RawMessage(`{"type":7}`)}
		},
		"rules.sideEffects.x must be one of: none, read, write, destructive, external": func(s *aegis.Shield) { s.Rules.SideEffects = map[string]string{"x": "odd"} },
	} {
		refused := shield(edit).Validate(check)
		require.NotNil(t, refused, want)
		require.Equal(t, "INVALID_REQUEST: "+want, refused.Error())
	}
}

func TestOfKnowsAllOfIt(t *testing.T) {
	for rules, want := range map[string]string{
		`{"deny":["x"],"limits":{"maxArgBytes":5}}`: "",
		`{"denied":["x"]}`:                          `INVALID_REQUEST: rules has no field "denied"`,
		`{"deny":"x"}`:                              "INVALID_REQUEST: rules.deny has the wrong type",
		`[]`:                                        "INVALID_REQUEST: rules must be an object",
	} {
		record := aegis.Default("t1", "p1")
		record.Rules = []byte(rules)
		_, wrong := aegis.Of(record)
		if want == "" {
			require.Nil(t, wrong)
			continue
		}
		require.NotNil(t, wrong, rules)
		require.Equal(t, want, wrong.Error())
	}
}

// TestCheckDLP: what is left out is not turned off in silence.
func TestCheckDLP(t *testing.T) {
	for dlp, want := range map[string]string{
		`{}`:                     "INVALID_REQUEST: dlp.redactSecrets is required",
		`{"redactSecrets":true}`: "INVALID_REQUEST: dlp.redactPii is required",
		`{"redactSecrets":true,"redactPii":false,"x":1}`: `INVALID_REQUEST: dlp has no field "x"`,
	} {
		require.EqualError(t, aegis.CheckDLP([]byte(dlp)), want)
	}
	require.Nil(t, aegis.CheckDLP([]byte(`{"redactSecrets":false,"redactPii":true}`)))
}
