package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

var _ = flag.Bool("rewrite", false, "accepted because all packages of the edge are run with it; no golden file here")

type everyone struct{}

func (everyone) Authenticate(context.Context, Request) (Caller, *machine.Failure) {
	return Caller{}, nil
}

type sampleIn struct {
	ID    string `path:"id"`
	Limit int    `query:"limit" default:"20" max:"100"`
	Order string `query:"order" enum:"asc,desc" default:"asc"`
	Last  string `header:"Last-Event-ID"`

	sampleBody
}

type sampleBody struct {
	Text   string          `json:"text"`
	Number float64         `json:"number"`
	Flag   *bool           `json:"flag"`
	List   []string        `json:"list"`
	Object json.RawMessage `json:"object"`
	Nested struct {
		Deep string `json:"deep"`
	} `json:"nested"`
}

func newTestMux(tb testing.TB, routes ...Route) *Mux {
	tb.Helper()
	mux := NewMux(MuxConfig{
		MaxPathBytes: 2048, MaxJSONDepth: 64, MaxStreams: 10, RequestTimeout: 1 << 40, Authenticator: everyone{},
	})
	require.NoError(tb, mux.Mount("/x", Surface{
		Name: "sample", Routes: routes,
		Refusals: map[failurepb.Code]Refusal{
			failurepb.Code_VALIDATION:         {Status: 400, Code: "bad"},
			failurepb.Code_NOT_FOUND:          {Status: 404, Code: "unknown"},
			failurepb.Code_METHOD_NOT_ALLOWED: {Status: 405, Code: "method"},
			failurepb.Code_INTERNAL:           {Status: 500, Code: "broken"},
			failurepb.Code_UNAVAILABLE:        {Status: 503, Code: "later"},
			failurepb.Code_RATE_LIMITED:       {Status: 429, Code: "slow"},
			failurepb.Code_QUOTA_REACHED:      {Status: 429, Code: "full"},
		},
		AppendProblem: func(dst []byte, problem *Problem) []byte { return append(dst, problem.Message...) },
	}))
	return mux
}

// ask serves one request without a socket.
func ask(mux *Mux, method, uri, body string, header ...string) *fasthttp.RequestCtx {
	var request fasthttp.Request
	request.Header.SetMethod(method)
	request.SetRequestURI(uri)
	request.SetBodyString(body)
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	rc := &fasthttp.RequestCtx{}
	rc.Init(&request, nil, nil)
	mux.Serve(rc)
	return rc
}

func TestInputDecoding(t *testing.T) {
	var got sampleIn
	mux := newTestMux(t, On("POST /a/{id}", "a:write", func(_ context.Context, in *sampleIn) (*Empty, error) {
		got = *in
		return nil, nil //nolint:nilnil // 204
	}, Status(204), Page("limit", 30, 50)))
	cases := []struct {
		name, uri, body string
		check           func(t *testing.T)
	}{
		{"defaults", "/x/a/1", "", func(t *testing.T) {
			t.Helper()
			require.Equal(t, 30, got.Limit, "configured")
			require.Equal(t, "asc", got.Order)
			require.Equal(t, "1", got.ID)
		}},
		{"clamped", "/x/a/1?limit=70&order=desc", "", func(t *testing.T) {
			t.Helper()
			require.Equal(t, 50, got.Limit)
			require.Equal(t, "desc", got.Order)
		}},
		{"first_of_several", "/x/a/1?limit=7&limit=8", "", func(t *testing.T) {
			t.Helper()
			require.Equal(t, 7, got.Limit)
		}},
		{"body_cannot_stand_for_other_fields", "/x/a/1", `{"ID":"2","limit":9,"Order":"desc","Last":"5"}`, func(t *testing.T) {
			t.Helper()
			require.Equal(t, "1", got.ID)
			require.Equal(t, 30, got.Limit)
			require.Equal(t, "asc", got.Order)
			require.Empty(t, got.Last)
		}},
		{"body_cannot_be_refused_for_other_fields", "/x/a/1", `{"ID":2,"id":[],"limit":"9","ORDER":{},"Last":true,"lasT":null,"text":"b"}`, func(t *testing.T) {
			t.Helper()
			require.Equal(t, sampleIn{ID: "1", Limit: 30, Order: "asc", sampleBody: sampleBody{Text: "b"}}, got)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rc := ask(mux, "POST", c.uri, c.body)
			require.Equal(t, 204, rc.Response.StatusCode(), "%s", rc.Response.Body())
			c.check(t)
		})
	}
	ask(mux, "POST", "/x/a/1", "", "last-event-id", "12")
	require.Equal(t, "12", got.Last)
	for body, text := range map[string]string{
		`{"text":1}`:            "text must be a string",
		`{"number":"1"}`:        "number must be a number",
		`{"flag":0}`:            "flag must be true or false",
		`{"list":{}}`:           "list must be an array",
		`{"list":[1]}`:          "list must be a string",
		`{"nested":[]}`:         "nested must be an object",
		`{"nested":{"deep":1}}`: "nested.deep must be a string",
		`[]`:                    "the body must be a JSON object",
		`{`:                     "the body is not valid JSON: unexpected end of JSON input",
		"\"\xff\"":              "the body is not valid UTF-8",
	} {
		rc := ask(mux, "POST", "/x/a/1", body)
		require.Equal(t, 400, rc.Response.StatusCode())
		require.Equal(t, text, string(rc.Response.Body()))
	}
	require.Equal(t, "order must be one of: asc, desc", string(ask(mux, "POST", "/x/a/1?order=up", "").Response.Body()))
}

// TestHandOverOfADeadConnection: when the connection dies between handler and hijack, the receiver still hears of it.
func TestHandOverOfADeadConnection(t *testing.T) {
	takes := make(chan Takeover, 2)
	mux := newTestMux(t, OnStream("GET /s", "s:read", func(_ context.Context, _ *struct{}, stream Stream) (*Empty, error) {
		return nil, stream.Start(func(take Takeover) { takes <- take })
	}))
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	var request fasthttp.Request
	request.SetRequestURI("/x/s")
	rc := &fasthttp.RequestCtx{}
	rc.Init2(ours, nil, false)
	request.CopyTo(&rc.Request)
	mux.Serve(rc)
	require.True(t, rc.Hijacked())
	require.EqualValues(t, 1, mux.Streams())
	require.NoError(t, ours.Close())
	mux.ConnClosed(ours)
	mux.ConnClosed(ours)
	take := <-takes
	require.Nil(t, take.Conn)
	take.Release()
	require.Zero(t, mux.Streams())
	require.Empty(t, takes, "exactly once")
}

func TestAdmittedButNotStartedGivesThePlaceBack(t *testing.T) {
	mux := newTestMux(t, OnStream("GET /s", "s:read", func(_ context.Context, _ *struct{}, stream Stream) (*Empty, error) {
		if err := stream.Admit(); err != nil {
			return nil, err
		}
		return nil, errors.New("no")
	}))
	for range 20 {
		require.Equal(t, 500, ask(mux, "GET", "/x/s", "").Response.StatusCode())
	}
	require.Zero(t, mux.Streams())
}

func TestEncodingWithoutAnAppender(t *testing.T) {
	type out struct {
		Text string `json:"text"`
	}
	mux := newTestMux(t, On("GET /o", "o:read", func(context.Context, *struct{}) (*out, error) {
		return &out{"<b>&</b>"}, nil
	}), On("GET /bad", "o:read", func(context.Context, *struct{}) (*struct{ C chan int }, error) {
		return &struct{ C chan int }{}, nil
	}))
	rc := ask(mux, "GET", "/x/o", "")
	require.Contains(t, string(rc.Response.Body()), "<b>&</b>", "as it is, not escaped for HTML")
	require.JSONEq(t, `{"text":"<b>&</b>"}`, string(rc.Response.Body()))
	require.Equal(t, 500, ask(mux, "GET", "/x/bad", "").Response.StatusCode())
}

func TestVastNumbers(t *testing.T) {
	for body, want := range map[string]string{
		``: "", `{"a":1.7976931348623157e308,"b":-0,"c":"1e999","d":"\\","e":9007199254740993,"f":1e-999,"g":0e999}`: "",
		`{"a":["\"1e999",1e400]}`: "1e400", `{"a":-1E+309}`: "-1E+309", strings.Repeat("9", 309): strings.Repeat("9", 40), `1e308`: "",
		`0.` + strings.Repeat("9", 400): "",
	} {
		require.Equal(t, want, vastNumber([]byte(body)), body)
	}
}

func FuzzDecodeBody(f *testing.F) {
	for _, seed := range []string{
		`{"ID":2,"limit":"x","LAST":[]}`, `{"text":"a","number":1e308,"flag":null,"list":["x"],"object":{"a":[{}]},"nested":{"deep":""}}`, `{}`, `[]`, `null`,
		`{"number":1e999}`, `{"text":"\ud800"}`, "{\"text\":\"\xff\"}", `{"a":[[[[[[[]]]]]]]}`, `{"text":"[[[[[\"{{{{{"}`, ` {} `, `{}{}`,
	} {
		f.Add([]byte(seed))
	}
	const depth = 6
	plan := planBody(reflect.TypeFor[sampleIn]())
	f.Fuzz(func(t *testing.T, body []byte) {
		var in sampleIn
		var reference sampleBody
		failure := plan.decode(body, reflect.ValueOf(&in).Elem(), depth)
		if failure != nil {
			require.Equal(t, failurepb.Code_VALIDATION, failure.Code)
			require.True(t, utf8.ValidString(failure.DefaultText()))
		}
		if len(body) == 0 {
			require.Nil(t, failure)
			return
		}
		acceptable := json.Unmarshal(body, &reference) == nil && utf8.Valid(body) && depthOf(body) <= depth &&
			string(bytes.TrimSpace(body)) != "null"
		require.Equal(t, acceptable, failure == nil)
		if acceptable {
			require.Equal(t, sampleIn{sampleBody: reference}, in)
		}
	})
}

// depthOf measures valid JSON with the standard library's tokens.
func depthOf(body []byte) int {
	decoder := json.NewDecoder(bytes.NewReader(body))
	depth, deepest := 0, 0
	for {
		token, err := decoder.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			deepest = max(deepest, depth)
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}
