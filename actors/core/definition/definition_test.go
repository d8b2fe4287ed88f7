package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"parley/actors/machine"
)

// TestScripts reads what clients send. See testdata for the commands.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			input := []byte(strings.TrimSpace(d.Input))
			var stored string
			d.MaybeScanArgs(t, "stored", &stored)
			switch d.Cmd {
			case "config":
				draft, failure := Read(input)
				if failure != nil {
					return said(failure)
				}
				return told(draft, draft.Config)
			case "metadata":
				text, failure := ReadMetadata(input, []byte(strings.ReplaceAll(stored, "'", `"`)), func() string { return "0123456789abcdef" })
				if failure != nil {
					return said(failure)
				}
				return string(text) + "\n"
			case "settings", "pricing":
				read := ReadSettings
				if d.Cmd == "pricing" {
					read = ReadPricing
				}
				text, failure := read(input)
				if failure != nil {
					return said(failure)
				}
				if d.Cmd == "settings" {
					return string(text) + "\n"
				}
				price, err := Price(text)
				if price == nil {
					return fmt.Sprintf("%s\nno price %v\n", text, err)
				}
				return fmt.Sprintf("%s\ninput %d cached %d output %d %v\n", text, price.GetInputNanoUsdPerMtok(),
					price.GetCachedInputNanoUsdPerMtok(), price.GetOutputNanoUsdPerMtok(), err)
			case "provider":
				var sent struct {
					Settings    json.RawMessage
					Credentials map[string]*string
				}
				require.NoError(t, json.Unmarshal(input, &sent))
				former := Sealed{"credentials.old": []byte("sealed"), "settings.headers.X-Old": []byte("sealed")}
				draft, failure := ReadProvider(sent.Settings, sent.Credentials, former)
				if failure != nil {
					return said(failure)
				}
				return told(&draft.Draft, draft.Settings)
			}
			return "unknown command\n"
		})
	})
}

func said(failure *machine.Failure) string {
	return fmt.Sprintf("%s: %s\n", failure.Code, failure.DefaultText())
}

func told(draft *Draft, text []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", text)
	for _, path := range slices.Sorted(keysOf(draft.given)) {
		fmt.Fprintf(&b, "secret %s = %s\n", path, draft.given[path])
	}
	for _, path := range slices.Sorted(slices.Values(draft.kept)) {
		fmt.Fprintf(&b, "keeps %s%s\n", path, map[bool]string{true: ", which must be there"}[slices.Contains(draft.wanted, path)])
	}
	return b.String()
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

func seal(secret []byte, about string) ([]byte, error) {
	return []byte(about + "=" + string(secret)), nil
}

func open(sealed []byte, about string) ([]byte, error) {
	secret, ok := strings.CutPrefix(string(sealed), about+"=")
	if !ok {
		return nil, errors.New("sealed about something else")
	}
	return []byte(secret), nil
}

func read(t *testing.T, text string) *Draft {
	t.Helper()
	draft, failure := Read([]byte(text))
	require.Nil(t, failure)
	return draft
}

// TestSecretsComeBack goes the way of a connected agent: created, shown, changed by what was shown, and run.
func TestSecretsComeBack(t *testing.T) {
	first := read(t, `{"kind":"external","connection":{"protocol":"a2a","url":"https://a.test","apiKey":"k1","headers":{"X-A":"h1","X-B":"h2"}}}`)
	sealed, err := first.Seal("p/a", Stored{}, seal)
	require.NoError(t, err)
	shown := Show(first.Config, sealed)
	require.NotContains(t, string(shown), "k1")
	require.Contains(t, string(shown), `"hasApiKey":true`)

	again := read(t, string(shown)) // hasApiKey and masks, sent back
	kept, err := again.Seal("p/a", Stored{first.Config, sealed}, seal)
	require.NoError(t, err)
	require.Equal(t, sealed, kept)

	changed := read(t, `{"kind":"external","connection":{"protocol":"a2a","url":"https://A.test:443/x","apiKey":null,"headers":{"X-A":"********"}}}`)
	sealed, err = changed.Seal("p/a", Stored{again.Config, sealed}, seal)
	require.NoError(t, err)
	stored, err := ParseSealed(sealed.Encode())
	require.NoError(t, err)
	secrets, err := stored.Open("p/a", open)
	require.NoError(t, err)
	require.Empty(t, secrets.ConnectionKey())
	require.Equal(t, map[string]string{"X-A": "h1"}, secrets.ConnectionHeaders(changed.Parsed.Connection.Headers))
	require.NotContains(t, string(Show(changed.Config, stored)), `"hasApiKey":true`)

	_, err = stored.Open("p/b", open) // another agent's
	require.Error(t, err)
}

func TestAMaskNeedsAStoredValue(t *testing.T) {
	draft := read(t, `{"modelKey":"m","tools":[{"name":"t","url":"https://a.test","headers":{"X-A":"********"}}]}`)
	_, err := draft.Seal("p/a", Stored{}, seal)
	require.EqualError(t, err, "INVALID_REQUEST: tools.t.headers.X-A: there is no stored value to keep")
}

// TestSecretsStayWithTheirHost: whatever takes a secret's target elsewhere needs the secret again.
func TestSecretsStayWithTheirHost(t *testing.T) {
	const (
		far    = `{"kind":"external","connection":{"protocol":"a2a","url":"%s","headers":{"X-A":"%s"}%s}}`
		native = `{"modelKey":"m","tools":[{"name":"t","url":"%s","headers":{"X-A":"%s"}}],"mcpServers":[{"name":"s","url":"%s","headers":{"X-A":"%s"}}]}`
		mine   = "https://a.test/x"
	)
	seals := func(config, after string) error {
		first := read(t, config)
		sealed, err := first.Seal("p/a", Stored{}, seal)
		require.NoError(t, err)
		again, err := read(t, after).Seal("p/a", Stored{first.Config, sealed}, seal)
		if err == nil {
			require.Equal(t, sealed, again)
		}
		return err
	}
	connected := fmt.Sprintf(far, mine, "h", `,"apiKey":"k"`)
	keyed := `{"kind":"external","connection":{"protocol":"a2a","url":"https://a.test","apiKey":"k"}}`
	both := fmt.Sprintf(native, mine, "h1", mine, "h2")
	for _, same := range []string{mine, "https://a.test", "HTTPS://A.test.:443/y?z"} {
		require.NoError(t, seals(connected, fmt.Sprintf(far, same, Mask, "")))
		require.NoError(t, seals(both, fmt.Sprintf(native, same, Mask, same, Mask)))
	}
	const again = ": the stored value was given for another host and is not sent to this one: give it again"
	for _, moved := range []string{"http://a.test/x", "https://a.test:444/x", "https://b.test/x", "https://a.test.b.test", "https://x.a.test"} {
		require.ErrorContains(t, seals(keyed, strings.Replace(keyed, `https://a.test","apiKey":"k"`, moved+`"`, 1)), "connection.apiKey"+again, moved)
		require.ErrorContains(t, seals(connected, fmt.Sprintf(far, moved, Mask, `,"apiKey":null`)), "connection.headers.X-A"+again, moved)
		require.ErrorContains(t, seals(both, fmt.Sprintf(native, moved, Mask, mine, Mask)), "tools.t.headers.X-A"+again, moved)
		require.ErrorContains(t, seals(both, fmt.Sprintf(native, mine, Mask, moved, Mask)), "mcpServers.s.headers.X-A"+again, moved)
	}
	// Two names that make one path.
	require.ErrorContains(t, seals(
		`{"modelKey":"m","mcpServers":[{"name":"s","url":"https://a.test","headers":{"b.headers.X":"h"}}]}`,
		`{"modelKey":"m","mcpServers":[{"name":"s.headers.b","url":"https://b.test","headers":{"X":"`+Mask+`"}}]}`), again)
	require.ErrorContains(t, seals(
		`{"modelKey":"m","mcpServers":[{"name":"s","url":"https://a.test","headers":{"b.headers.X":"h"}}]}`,
		`{"modelKey":"m","mcpServers":[{"name":"s.headers.b","url":"https://b.test","headers":{"X":"`+Mask+`"}},{"name":"s","url":"https://a.test","headers":{"b.headers.X":"`+Mask+`"}}]}`), again)

	require.True(t, Moved([]byte(`{"baseUrl":"https://a.test"}`), []byte(`{"baseUrl":"http://a.test"}`)))
	require.True(t, Moved(nil, []byte(`{"baseUrl":"https://a.test"}`)))
	require.False(t, Moved([]byte(`{"baseUrl":"https://a.test"}`), []byte(`{"baseUrl":" https://A.test:443/v1"}`)))
}

func TestASealThatFailsFails(t *testing.T) {
	draft := read(t, `{"kind":"external","connection":{"protocol":"a2a","url":"https://a.test","apiKey":"k1"}}`)
	broken := errors.New("locked")
	_, err := draft.Seal("p/a", Stored{}, func([]byte, string) ([]byte, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
}

// TestNoSecretIsStored: wherever in a config a secret is put, in whatever case its key is written, Read refuses it, drops it or
// takes it out.
func TestNoSecretIsStored(t *testing.T) {
	const secret = "the-secret-0123"
	rapid.Check(t, func(t *rapid.T) {
		swap := func(name string) string {
			return strings.Map(func(r rune) rune {
				if rapid.Bool().Draw(t, "upper") {
					return []rune(strings.ToUpper(string(r)))[0]
				}
				return r
			}, name)
		}
		headers := map[string]any{"X-A": secret}
		where := rapid.SampledFrom([]string{"connection", "key", "tool", "server", "binding", "further", "deep", "sealed"}).Draw(t, "where")
		config := map[string]any{"modelKey": "m", swap("temperature"): 0.5, "note": "x"}
		switch where {
		case "connection", "key":
			config = map[string]any{"kind": "external", swap("connection"): map[string]any{
				"protocol": "a2a", "url": "https://a.test", swap("headers"): headers, swap("apiKey"): secret,
			}}
		case "tool":
			config[swap("tools")] = []any{map[string]any{"name": "t", "url": "https://a.test", swap("headers"): headers}}
		case "server":
			config[swap("mcpServers")] = []any{map[string]any{"name": "s", "url": "https://a.test", swap("headers"): headers}}
		case "binding":
			config[swap("toolBindings")] = []any{map[string]any{"source": "tool", swap("config"): map[string]any{swap("api_key"): secret}}}
		case "further":
			config[swap("apiKey")] = secret
		case "deep":
			config["provider"] = []any{map[string]any{"auth": map[string]any{swap("password"): secret}}}
		case "sealed":
			config[swap("apiKeyEnc")] = secret
			config[swap("connection")] = map[string]any{"apiKey": secret}
		}
		raw, err := json.Marshal(config)
		require.NoError(t, err)
		draft, failure := Read(raw)
		if failure != nil {
			require.NotContains(t, failure.Error(), secret)
			return
		}
		require.NotContains(t, string(draft.Config), secret, "%s", raw)
		again, failure := Read(draft.Config)
		require.Nil(t, failure)
		require.JSONEq(t, string(draft.Config), string(again.Config))
	})
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"modelKey":"m","tools":[{"name":"t","client":true}],"x":[1e999]}`,
		`{"kind":"external","connection":{"protocol":"a2a","url":"https://a.test"}}`, `[]`, `{"modelKey":"m","":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		draft, failure := Read(raw)
		if failure == nil {
			parsed, err := Parse(draft.Config)
			require.NoError(t, err)
			require.Equal(t, draft.Parsed.ModelKey, parsed.ModelKey)
		}
		_, _ = ReadMetadata(raw, raw, func() string { return "0123456789abcdef" })
		_, _ = ReadSettings(raw)
		_, _ = ReadPricing(raw)
	})
}
