package gateway_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/failure"
	"parley/httpedge/gateway"
	"parley/proto/failurepb"
)

// A stream whose caller has lost its token or permission ends with an error, and so does its model call, whether silent or not.
func TestRevokedClientIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		why    failurepb.Code
		silent bool
		code   string
	}{
		"token":      {failurepb.Code_AUTH_REQUIRED, true, "invalid_api_key"},
		"permission": {failurepb.Code_FORBIDDEN, false, "permission_denied"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			var k *kit
			k = serve(t, func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				said := streams(`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":"Hello"}}]}`)
				said(w, r)
				k.door.why.Store(failure.Verbatim(c.why, "no more"))
				for !c.silent && r.Context().Err() == nil {
					said(w, r)
				}
				<-r.Context().Done()
			}, func(c *gateway.Config) { c.PingEvery = 20 * time.Millisecond })
			status, _, text := k.post("/chat/completions", hello[:len(hello)-1]+`,"stream":true}`)
			require.Equal(t, 200, status)
			require.Contains(t, text, `"code":"`+c.code+`"`)
			require.Contains(t, text, "no more")
			require.Contains(t, text, "data: [DONE]\n\n")
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Fatal("the model is still called")
			}
		})
	}
}

// Who sends something while the answer comes, as the next request, is watched all the same.
func TestRevokedClientThatSendsMoreIsCutOff(t *testing.T) {
	k := serve(t, func(w http.ResponseWriter, r *http.Request) {
		streams(`{"id":"c1","created":5,"choices":[{"index":0,"delta":{"content":"Hello"}}]}`)(w, r)
		<-r.Context().Done()
	}, func(c *gateway.Config) { c.PingEvery = 20 * time.Millisecond })
	conn, reader := k.raw(streamedHello)
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "\r\n")
	require.NoError(t, err)
	lines := bufio.NewScanner(response.Body)
	for pings := 0; pings < 3 && lines.Scan(); {
		if lines.Text() == ": ping" {
			pings++
		}
	}
	k.door.why.Store(failure.Verbatim(failurepb.Code_AUTH_REQUIRED, "no more"))
	rest := ""
	for lines.Scan() {
		rest += lines.Text()
	}
	require.NoError(t, response.Body.Close())
	require.Contains(t, rest, "no more")
	require.True(t, strings.HasSuffix(rest, "data: [DONE]"))
}
