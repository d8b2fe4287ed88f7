package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"parley/cmd/parley/config"
)

// documentedOperation is what a page reads of an operation, to fill its "Try it out".
type documentedOperation struct {
	ID          string `json:"operationId"`
	RequestBody *struct {
		Content map[string]struct{ Example json.RawMessage }
	}

	method, path string
}

// made are the operations that come before the others, in this order: what they make stands in the paths of those, behind these parts,
// and is in the answer where it says.
func made() []struct{ operation, behind, at string } {
	return []struct{ operation, behind, at string }{
		{"register", "", ""}, // signs in
		{"login", "", ""},
		{"enrol", "", ""},
		{"createConversation", "/conversations/", "conversation.id"},
		{"sendMessage", "/messages/", "message.id"},
		{"uploadFile", "/files/", "file.id"},
		{"createTask", "/tasks/", "task.id"},
		{"createProvider", "/providers/", "provider.key"},
		{"createModel", "/models/", "model._id"},
		{"createDynamic", "", ""}, // names that model
		{"createAgent", "/agents/ /a2a/", "agent.key"},
		{"createSession", "/sessions/", "id"},
		{"createWebhook", "/webhooks/", "endpoint.id"},
		{"createProject", "/projects/", "project.id"},
		{"createUser", "/users/ /members/", "user.id"},
		{"createGroup", "/groups/", "group.id"},
	}
}

// refused are the operations with a secret in their bodies that no document can know, and how a made-up one is refused.
func refused() map[string]string {
	const noLicenses = "This deployment takes no license keys: it has no public key to check them with"
	return map[string]string{
		"acceptInvite": "Invalid or expired invitation", "resetPassword": "Invalid or expired reset token",
		"loginWithCode": "Invalid or expired challenge: sign in again", "confirm": "Invalid or already used code",
		"setLicense": noLicenses, "consoleSetLicense": noLicenses,
	}
}

// TestExamplesRun: a page that offers to try an operation sends the example of its body: whatever the document offers is taken.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	c := aloneConfig(t)
	c.Outbound.Allow, c.Accounts.HashCost = []string{"127.0.0.0/8"}, bcrypt.MinCost
	c.BootstrapToken = config.Secret("tok_" + strings.Repeat("e", 40))
	n, err := startAlone(t, c)
	require.NoError(t, err)
	root := "http://" + n.Addr().String()
	for _, document := range []struct{ at, bearer string }{
		{at: "/api/agents/docs/openapi.json"},
		{at: "/api/client/v1/openapi.json", bearer: c.BootstrapToken.Reveal()},
		{at: "/api/openapi.json"},
	} {
		t.Run(document.at, func(t *testing.T) {
			jar, err := cookiejar.New(nil)
			require.NoError(t, err)
			tour := &exampleTour{
				t: t, bearer: document.bearer, client: &http.Client{Jar: jar, Timeout: time.Minute}, ids: map[string]string{},
			}
			tour.run(root, document.at)
		})
	}
}

// exampleTour sends the examples of one document.
type exampleTour struct {
	t      *testing.T
	bearer string
	client *http.Client
	ids    map[string]string // by what stands before them in paths
}

func (e *exampleTour) run(root, at string) {
	_, raw := e.send(http.MethodGet, root+at, nil)
	var document struct {
		Servers []struct{ URL string }
		Paths   map[string]map[string]*documentedOperation
	}
	require.NoError(e.t, json.Unmarshal(raw, &document))
	operations := map[string]*documentedOperation{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			operation.method, operation.path = strings.ToUpper(method), path
			if operation.RequestBody != nil {
				operations[operation.ID] = operation
			}
		}
	}
	require.NotEmpty(e.t, operations)
	base := root + document.Servers[0].URL
	for _, step := range made() {
		operation := cmp.Or(operations[step.operation], operations[consoleName(step.operation)])
		if operation == nil {
			continue
		}
		delete(operations, operation.ID)
		id := e.try(base, operation)
		for name := range strings.SplitSeq(step.at, ".") {
			inner, _ := id.(map[string]any)
			id = inner[name]
		}
		for behind := range strings.FieldsSeq(step.behind) {
			e.ids[behind], _ = id.(string)
			assert.NotEmpty(e.t, e.ids[behind], "%s made nothing", step.operation)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(operations)) {
		e.try(base, operations[id])
	}
}

// consoleName is an operation of the Client API for signed-in users.
func consoleName(operation string) string {
	return "console" + strings.ToUpper(operation[:1]) + operation[1:]
}

// try sends the example of an operation, and returns the answer.
func (e *exampleTour) try(base string, operation *documentedOperation) any {
	example := operation.RequestBody.Content["application/json"].Example
	require.NotEmpty(e.t, example, "%s %s (%s): examples.json has no body for it", operation.method, operation.path, operation.ID)
	example = bytes.ReplaceAll(example, []byte("https://example.com/"), []byte("http://127.0.0.1:9/")) // there may be no name server here
	for behind, invented := range map[string]string{"/users/": "usr_000000000000000000001", "/projects/": "proj_000000000000000000001"} {
		if id := e.ids[behind]; id != "" {
			example = bytes.ReplaceAll(example, []byte(invented), []byte(id))
		}
	}
	path := regexp.MustCompile(`/[^/{}]+/\{[^}]+\}`).ReplaceAllStringFunc(operation.path, func(found string) string {
		behind, _, _ := strings.Cut(found, "{")
		return behind + cmp.Or(e.ids[behind], "x_000000000000000000001")
	})
	status, raw := e.send(operation.method, base+path, example)
	var answer map[string]any
	_ = json.Unmarshal(raw, &answer)
	if words := refused()[operation.ID]; words != "" {
		assert.Equal(e.t, words, answer["error"], "%s %s: %s", operation.method, path, raw)
		return answer
	}
	assert.True(e.t, status != http.StatusBadRequest && status != http.StatusUnauthorized && status < http.StatusInternalServerError, "%s %s: %d %s", operation.method, path, status, raw)
	return answer
}

func (e *exampleTour) send(method, url string, body []byte) (int, []byte) {
	request, err := http.NewRequestWithContext(e.t.Context(), method, url, bytes.NewReader(body))
	require.NoError(e.t, err)
	if e.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+e.bearer)
	}
	answer, err := e.client.Do(request)
	require.NoError(e.t, err)
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	require.NoError(e.t, err)
	return answer.StatusCode, raw
}
