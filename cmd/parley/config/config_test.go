package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "parley.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func load(t *testing.T, file string, environ []string, args ...string) (*Request, error) {
	t.Helper()
	if file != "" {
		args = append([]string{"--config", write(t, file)}, args...)
	}
	return Load(args, environ)
}

func TestDefaultIsValid(t *testing.T) {
	require.NoError(t, Default().Validate())
}

func TestFixedSpellings(t *testing.T) {
	spellings := map[string][2]string{}
	for _, s := range settings(Default()) {
		spellings[s.key] = [2]string{s.env(), s.flag()}
	}
	require.Equal(t, [2]string{"PARLEY_DATA_DIR", "data-dir"}, spellings["data_dir"])
	require.Equal(t, [2]string{"PARLEY_LISTEN", "listen"}, spellings["listen"])
	require.Equal(t, [2]string{"PARLEY_OPS_LISTEN", "ops-listen"}, spellings["ops_listen"])
	require.Equal(t, [2]string{"PARLEY_HTTP_BASE_PATH", "http-base-path"}, spellings["http.base_path"])
	require.Equal(t, "./parley-data", Default().DataDir)
	require.Equal(t, "127.0.0.1:8080", Default().Listen)
	require.Equal(t, "127.0.0.1:8081", Default().OpsListen)
}

func TestSpellingsAreUnique(t *testing.T) {
	seen := map[string]string{"PARLEY_CONFIG": "config", "config": "config", "print-config": "print-config"}
	for _, s := range settings(Default()) {
		require.NotContains(t, seen, s.env())
		require.NotContains(t, seen, s.flag())
		seen[s.env()], seen[s.flag()] = s.key, s.key
	}
}

// Every setting is explained, and the default that its comment promises is the default that it has.
func TestCommentsNameTheDefault(t *testing.T) {
	for _, s := range settings(Default()) {
		doc := s.doc()
		require.NotEmpty(t, s.comment(), s.key)
		text := "[]"
		if s.value.Kind() != reflect.Slice {
			text = strings.Trim(formatScalar(s.value), `"`)
		} else if s.value.Len() > 0 {
			words, ok := s.value.Interface().([]string)
			require.True(t, ok, s.key)
			text = "[" + strings.Join(words, ", ") + "]"
		}
		if text == "" || strings.HasSuffix(text, " ") {
			text = `"` + text + `"`
		}
		require.True(t, strings.HasSuffix(doc, " Default "+text+".") || strings.Contains(doc, " Default "+text+". "),
			"%s: comment %q does not name the default %q", s.key, doc, text)
	}
}

// What the tags declare can be read: defaults and both ends of every range.
func TestDeclarations(t *testing.T) {
	c := Default()
	for _, s := range settings(c) {
		if s.def != "" {
			require.Empty(t, s.set(s.def, s.key))
		}
	}
	k := &checker{}
	b := c.bounds(k)
	var walk func(reflect.Type)
	walk = func(item reflect.Type) {
		for item.Kind() == reflect.Pointer || item.Kind() == reflect.Slice {
			item = item.Elem()
		}
		if item.Kind() != reflect.Struct {
			return
		}
		for _, f := range fieldsOf(item) {
			kind := item.Field(f.index).Type
			walk(kind)
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			if f.low != "" {
				require.False(t, less(b.end(f.high, kind), b.end(f.low, kind)), f.docKey)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	require.Empty(t, k.problems)
}

func TestEveryItemFieldIsExplained(t *testing.T) {
	docs := fieldDocs()
	var walk func(reflect.Type)
	walk = func(item reflect.Type) {
		for item.Kind() == reflect.Pointer || item.Kind() == reflect.Slice {
			item = item.Elem()
		}
		if item.Kind() != reflect.Struct {
			return
		}
		for _, f := range fieldsOf(item) {
			field := item.Field(f.index)
			if field.Type.Kind() != reflect.Struct {
				require.NotEmpty(t, docs[f.docKey], f.docKey)
			} else {
				require.NotEmpty(t, docs[field.Type.Name()], f.docKey)
			}
			walk(field.Type)
		}
	}
	walk(reflect.TypeFor[Config]())
}

func TestPriority(t *testing.T) {
	file := "listen: 127.0.0.1:1001\nlog: {level: warn}\nhttp:\n  base_path: /from/file/\n  idle_timeout: 10s\n"
	environ := []string{"PARLEY_HTTP_IDLE_TIMEOUT=20s", "PARLEY_LOG_LEVEL=error", "PARLEY_OPS_LISTEN=", "HOME=/x"}
	request, err := load(t, file, environ, "--log-level", "debug", "--http-page=false", "--data-dir=/d")
	require.NoError(t, err)
	c := request.Config
	require.Equal(t, "127.0.0.1:1001", c.Listen, "file over default")
	require.Equal(t, "127.0.0.1:8081", c.OpsListen, "an empty variable is unset")
	require.Equal(t, 20*time.Second, c.HTTP.IdleTimeout, "environment over file")
	require.Equal(t, "debug", c.Log.Level, "flag over environment")
	require.Equal(t, "/from/file", c.HTTP.BasePath, "trailing slash dropped")
	require.Equal(t, "/d", c.DataDir)
	require.False(t, c.HTTP.Page)
	require.True(t, c.HTTP.Docs)
}

func TestFileFromEnvironment(t *testing.T) {
	request, err := Load(nil, []string{"PARLEY_CONFIG=" + write(t, "data_dir: /elsewhere\n"), "PARLEY_PORT=tcp://1.2.3.4:80", "PARLEY_OPS_LISTN=x"})
	require.NoError(t, err)
	require.Equal(t, "/elsewhere", request.Config.DataDir)
	require.Equal(t, map[string]string{"PARLEY_PORT": "", "PARLEY_OPS_LISTN": "PARLEY_OPS_LISTEN"}, request.Unknown)
}

func TestListsFromEnvironmentAndFlags(t *testing.T) {
	request, err := load(t, "", []string{
		"PARLEY_AGENTS=[{id: a, model: {provider: scripted}}]",
		"PARLEY_AUTH_TOKENS=[{token: t0p, user_id: alice}]",
		"PARLEY_AUTH_PROVIDER=static", "PARLEY_AUTH_ENABLED=true",
	}, "--http-cors-origins", "https://a.example, https://b.example", "--auth-exclude-routes=[/docs, '/docs/*']")
	require.NoError(t, err)
	c := request.Config
	require.Equal(t, "a", c.Agents[0].ID)
	require.Equal(t, "scripted", c.Agents[0].Model.Provider)
	require.Equal(t, "t0p", c.Auth.Tokens[0].Token.Reveal())
	require.Equal(t, []string{"https://a.example", "https://b.example"}, c.HTTP.CORS.Origins)
	require.Equal(t, []string{"/docs", "/docs/*"}, c.Auth.ExcludeRoutes)
}

// A section whose lines are all commented out, and a key without a value, keep what they had.
func TestEmptySectionsKeepDefaults(t *testing.T) {
	request, err := load(t, "http:\n  # base_path: /x\nlog:\nagents:\nlisten:\n", nil)
	require.NoError(t, err)
	require.Equal(t, Default().HTTP, request.Config.HTTP)
	require.Equal(t, Default().Listen, request.Config.Listen)
}

func TestScalarsKeepTheirText(t *testing.T) {
	request, err := load(t, `
agents:
  - id: "007"
    name: 1.10
    version: 0123
    metadata: {n: 3, f: 1.5, s: "x", b: true, z: ~, l: [1, {k: v}]}
    model: {provider: scripted, temperature: 0.25}
`, nil)
	require.NoError(t, err)
	a := request.Config.Agents[0]
	require.Equal(t, []string{"007", "1.10", "0123"}, []string{a.ID, a.Name, a.Version})
	require.InDelta(t, 0.25, *a.Model.Temperature, 0)
	records, err := request.Config.AgentRecords()
	require.NoError(t, err)
	require.JSONEq(t, `{"n":3,"f":1.5,"s":"x","b":true,"z":null,"l":[1,{"k":"v"}]}`, string(records[1].GetMetadata()))
}

func TestBadInputs(t *testing.T) {
	agent := func(text string) string { return "agents:\n  - " + text }
	for name, test := range map[string]struct {
		file    string
		environ []string
		args    []string
		want    string
	}{
		"unknown_key":          {file: "log:\n  level: info\n  colour: red\n", want: "parley.yaml:3: log.colour: unknown setting"},
		"misspelt_key":         {file: "http:\n  base_pth: /x\n", want: "parley.yaml:2: http.base_pth: unknown setting, did you mean base_path?"},
		"unknown_agent_key":    {file: agent("id: a\n    modell: {}\n"), want: "parley.yaml:3: agents[0].modell: unknown setting, did you mean model?"},
		"repeated_key":         {file: "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", want: "parley.yaml:2:1: mapping key \"listen\" already defined"},
		"not_yaml":             {file: "a: [1\n", want: "parley.yaml:1:4: "},
		"scalar_document":      {file: "hello\n", want: "parley.yaml:1: needs settings"},
		"two_documents":        {file: "listen: 127.0.0.1:1\n---\nlisten: 127.0.0.1:2\n", want: "only one YAML document"},
		"section_is_scalar":    {file: "http: 3\n", want: "http: needs settings"},
		"scalar_is_section":    {file: "listen: {a: b}\n", want: "listen: needs a single value"},
		"list_is_scalar":       {file: "agents: 3\n", want: "agents: needs a list"},
		"alias":                {file: "listen: &x 127.0.0.1:1\nops_listen: *x\n", want: "anchors and aliases are not supported"},
		"bad_duration":         {file: "shutdown_grace: 30\n", want: "shutdown_grace: needs a duration such as"},
		"bad_size":             {file: "http: {max_body: 1MB}\n", want: "http.max_body: needs a size such as"},
		"bad_bool":             {file: "http: {page: maybe}\n", want: "http.page: needs true or false"},
		"bad_int":              {file: "storage: {shards: many}\n", want: "storage.shards: needs a whole number"},
		"huge_int":             {file: "storage: {shards: 99999999999999999999}\n", want: "storage.shards: needs a whole number"},
		"huge_size":            {file: "http: {max_body: 9999999999999TiB}\n", want: "http.max_body: needs a size"},
		"bad_env":              {environ: []string{"PARLEY_STORAGE_SHARDS=x"}, want: "PARLEY_STORAGE_SHARDS: needs a whole number"},
		"bad_env_list":         {environ: []string{"PARLEY_AGENTS=[{idd: x}]"}, want: "PARLEY_AGENTS:1: [0].idd: unknown setting"},
		"bad_flag":             {args: []string{"--sse-ping", "soon"}, want: "--sse-ping: needs a duration"},
		"unknown_flag":         {args: []string{"--no-such"}, want: "unknown flag --no-such"},
		"misspelt_flag":        {args: []string{"--data-dri=x"}, want: "unknown flag --data-dri, did you mean --data-dir?"},
		"argument":             {args: []string{"extra"}, want: `unexpected argument "extra"`},
		"missing_file":         {args: []string{"--config", "/does/not/exist.yaml"}, want: "read config file: "},
		"range":                {file: "storage: {shards: 5000}\n", want: "storage.shards: 5000 is not between 1 and 1024"},
		"message_over_body":    {file: "conversation: {max_message: 2MiB}\n", want: "conversation.max_message: 2MiB is not between 1 and 1MiB"},
		"base_path":            {file: "http: {base_path: api}\n", want: "http.base_path: \"api\" must begin with /"},
		"base_path_dots":       {file: "http: {base_path: /a/../b}\n", want: "http.base_path: "},
		"base_path_braces":     {file: "http: {base_path: '/a/{x}'}\n", want: "http.base_path: "},
		"address":              {file: "listen: localhost\n", want: "listen: \"localhost\" is not host:port"},
		"port":                 {file: "listen: 127.0.0.1:99999\n", want: "listen: \"99999\" is not a port"},
		"same_address":         {file: "ops_listen: 127.0.0.1:8080\n", want: "ops_listen: must differ from listen"},
		"node_name":            {file: "node: {name: a b}\n", want: "node.name: "},
		"log_level":            {file: "log: {level: loud}\n", want: "log.level: \"loud\" is not one of debug, info, warn, error"},
		"cors_origin":          {file: "http: {cors: {origins: [chat.example.com]}}\n", want: "http.cors.origins[0]: "},
		"cors_origin_path":     {file: "http: {cors: {origins: ['https://a.example/x']}}\n", want: "http.cors.origins[0]: "},
		"cors_origin_pattern":  {file: "http: {cors: {origins: ['https://*.example']}}\n", want: "http.cors.origins[0]: "},
		"open_without_auth":    {file: "listen: 0.0.0.0:80\n", want: "auth.enabled: listen is 0.0.0.0:80, which others can reach"},
		"open_all_interfaces":  {file: "listen: ':80'\n", want: "auth.enabled: listen is :80"},
		"open_by_name":         {file: "listen: example.com:80\n", want: "auth.enabled: listen is example.com:80"},
		"auth_no_provider":     {file: "auth: {enabled: true}\n", want: "auth.provider: \"\" is not one of static, jwt, callout"},
		"auth_no_tokens":       {file: "auth: {enabled: true, provider: static}\n", want: "auth.tokens: must not be empty"},
		"auth_token_both":      {file: "auth: {provider: static, tokens: [{token: a, sha256: b, user_id: u}]}\n", want: "auth.tokens[0]: needs token or sha256"},
		"auth_token_no_user":   {file: "auth: {provider: static, tokens: [{token: a}]}\n", want: "auth.tokens[0].user_id: must not be empty"},
		"auth_token_hash":      {file: "auth: {provider: static, tokens: [{sha256: abc, user_id: u}]}\n", want: "auth.tokens[0].sha256: needs 64 hex digits"},
		"auth_header":          {file: "auth: {header_name: 'X Y'}\n", want: "auth.header_name: "},
		"auth_exclude":         {file: "auth: {exclude_routes: [docs]}\n", want: "auth.exclude_routes[0]: "},
		"auth_resolve":         {file: "auth: {resolve_user_id: [cookie]}\n", want: "auth.resolve_user_id[0]: "},
		"jwt_nothing":          {file: "auth: {provider: jwt}\n", want: "auth.jwt: needs exactly one of"},
		"jwt_two":              {file: "auth: {provider: jwt, jwt: {secret: s, jwks_uri: 'https://a.example/k'}}\n", want: "auth.jwt: needs exactly one of"},
		"jwt_confusion":        {file: "auth: {provider: jwt, jwt: {public_key: pem, algorithm: HS256}}\n", want: "auth.jwt.algorithm: HS256 needs a secret"},
		"jwt_confusion_2":      {file: "auth: {provider: jwt, jwt: {secret: s, algorithm: RS256}}\n", want: "auth.jwt.algorithm: RS256 needs a public key"},
		"jwt_none":             {file: "auth: {provider: jwt, jwt: {secret: s, algorithm: none}}\n", want: "auth.jwt.algorithm: \"none\" is not supported"},
		"jwt_plain_http":       {file: "auth: {provider: jwt, jwt: {jwks_uri: 'http://a.example/k'}}\n", want: "auth.jwt.jwks_uri: must be https"},
		"jwt_secret_file":      {file: "auth: {provider: jwt, jwt: {secret_file: /does/not/exist}}\n", want: "auth.jwt.secret_file: "},
		"callout_plain_http":   {file: "auth: {provider: callout, callout: {url: 'http://10.0.0.1/x'}}\n", want: "auth.callout.url: must be https"},
		"callout_userinfo":     {file: "auth: {provider: callout, callout: {url: 'https://u:p@a.example/x'}}\n", want: "auth.callout.url: must not hold"},
		"redacted_secret":      {file: "auth: {jwt: {secret: '[redacted]'}}\n", want: "auth.jwt.secret: is redacted"},
		"redacted_key":         {file: agent("id: a\n    model: {provider: openai, name: m, api_key: '[redacted]'}\n"), want: "agents[0].model.api_key: is redacted"},
		"agent_no_model":       {file: agent("id: a\n"), want: "agents[0] (a).model: is missing"},
		"agent_no_id":          {file: agent("name: a\n    model: {provider: scripted}\n"), want: "agents[0].id: \"\" needs 1 to 64"},
		"agent_bad_id":         {file: agent("id: a/b\n    model: {provider: scripted}\n"), want: "agents[0] (a/b).id: "},
		"agent_long_id":        {file: agent("id: " + strings.Repeat("a", 65) + "\n    model: {provider: scripted}\n"), want: ".id: "},
		"agent_twice":          {file: agent("{id: a, model: {provider: scripted}}\n  - {id: a, model: {provider: scripted}}\n"), want: "agents[1] (a).id: is the id of agents[0], too"},
		"agent_provider":       {file: agent("id: a\n    model: {provider: other}\n"), want: "agents[0] (a).model.provider: \"other\" is not one of"},
		"agent_no_key":         {file: agent("id: a\n    model: {provider: openai, name: m}\n"), want: "agents[0] (a).model.api_key: is missing"},
		"agent_no_model_name":  {file: agent("id: a\n    model: {provider: anthropic, api_key: k}\n"), want: "agents[0] (a).model.name: must not be empty"},
		"agent_key_env":        {file: agent("id: a\n    model: {provider: openai, name: m, api_key_env: NO_SUCH}\n"), want: "model.api_key_env: environment variable NO_SUCH is not set"},
		"agent_two_keys":       {file: agent("id: a\n    model: {provider: openai, name: m, api_key: k, api_key_env: NO_SUCH}\n"), want: "give one of api_key, api_key_env and api_key_file"},
		"agent_script":         {file: agent("id: a\n    model: {provider: openai, name: m, api_key: k, script: {tokens: 1}}\n"), want: "model.script: is only for provider scripted"},
		"agent_script_error":   {file: agent("id: a\n    model: {provider: scripted, script: {steps: [{error_code: boom}]}}\n"), want: "script.steps[0].error_code: \"boom\" is not one of"},
		"agent_temperature":    {file: agent("id: a\n    model: {provider: scripted, temperature: 3}\n"), want: "model.temperature: 3 is not between 0 and 2"},
		"agent_price":          {file: agent("id: a\n    model: {provider: scripted, price: {input: cheap}}\n"), want: "model.price.input: needs an amount of US dollars"},
		"agent_budget_price":   {file: agent("id: a\n    model: {provider: scripted}\n    default_budget: {max_cost: 1}\n"), want: "default_budget: needs model.price"},
		"agent_budget_reach":   {file: agent("id: a\n    model: {provider: scripted, price: {input: 1}}\n    default_budget: {max_cost: 1, on_reach: explode}\n"), want: "default_budget.on_reach: "},
		"agent_metadata_list":  {file: agent("id: a\n    metadata: [1]\n"), want: "agents[0].metadata: needs an object"},
		"agent_metadata_inf":   {file: agent("id: a\n    metadata: {x: .inf}\n"), want: "agents[0].metadata: infinity is not supported here"},
		"no_agents":            {file: "builtin_assistant: false\n", want: "agents: there is none"},
		"agent_base_url":       {file: agent("id: a\n    model: {provider: openai, name: m, base_url: 'ftp://x'}\n"), want: "model.base_url: needs an http or https URL"},
		"agent_max_turns":      {file: agent("id: a\n    max_turns: -1\n    model: {provider: scripted}\n"), want: "max_turns: -1 is not between"},
		"metadata_deep_object": {file: agent("id: a\n    metadata: " + strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40) + "\n"), want: "is nested deeper than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, test.file, test.environ, test.args...)
			require.Error(t, err)
			require.Contains(t, err.Error(), test.want)
		})
	}
}

func TestHelpIsNotAnError(t *testing.T) {
	_, err := Load([]string{"--help"}, nil)
	require.ErrorIs(t, err, flag.ErrHelp)
	var out bytes.Buffer
	require.NoError(t, WriteUsage(&out))
	require.Contains(t, out.String(), "--http-base-path TEXT  (PARLEY_HTTP_BASE_PATH)")
}

func TestSeveralProblemsAtOnce(t *testing.T) {
	_, err := load(t, "storage: {shards: 0}\nlog: {level: x}\n", nil)
	require.ErrorContains(t, err, "storage.shards")
	require.ErrorContains(t, err, "log.level")
}

// A message never repeats a secret: neither the parser's quoted lines nor the values.
func TestErrorsKeepSecrets(t *testing.T) {
	for _, file := range []string{
		"auth:\n  jwt:\n    secret: hunter2hunter2\n  jwt: [\n",
		"auth: {provider: static, tokens: [{token: hunter2hunter2}]}\n",
		"auth: {provider: jwt, jwt: {secret: hunter2hunter2, algorithm: RS256}}\n",
		"auth: {provider: callout, callout: {url: 'https://u:hunter2hunter2@a.example/x'}}\n",
		"auth: {jwt: {secret: {hunter2hunter2: 1}}}\n",
	} {
		_, err := load(t, file, nil)
		require.Error(t, err)
		if !strings.Contains(file, "{hunter2hunter2: 1}") {
			require.NotContains(t, err.Error(), "hunter2")
		}
	}
}

func TestPrintRoundTrip(t *testing.T) {
	file := `
listen: 0.0.0.0:9090
http: {base_path: /api/agents/, max_body: 3MiB, cors: {origins: ["*"]}}
limits: {requests_per_second: 2.5}
auth:
  enabled: true
  provider: jwt
  token_prefix: ""
  exclude_routes: [/docs, "/docs/*"]
  jwt: {jwks_uri: "https://id.example/keys", algorithm: ES256, audience: [a, "b: c"]}
agents:
  - id: helper
    name: "yes"
    instructions: "Line one\nLine two: \"quoted\" \u00e9 #no comment"
    starters: [Hello there, "a, b"]
    metadata: {k: [1, 2.5, "x"], o: {p: null}}
    model:
      provider: scripted
      temperature: 0
      retries: 0
      price: {input: 0.15, cached_input: 0, output: 0.6}
      script:
        tokens: 3
        token_interval: 1m
        usage: {input_tokens: 5}
        steps:
          - text: hi
            tool_calls: [{name: t, arguments: {a: 1}}]
          - {error_code: cut, error_after_tokens: 2}
          - {}
    experience: {edit: false, copy: false}
    default_budget: {max_cost: 0.000000001, on_reach: stop}
`
	first, err := load(t, file, nil)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, first.Config.Print(&out))
	second, err := load(t, out.String(), nil)
	require.NoError(t, err, out.String())
	first.Config.lookupEnv, second.Config.lookupEnv = nil, nil
	var again bytes.Buffer
	require.NoError(t, second.Config.Print(&again))
	require.Equal(t, out.String(), again.String())
	want, err := first.Config.AgentRecords()
	require.NoError(t, err)
	got, err := second.Config.AgentRecords()
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].String(), got[i].String())
	}
	first.Config.Agents, second.Config.Agents = nil, nil
	require.Equal(t, first.Config, second.Config)
}

func TestPrintRedacts(t *testing.T) {
	request, err := load(t, `
auth: {enabled: true, provider: static, tokens: [{token: hunter2hunter2, user_id: alice}]}
agents: [{id: a, model: {provider: openai, name: m, api_key: hunter2hunter2}}]
`, []string{"PARLEY_AUTH_JWT_SECRET=hunter2hunter2"}, "--print-config")
	require.NoError(t, err)
	require.True(t, request.Print)
	var out bytes.Buffer
	require.NoError(t, request.Config.Print(&out))
	require.NotContains(t, out.String(), "hunter2")
	require.Contains(t, out.String(), `token: "[redacted]"`)

	// The real secrets may come from the environment, over the printed file.
	_, err = load(t, out.String(), []string{
		"PARLEY_AUTH_JWT_SECRET=s", "PARLEY_AGENTS=[]", "PARLEY_AUTH_TOKENS=[{token: x, user_id: alice}]",
	})
	require.NoError(t, err)
}

func TestAgentRecords(t *testing.T) {
	request, err := load(t, `
agents:
  - id: helper
    description: Helps.
    welcome: Hi
    starters: [one, two]
    model:
      provider: openai-responses
      name: m-1
      api_key_env: SOME_KEY
      temperature: 0
      first_token_timeout: 5s
      price: {input: 0.15, output: 12.000000001}
    default_budget: {max_cost: 1.5, binding: true}
    background: true
  - id: local
    model: {provider: openai, name: m, base_url: "http://127.0.0.1:9/v1", retries: 0}
`, []string{"SOME_KEY=k3y"})
	require.NoError(t, err)
	records, err := request.Config.AgentRecords()
	require.NoError(t, err)
	require.Len(t, records, 3)
	require.Equal(t, "assistant", records[0].GetId())
	helper := records[1]
	require.Equal(t, "helper", helper.GetName())
	require.JSONEq(t, `{"welcome":"Hi","starters":["one","two"]}`, string(helper.GetMetadata()))
	model := helper.GetModel()
	require.Equal(t, "OPENAI_RESPONSES", model.GetProvider().String())
	require.Equal(t, "k3y", model.GetApiKey())
	require.True(t, model.GetHasTemperature())
	require.False(t, model.GetHasTopP())
	require.EqualValues(t, 5000, model.GetFirstTokenTimeoutMs())
	require.EqualValues(t, 600_000, model.GetTotalTimeoutMs())
	require.EqualValues(t, 128_000, model.GetContextTokens())
	require.EqualValues(t, 2, model.GetMaxRetries())
	require.Negative(t, records[2].GetModel().GetMaxRetries(), "none: 0 would be the default")
	require.EqualValues(t, 150_000_000, model.GetPrice().GetInputNanoUsdPerMtok())
	require.EqualValues(t, 150_000_000, model.GetPrice().GetCachedInputNanoUsdPerMtok())
	require.EqualValues(t, 12_000_000_001, model.GetPrice().GetOutputNanoUsdPerMtok())
	require.EqualValues(t, 1_500_000_000, helper.GetDefaultBudget().GetMaxCostNanoUsd())
	require.Equal(t, "pause", helper.GetDefaultBudget().GetOnReach())
	require.Equal(t, []bool{true, true}, []bool{helper.GetBudgetBinds(), helper.GetBackground()})
	require.Equal(t, []bool{false, false}, []bool{records[0].GetBudgetBinds(), records[0].GetBackground()})
	require.True(t, helper.GetExperience().GetPin())
	require.True(t, helper.GetExperience().GetEdit())
	require.False(t, helper.GetExperience().GetTitles())
	require.Empty(t, records[2].GetModel().GetApiKey())
}

func TestBuiltinAssistantMayBeRedefinedOrDropped(t *testing.T) {
	request, err := load(t, "agents: [{id: assistant, name: Mine, model: {provider: scripted}}]\n", nil)
	require.NoError(t, err)
	records, err := request.Config.AgentRecords()
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, "Mine", records[0].GetName())

	request, err = load(t, "builtin_assistant: false\nagents: [{id: a, model: {provider: scripted}}]\n", nil)
	require.NoError(t, err)
	records, err = request.Config.AgentRecords()
	require.NoError(t, err)
	require.Len(t, records, 1)
	require.Equal(t, "a", records[0].GetId())
}

func TestBenchFile(t *testing.T) {
	request, err := Load([]string{"--config", filepath.Join("..", "..", "..", "bench", "bench.yaml")}, nil)
	require.NoError(t, err)
	records, err := request.Config.AgentRecords()
	require.NoError(t, err)
	got := map[string][2]int64{}
	for _, r := range records[1:] {
		got[r.GetId()] = [2]int64{int64(r.GetModel().GetScript().GetTokens()), r.GetModel().GetScript().GetTokenIntervalMs()}
	}
	require.Equal(t, map[string][2]int64{
		"bench-echo": {1, 0}, "bench-stream": {50, 20}, "bench-slow": {120, 1000}, "bench-brief": {10, 20}, "bench-flow": {200, 0}, "bench-budget": {10, 20},
	}, got)
}

func FuzzBindDocument(f *testing.F) {
	var printed bytes.Buffer
	require.NoError(f, Default().Print(&printed))
	f.Add(printed.String())
	f.Add("agents:\n  - id: a\n    model: {provider: scripted, script: {steps: [{text: x}]}}\n    metadata: {a: [1, {b: ~}]}\n")
	f.Add("auth: {tokens: [{token: a, user_id: b}]}\n")
	f.Add("a: &x 1\nb: *x\n<<: *x\n? [c]\n: d\n--- \n!!str e: |\n  f\n")
	f.Fuzz(func(t *testing.T, text string) {
		watchdog := time.AfterFunc(10*time.Second, func() { panic("hangs") })
		defer watchdog.Stop()
		c := Default()
		if problems := bindDocument(c, []byte(text), "fuzz"); len(problems) > 0 {
			return
		}
		if c.Validate() != nil {
			return
		}
		var out bytes.Buffer
		require.NoError(t, c.Print(&out))
		again := Default()
		require.Empty(t, bindDocument(again, out.Bytes(), "printed"), out.String())
	})
}

func FuzzScalars(f *testing.F) {
	for _, seed := range []string{"1", "1.5", "30s", "64KiB", "0.000000001", "true", "-1", "9223372036854775807TiB", "1h0m0.5s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, into := range []any{new(int), new(bool), new(float64), new(time.Duration), new(Size), new(USD)} {
			value := reflect.ValueOf(into).Elem()
			if parseScalar(value, text) != nil {
				continue
			}
			again := reflect.New(value.Type()).Elem()
			require.NoError(t, parseScalar(again, formatScalar(value)), "%q", text)
			require.Equal(t, value.Interface(), again.Interface(), "%q", text)
		}
	})
}

func TestClusterSettings(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"alone":             {nil, ""},
		"loopback":          {[]string{"--cluster-listen=127.0.0.1:7000", "--join=127.0.0.1:7000,127.0.0.1:7010"}, ""},
		"join without":      {[]string{"--join=127.0.0.1:7000"}, "join: needs cluster.listen"},
		"open":              {[]string{"--cluster-listen=10.0.0.1:7000"}, "need cluster.tls_cert"},
		"open seed":         {[]string{"--cluster-listen=127.0.0.1:7000", "--join=10.0.0.2:7000"}, "need cluster.tls_cert"},
		"open, advertised":  {[]string{"--cluster-listen=127.0.0.1:7000", "--cluster-advertise=10.0.0.2"}, "need cluster.tls_cert"},
		"half certificates": {[]string{"--cluster-listen=127.0.0.1:7000", "--cluster-tls-cert=c"}, "needed together"},
		"secured": {[]string{
			"--cluster-listen=10.0.0.1:7000", "--cluster-tls-cert=c", "--cluster-tls-key=k", "--cluster-tls-ca=a", "--cluster-gossip-key-file=g",
		}, ""},
		"two keys": {[]string{
			"--cluster-listen=127.0.0.1:7000", "--cluster-gossip-key-file=g", "--cluster-gossip-key=MDEyMzQ1Njc4OWFiY2RlZg==",
		}, "not both"},
		"short key":   {[]string{"--cluster-listen=127.0.0.1:7000", "--cluster-gossip-key=MDEyMw=="}, "16, 24 or 32 bytes"},
		"no port":     {[]string{"--cluster-listen=127.0.0.1"}, "not host:port"},
		"last port":   {[]string{"--cluster-listen=127.0.0.1:65534"}, "from 1 to 65533"},
		"replication": {[]string{"--cluster-listen=127.0.0.1:7000", "--cluster-replication=2"}, "not 1, 3, 5 or 7"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "", nil, c.args...)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestBeside(t *testing.T) {
	at, err := Beside("127.0.0.1:7000", ActorPort)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:7002", at)
	_, err = Beside("7000", PeerPort)
	require.Error(t, err)
}

func TestWarnings(t *testing.T) {
	c := Default()
	require.Empty(t, c.Warnings())
	c.HTTP.CORS.Origins = []string{"https://chat.example.com"}
	require.Empty(t, c.Warnings())
	c.HTTP.CORS.Origins = []string{"https://chat.example.com", "*"}
	require.Len(t, c.Warnings(), 1)
	require.Contains(t, c.Warnings()[0], "authentication is off")
	c.Auth.Enabled = true
	require.Len(t, c.Warnings(), 1)
	require.Contains(t, c.Warnings()[0], "token")
}
