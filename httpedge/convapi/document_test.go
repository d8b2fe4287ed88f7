package convapi_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3" // reads the document as a client's generator would
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"
)

// documented finds a request's operation in the document that is served. All tests read the same one.
var documented = sync.OnceValues(func() (routers.Router, error) { // once for all tests
	raw, err := os.ReadFile("testdata/openapi.golden.json")
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, err
	}
	document.Servers = nil
	return legacy.NewRouter(document)
})

// conforms holds an answer against the document: its status is there, and its body has the form that is promised.
func (k *kit) conforms(method, path string, answer *http.Response, body []byte) {
	k.t.Helper()
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusMethodNotAllowed, http.StatusRequestURITooLong, http.StatusTooManyRequests:
		return // what any route answers, or one that is none; that callers authenticate is another document
	}
	if k.invents || bytes.Contains(body, []byte("Route not found")) {
		return
	}
	router, err := documented()
	require.NoError(k.t, err)
	request, err := http.NewRequestWithContext(k.t.Context(), method, path, http.NoBody)
	require.NoError(k.t, err)
	route, params, err := router.FindRoute(request)
	if err != nil {
		return // not in the document
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route},
		Status:                 answer.StatusCode, Header: answer.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			ExcludeResponseBody:   !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json"),
		},
	}
	require.NoError(k.t, openapi3filter.ValidateResponse(k.t.Context(), input), "%s %s: %s", method, path, body)
}
