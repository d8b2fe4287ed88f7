package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tokenConfig is a node with static tokens, of which browsers everywhere may make use.
const tokenConfig = `
node: {name: spec-2}
log: {level: warn}
http: {cors: {origins: ["*"]}}
auth:
  enabled: true
  provider: static
  tokens:
    - {token: ada-token, user_id: ada}
    - {token: bob-token, user_id: bob}
    - {sha256: 7de77d4052d19d335b004eb5094db955bb3b2b8df1f908c7cdd8cc72eebf18e4, user_id: carl} # carl-token
  exclude_routes: [/docs, "/docs/*", /agents]
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
  - id: slow
    model: {provider: scripted, script: {tokens: 400, token_interval: 25ms}}
`

// bearer is the header of a token.
func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func TestSpecTokens(t *testing.T) {
	t.Parallel()
	p := shared.of(t, tokenConfig)
	const path = "/conversations/conv_AAAAAAAAAAAAAAAAAAAAA"
	for _, c := range []struct{ name, header, said string }{
		{"no_token", "", "Authentication required"},
		{"empty_token", "Bearer ", "Invalid token"},
		{"unknown_token", "Bearer eve-token", "Invalid token"},
		{"token_in_capitals", "Bearer ADA-TOKEN", "Invalid token"},
		{"part_of_a_token", "Bearer ada-toke", "Invalid token"},
		{"other_scheme", "Basic YWRhOmFkYQ==", "Invalid token"},
		{"two_tokens", "Bearer ada-token bob-token", "Invalid token"},
		{"token_that_is_not_ascii", "Bearer é", "Invalid token"},
		{"endless_token", "Bearer " + strings.Repeat("a", 10_000), "Invalid token"},
		{"digest_instead_of_the_token", "Bearer 7de77d4052d19d335b004eb5094db955bb3b2b8df1f908c7cdd8cc72eebf18e4", "Invalid token"},
	} {
		t.Run(c.name+"_is_401", func(t *testing.T) {
			var headers []string
			if c.header != "" {
				headers = []string{"Authorization", c.header}
			}
			for _, route := range routesWithID() {
				a := p.ask(t, route.method, path+route.suffix, `{"message":"x"}`, headers...)
				require.Nil(t, a.refused(401, "AUTH_REQUIRED").v)
				require.Equal(t, c.said, a.said())
				require.Equal(t, "Bearer", a.header.Get("Www-Authenticate"))
			}
			for route, body := range map[string]any{
				"GET /agents/quick": nil, "GET /conversations": nil, "GET /conversations?userId=ada": nil,
				"POST /conversations": `{"agentId":"quick"}`, "POST /conversations/bulk-delete": `{"ids":["x"]}`, "POST /conversations?broken": `{`,
			} {
				method, path, _ := strings.Cut(route, " ")
				p.ask(t, method, path, body, headers...).refused(401, "AUTH_REQUIRED")
			}
		})
	}
	t.Run("accepted_forms_of_a_token", func(t *testing.T) {
		for _, header := range []string{"Bearer ada-token", "bearer ada-token", "ada-token", "  Bearer   ada-token  "} {
			p.ask(t, "GET", "/conversations", nil, "Authorization", header).fits(200, conversationPage(nil))
			p.ask(t, "GET", "/conversations", nil, "AUTHORIZATION", header).fits(200, conversationPage(nil))
		}
		made := p.ask(t, "POST", "/conversations", `{"agentId":"quick"}`, bearer("carl-token")...).fits(201, anyObject)
		require.Equal(t, "carl", made.text("conversation", "userId"))
	})
	t.Run("token_in_the_query_is_none", func(t *testing.T) {
		p.ask(t, "GET", "/conversations?token=ada-token&access_token=ada-token", nil).refused(401, "AUTH_REQUIRED")
	})
	t.Run("excluded_routes_need_none", func(t *testing.T) {
		for _, path := range []string{"/docs", "/docs/openapi.json", "/docs/swagger-ui.css", "/agents"} {
			require.Equal(t, 200, p.ask(t, "GET", path, nil).status, path)
			require.Equal(t, 200, p.ask(t, "GET", path, nil, bearer("wrong")...).status, path)
		}
		p.ask(t, "GET", "/agents/quick", nil).refused(401, "AUTH_REQUIRED")
	})
	t.Run("unknown_routes_stay_404", func(t *testing.T) {
		p.ask(t, "GET", "/nothing", nil).refused(404, "NOT_FOUND")
		p.ask(t, "PUT", "/conversations", nil).refused(405, "method_not_allowed")
	})
	t.Run("document_asks_for_a_token", func(t *testing.T) {
		document := openAPI(t, p)
		require.NoError(t, exactly([]map[string][]string{{"BearerAuth": {}}})(document.at("security").v))
		require.NoError(t, exactly(map[string]string{"type": "http", "scheme": "bearer"})(document.at("components", "securitySchemes", "BearerAuth").v))
		for _, methods := range []tree{document.at("paths", "/agents"), document.at("paths", "/conversations/{id}/events/stream")} {
			require.Contains(t, methods.text("get", "responses", "401", "description"), "AUTH_REQUIRED")
			require.Contains(t, methods.text("get", "responses", "429", "description"), "rate_limited")
		}
	})
}

func TestSpecOwnership(t *testing.T) {
	t.Parallel()
	p := shared.of(t, tokenConfig)
	ada, bob := bearer("ada-token"), bearer("bob-token")
	made := p.ask(t, "POST", "/conversations", `{"agentId":"quick","userId":"bob","title":"ada's"}`, ada...).
		fits(201, object(fields{"conversation": conversationRecord(fields{"userId": exactly("ada")})}))
	id := made.text("conversation", "id")
	question := p.say(t, id, "private words", ada...).text("message", "id")
	before := p.ask(t, "GET", "/conversations/"+id, nil, ada...).fits(200, anyObject)

	t.Run("another_user_is_403_on_every_route", func(t *testing.T) {
		for _, route := range routesWithID() {
			for _, query := range []string{"", "?userId=ada"} {
				a := p.ask(t, route.method, "/conversations/"+id+route.suffix+query, cmp.Or(route.body, `{"message":"x","title":"x","userId":"ada"}`), bob...)
				require.Nil(t, a.refused(403, "FORBIDDEN").v)
				require.Equal(t, "Access denied", a.said())
			}
		}
		for _, query := range []string{"?before=" + question, "?after=msg_AAAAAAAAAAAAAAAAAAAAA", "?after=%20"} {
			p.ask(t, "GET", "/conversations/"+id+query, nil, bob...).refused(403, "FORBIDDEN")
		}
		p.ask(t, "POST", "/conversations/"+id+"/messages", `{"message":"x","fileIds":["f"]}`, bob...).refused(403, "FORBIDDEN")
		require.Equal(t, before.v, p.ask(t, "GET", "/conversations/"+id, nil, ada...).fits(200, anyObject).v, "nothing happened")
	})
	t.Run("bulk_delete_does_not_find_it", func(t *testing.T) {
		p.ask(t, "POST", "/conversations/bulk-delete", map[string]any{"ids": []string{id}}, bob...).fits(200, exactly1Result(id, "not_found", 0))
		p.ask(t, "GET", "/conversations/"+id, nil, ada...).fits(200, anyObject)
	})
	t.Run("list_is_of_the_identity_alone", func(t *testing.T) {
		theirs := p.newConversation(t, "quick", "ada", bob...)
		for _, query := range []string{"", "?userId=ada", "?userId=bob", "?userId=", "?userId=%ff&x=1", "?pinned=none&userId=ada&agentId=quick"} {
			if strings.Contains(query, "%ff") {
				p.ask(t, "GET", "/conversations"+query, nil, bob...).refused(400, "VALIDATION_ERROR")
				continue
			}
			for _, owner := range []struct {
				header []string
				user   string
				has    string
				hasNot string
			}{{ada, "ada", id, theirs}, {bob, "bob", theirs, id}} {
				page := p.ask(t, "GET", "/conversations"+query, nil, owner.header...).fits(200, conversationPage(fields{
					"conversations": listOf(conversationRecord(fields{"userId": exactly(owner.user)})),
				}))
				ids := texts(page.at("conversations").list(), "id")
				require.Contains(t, ids, owner.has, query)
				require.NotContains(t, ids, owner.hasNot, query)
			}
		}
	})
	t.Run("owner_is_served_whatever_user_id_says", func(t *testing.T) {
		p.ask(t, "GET", "/conversations/"+id+"?userId=bob", nil, ada...).fits(200, anyObject)
		p.ask(t, "PATCH", "/conversations/"+id+"?userId=bob", `{"userId":"bob","pinned":true}`, ada...).fits(200, conversationRecord(fields{"userId": exactly("ada")}))
		s := p.follow(t, "GET", "/conversations/"+id+"/events/stream?userId=bob", nil, ada...)
		require.Equal(t, ": open", s.block())
		require.Equal(t, 1, s.frame().seq(t))
	})
	t.Run("streams_are_only_for_the_owner", func(t *testing.T) {
		slow := p.newConversation(t, "slow", "", ada...)
		s := p.follow(t, "POST", "/conversations/"+slow+"/messages", map[string]any{"message": "go", "stream": true}, ada...)
		s.until("stream.text")
		p.ask(t, "GET", "/conversations/"+slow+"/events/stream", nil, bob...).refused(403, "FORBIDDEN")
		p.ask(t, "POST", "/conversations/"+slow+"/messages", `{"message":"x","stream":true}`, bob...).refused(403, "FORBIDDEN")
		p.ask(t, "POST", "/conversations/"+slow+"/cancel", nil, bob...).refused(403, "FORBIDDEN")
		s.until("stream.text")
		p.ask(t, "POST", "/conversations/"+slow+"/cancel", nil, ada...).fits(200, anyObject)
		s.until("stream.done")
	})
}

// exactly1Result is a bulk delete of one id.
func exactly1Result(id, status string, deleted int) shape {
	return exactly(map[string]any{"results": []map[string]string{{"id": id, "status": status}}, "deleted": deleted})
}

// doorConfig is a node that lets those without a token in, and has names of its own for the header.
const doorConfig = `
node: {name: spec-3}
log: {level: warn}
auth:
  enabled: true
  provider: static
  header_name: X-Api-Key
  token_prefix: "Key "
  tokens: [{token: ada-token, user_id: ada}]
  exclude_routes: ["/conversations*"]
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
`

func TestSpecAnonymous(t *testing.T) {
	t.Parallel()
	p := shared.of(t, doorConfig)
	ada := []string{"X-Api-Key", "Key ada-token"}
	owned := p.newConversation(t, "quick", "", ada...)
	nobodys := p.newConversation(t, "quick", "")

	t.Run("custom_header_and_prefix", func(t *testing.T) {
		p.ask(t, "GET", "/agents", nil, ada...).fits(200, anyObject)
		p.ask(t, "GET", "/agents", nil, "x-api-key", "ada-token").fits(200, anyObject)
		p.ask(t, "GET", "/agents", nil, bearer("ada-token")...).refused(401, "AUTH_REQUIRED")
		p.ask(t, "GET", "/agents", nil, "X-Api-Key", "Bearer ada-token").refused(401, "AUTH_REQUIRED")
	})
	t.Run("anonymous_list_is_401", func(t *testing.T) {
		p.ask(t, "GET", "/conversations", nil).refused(401, "identity_required")
		p.ask(t, "GET", "/conversations", nil, "X-Api-Key", "wrong").refused(401, "identity_required")
	})
	t.Run("anonymous_does_not_reach_owned_ones", func(t *testing.T) {
		for _, route := range routesWithID() {
			p.ask(t, route.method, "/conversations/"+owned+route.suffix, cmp.Or(route.body, `{"message":"x","userId":"ada"}`)).refused(403, "FORBIDDEN")
		}
	})
	t.Run("anonymous_reaches_those_of_nobody", func(t *testing.T) {
		p.say(t, nobodys, "hello")
		p.ask(t, "GET", "/conversations/"+nobodys, nil).fits(200, object(fields{
			"conversation": conversationRecord(fields{"userId": nil}), "messages": listOf(messageRecord(nil)), "messagesPage": anyObject,
		}))
	})
	t.Run("identity_does_not_reach_those_of_nobody", func(t *testing.T) {
		p.ask(t, "GET", "/conversations/"+nobodys, nil, ada...).refused(403, "FORBIDDEN")
	})
	t.Run("user_id_counts_only_without_an_identity", func(t *testing.T) {
		claimed := p.newConversation(t, "quick", "zoe")
		page := p.ask(t, "GET", "/conversations?userId=zoe", nil).fits(200, conversationPage(fields{"total": exactly(1)}))
		require.Equal(t, []string{claimed}, texts(page.at("conversations").list(), "id"))
		page = p.ask(t, "GET", "/conversations?userId=zoe", nil, ada...).fits(200, conversationPage(fields{"total": exactly(1)}))
		require.Equal(t, []string{owned}, texts(page.at("conversations").list(), "id"))
		made := p.ask(t, "POST", "/conversations", `{"agentId":"quick","userId":"zoe"}`, ada...).fits(201, anyObject)
		require.Equal(t, "ada", made.text("conversation", "userId"))
		p.ask(t, "DELETE", "/conversations/"+made.text("conversation", "id"), nil, ada...).empty(204)
	})
}

// jwtConfig is a node with signed tokens.
const jwtConfig = `
node: {name: spec-4}
log: {level: warn}
auth:
  enabled: true
  provider: jwt
  jwt: {secret: "0123456789abcdef0123456789abcdef", issuer: https://issuer.example, audience: [parley], leeway: 1s}
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
`

// signed makes a token by hand: what is refused must be refused whatever a library would make.
func signed(t *testing.T, header, claims map[string]any, secret string) string {
	t.Helper()
	part := func(v any) string {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(header) + "." + part(claims)
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

func TestSpecSignedTokens(t *testing.T) {
	t.Parallel()
	p := shared.of(t, jwtConfig)
	const secret = "0123456789abcdef0123456789abcdef"
	hs256 := map[string]any{"alg": "HS256", "typ": "JWT"}
	claims := func(over map[string]any) map[string]any {
		all := map[string]any{"sub": "ada", "iss": "https://issuer.example", "aud": "parley", "exp": time.Now().Add(time.Hour).Unix()}
		for name, value := range over {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		claims map[string]any
		user   string
	}{
		"sub":             {nil, "ada"},
		"user_id_claim":   {map[string]any{"sub": nil, "user_id": "zoe"}, "zoe"},
		"userId_claim":    {map[string]any{"sub": nil, "userId": "yan", "user_id": "zoe"}, "yan"},
		"sub_first":       {map[string]any{"userId": "yan"}, "ada"},
		"audience_list":   {map[string]any{"aud": []string{"other", "parley"}}, "ada"},
		"without_expiry":  {map[string]any{"exp": nil}, "ada"},
		"not_before_past": {map[string]any{"nbf": time.Now().Add(-time.Minute).Unix()}, "ada"},
	} {
		t.Run("jwt_"+name, func(t *testing.T) {
			token := signed(t, hs256, claims(c.claims), secret)
			made := p.ask(t, "POST", "/conversations", `{"agentId":"quick","userId":"eve"}`, bearer(token)...).fits(201, anyObject)
			require.Equal(t, c.user, made.text("conversation", "userId"))
		})
	}
	unsigned := signed(t, map[string]any{"alg": "none"}, claims(nil), secret)
	for name, c := range map[string]struct{ token, said string }{
		"no_dots":         {"abc", "Invalid JWT format"},
		"not_base64":      {"a!.b!.c!", "Invalid JWT format"},
		"expired":         {signed(t, hs256, claims(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), secret), "Token expired"},
		"not_before":      {signed(t, hs256, claims(map[string]any{"nbf": time.Now().Add(time.Minute).Unix()}), secret), "Token not yet valid"},
		"other_issuer":    {signed(t, hs256, claims(map[string]any{"iss": "https://evil.example"}), secret), "Invalid issuer"},
		"no_issuer":       {signed(t, hs256, claims(map[string]any{"iss": nil}), secret), "Invalid issuer"},
		"other_audience":  {signed(t, hs256, claims(map[string]any{"aud": "other"}), secret), "Invalid audience"},
		"no_audience":     {signed(t, hs256, claims(map[string]any{"aud": nil}), secret), "Invalid audience"},
		"no_user":         {signed(t, hs256, claims(map[string]any{"sub": nil}), secret), "No user ID in token"},
		"other_secret":    {signed(t, hs256, claims(nil), "another secret of thirty-two byte"), "Invalid token"},
		"algorithm_none":  {unsigned[:strings.LastIndexByte(unsigned, '.')+1], ""},
		"other_algorithm": {signed(t, map[string]any{"alg": "RS256"}, claims(nil), secret), ""},
		"changed_claims":  {changed(t, signed(t, hs256, claims(nil), secret)), "Invalid token"},
		"text_as_expiry":  {signed(t, hs256, claims(map[string]any{"exp": "never"}), secret), ""},
	} {
		t.Run("jwt_"+name+"_is_401", func(t *testing.T) {
			a := p.ask(t, "GET", "/conversations", nil, bearer(c.token)...)
			a.refused(401, "AUTH_REQUIRED")
			if c.said != "" {
				require.Equal(t, c.said, a.said())
			}
		})
	}
	t.Run("users_of_tokens_are_apart", func(t *testing.T) {
		ada, bob := signed(t, hs256, claims(nil), secret), signed(t, hs256, claims(map[string]any{"sub": "bob"}), secret)
		id := p.newConversation(t, "quick", "bob", bearer(ada)...)
		p.ask(t, "GET", "/conversations/"+id, nil, bearer(bob)...).refused(403, "FORBIDDEN")
		p.ask(t, "GET", "/conversations?userId=ada", nil, bearer(bob)...).fits(200, conversationPage(fields{"total": exactly(0)}))
		p.ask(t, "GET", "/conversations/"+id, nil, bearer(ada)...).fits(200, anyObject)
	})
}

// changed puts other claims under a signature.
func changed(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(text), "ada", "bob", 1)))
	return strings.Join(parts, ".")
}
