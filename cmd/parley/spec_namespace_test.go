package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// namesakeConfig is a node where a token of the conversation server says that it is the first owner of the Client API.
const namesakeConfig = `
node: {name: spec-namesake}
bootstrap_token: ` + houseToken + `
auth:
  enabled: true
  provider: static
  tokens: [{token: namesake-token, user_id: usr_default}]
  resolve_user_id: [query, body]
agents:
  - id: quick
    model: {provider: scripted, script: {text: "one two three"}}
`

// TestSpecNamesakes: both surfaces share conversations, not users: who is called like a user of the Client API is not him.
func TestSpecNamesakes(t *testing.T) {
	t.Parallel()
	p := shared.of(t, namesakeConfig)
	owner := apiCaller{p, houseToken}
	session := owner.done(t, "POST", "/agents/sessions", object1{"agent": "quick"}).text("id")
	token := bearer("namesake-token")
	p.ask(t, "GET", "/conversations/"+session, nil, bearer(houseToken)...).fits(200, anyObject)
	p.ask(t, "GET", "/conversations/"+session, nil, token...).refused(403, "FORBIDDEN")
	p.ask(t, "GET", "/conversations/"+session+"?userId=usr_default", nil, token...).refused(403, "FORBIDDEN")
	p.ask(t, "POST", "/conversations/"+session+"/messages", `{"message":"x"}`, token...).refused(403, "FORBIDDEN")
	require.NotContains(t, p.ask(t, "GET", "/conversations", nil, token...).text, session)

	made := p.ask(t, "POST", "/conversations", `{"agentId":"quick"}`, token...).fits(201, anyObject).at("conversation")
	require.Equal(t, "ext:usr_default", made.text("userId"))
	p.ask(t, "GET", "/conversations/"+made.text("id"), nil, token...).fits(200, anyObject)
	require.Contains(t, p.ask(t, "GET", "/conversations", nil, token...).text, made.text("id"))

	// Ids that no log line could show.
	for _, path := range []string{"/conversations?userId=a%0ab", "/conversations/conv_%00", "/agents/quick%7f", "/conversations?agentId=%C2%85"} {
		p.ask(t, "GET", path, nil, token...).refused(400, "VALIDATION_ERROR")
	}
	p.ask(t, "POST", "/conversations", `{"agentId":"quick","metadata":{"a":1e400}}`, token...).refused(400, "VALIDATION_ERROR")
}
