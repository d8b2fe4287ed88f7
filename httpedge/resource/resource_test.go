package resource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/httpedge/openapi"
	"parley/httpedge/resource"
	"parley/proto/failurepb"
)

// note is a record as a store has it, draft what its rules take.
type note struct {
	id, title, text string
	pinned          bool
	tags            []string
	settings        []byte
	madeAt          int64
}

type draft struct {
	ID          string
	Title, Text *string
	Pinned      *bool
	Tags        []string
	Settings    json.RawMessage
}

// Fields in the order in which they are shown.
func notes() *resource.Object[*note, draft] {
	o := resource.New[*note, draft]("note", "NoteRecord")
	o.Text("id", func(n *note) string { return n.id }).Create(func(in *draft) *string { return &in.ID }).CreateDoc("Made when empty")
	o.Text("title", func(n *note) string { return n.title }).Write(func(in *draft) **string { return &in.Title }).Required()
	o.NullableText("text", func(n *note) string { return n.text }).Write(func(in *draft) **string { return &in.Text }).Clearable()
	o.Flag("pinned", func(n *note) bool { return n.pinned }).Write(func(in *draft) **bool { return &in.Pinned }).Optional()
	resource.Value[[]string](o, "tags", func(n *note) []string { return n.tags }).Take(func(in *draft) *[]string { return &in.Tags })
	o.Document("settings", func(n *note) []byte { return n.settings }).Take(func(in *draft) *json.RawMessage { return &in.Settings })
	o.OptionalText("hint", func(n *note) string { return n.text })
	o.Text("color", func(*note) string { return "red" }).Enum("red", "blue")
	o.Time("createdAt", func(n *note) int64 { return n.madeAt })
	o.NullableTime("readAt", func(*note) int64 { return 0 })
	return o
}

// shelf keeps notes and says what its rules were given.
type shelf struct {
	notes []*note
	said  string
}

func (s *shelf) add(_ context.Context, in draft) (*note, error) {
	s.said = said(in)
	n := &note{id: in.ID, tags: in.Tags, settings: in.Settings, madeAt: 1500}
	s.notes = append(s.notes, n)
	n.take(in)
	return n, nil
}

func (n *note) take(in draft) {
	if in.Title != nil {
		n.title = *in.Title
	}
	if in.Text != nil {
		n.text = *in.Text
	}
}

func (s *shelf) find(_ context.Context, id string) (*note, error) {
	for _, n := range s.notes {
		if n.id == id {
			return n, nil
		}
	}
	return nil, failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
}

func (s *shelf) edit(ctx context.Context, id string, in draft) (*note, error) {
	n, err := s.find(ctx, id)
	if err == nil {
		s.said = said(in)
		n.take(in)
	}
	return n, err
}

// said tells what is set of an input.
func said(in draft) string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	pinned := "-"
	if in.Pinned != nil {
		pinned = fmt.Sprint(*in.Pinned)
	}
	return fmt.Sprintf("id=%s title=%s text=%s pinned=%s tags=%v settings=%s", in.ID, text(in.Title), text(in.Text), pinned, in.Tags, in.Settings)
}

type which struct {
	Title string `query:"title"`
}

func routes(s *shelf) []endpoint.Route {
	o := notes()
	return []endpoint.Route{
		resource.List(o, "GET /notes", "notes:read", func(_ context.Context, in *which) ([]*note, error) {
			var all []*note
			for _, n := range s.notes {
				if in.Title == "" || in.Title == n.title {
					all = append(all, n)
				}
			}
			return all, nil
		}),
		o.Create("POST /notes", "notes:write", s.add),
		o.Read("GET /notes/{id}", "notes:read", "getNote", s.find),
		o.Change("PATCH /notes/{id}", "notes:write", "updateNote", s.edit),
		o.Delete("DELETE /notes/{id}", "notes:write", func(_ context.Context, id string) error {
			s.said = "delete " + id
			return nil
		}),
	}
}

type anybody struct{}

func (anybody) Authenticate(context.Context, endpoint.Request) (endpoint.Caller, *failure.Failure) {
	return endpoint.Caller{UserID: "ann"}, nil
}

func serve(t *testing.T, routes []endpoint.Route) func(method, path, body string) string {
	t.Helper()
	mux := endpoint.NewMux(endpoint.MuxConfig{
		MaxPathBytes: 2048, MaxJSONDepth: 64, MaxBodyBytes: 1 << 16, MaxStreams: 10, RequestTimeout: time.Minute, Authenticator: anybody{},
	})
	require.NoError(t, mux.Mount("/api", endpoint.Surface{
		Name: "notes", Routes: routes,
		Refusals: map[failurepb.Code]endpoint.Refusal{
			failurepb.Code_NOT_FOUND: {Status: 404, Code: "not_found"}, failurepb.Code_VALIDATION: {Status: 400, Code: "invalid"},
			failurepb.Code_INTERNAL: {Status: 500, Code: "internal"},
		},
		AppendProblem: func(dst []byte, problem *endpoint.Problem) []byte {
			return append(dst, problem.Code+": "+problem.Message...)
		},
	}))
	return func(method, path, body string) string {
		var request fasthttp.Request
		request.Header.SetMethod(method)
		request.SetRequestURI("/api" + path)
		request.SetBodyString(body)
		rc := &fasthttp.RequestCtx{}
		rc.Init(&request, nil, nil)
		mux.Serve(rc)
		return fmt.Sprintf("%d %s", rc.Response.StatusCode(), rc.Response.Body())
	}
}

func TestRoutesOfARecord(t *testing.T) {
	s := &shelf{}
	ask := serve(t, routes(s))
	const shown = `{"id":"n1","title":"One","text":null,"pinned":false,"tags":["a<b"],"settings":{"x":1},"color":"red","createdAt":"1970-01-01T00:00:01.500Z","readAt":null}`
	require.Equal(t, `201 {"note":`+shown+`}`, ask("POST", "/notes", `{"id":"n1","title":"One","tags":["a<b"],"settings":{ "x": 1 },"color":"blue","other":1}`))
	require.Equal(t, `id=n1 title=One text= pinned=- tags=[a<b] settings={ "x": 1 }`, s.said, "what a body does not say is empty, optional fields are nil")
	require.Equal(t, `200 {"note":`+shown+`}`, ask("GET", "/notes/n1", ""))
	require.Equal(t, `200 {"notes":[`+shown+`]}`, ask("GET", "/notes?title=One", ""))
	require.Equal(t, `200 {"notes":[]}`, ask("GET", "/notes?title=Two", ""))
	require.Equal(t, `404 not_found: file not found`, ask("GET", "/notes/n2", ""))
	s.notes[0].text = "long"
	require.Contains(t, ask("GET", "/notes/n1", ""), `"text":"long",`)
	require.Contains(t, ask("GET", "/notes/n1", ""), `"hint":"long",`)
	require.Equal(t, `200 {"success":true}`, ask("DELETE", "/notes/n1", ""))
	require.Equal(t, `delete n1`, s.said)
}

// mouse is a record of which there are mice, and whose answers have nothing around it.
type mouse struct {
	id, tail string
	legs     int64
}

func TestBareRecords(t *testing.T) {
	o := resource.New[mouse, mouse]("mouse", "Mouse").Plural("mice").Bare()
	o.Text("id", func(m mouse) string { return m.id })
	o.Number("leg_count", func(m mouse) int64 { return m.legs }).Create(func(in *mouse) *int64 { return &in.legs })
	var tail *string
	o.NullableText("tail", func(m mouse) string { return m.tail }).Write(func(*mouse) **string { return &tail }).Optional().Clearable()
	resource.Written[[]string](o, "heard", func(dst []byte, m mouse) []byte { return append(dst, `["`+m.id+`"]`...) })
	o.OptionalTime("caught_at", func(m mouse) int64 { return m.legs - 4 })
	kept := mouse{id: "m1"}
	declared := []endpoint.Route{
		resource.List(o, "GET /mice", "mice:read", func(context.Context, *which) ([]mouse, error) { return []mouse{kept}, nil }),
		o.Create("POST /mice", "mice:write", func(_ context.Context, in mouse) (mouse, error) {
			kept.legs = in.legs
			return kept, nil
		}),
		o.Delete("DELETE /mice/{id}", "mice:write", func(context.Context, string) error { return nil }),
	}
	ask := serve(t, declared)
	for body, said := range map[string]*string{`{}`: nil, `{"tail":null}`: new(string), `{"tail":"long"}`: new("long")} {
		require.Contains(t, ask("POST", "/mice", body), "201 ", body)
		require.Equal(t, said, tail, "a new record's null is told from silence where it can be: %s", body)
	}
	require.Equal(t, `201 {"id":"m1","leg_count":4,"tail":null,"heard":["m1"]}`, ask("POST", "/mice", `{"leg_count":4}`))
	require.Equal(t, `200 {"object":"list","data":[{"id":"m1","leg_count":4,"tail":null,"heard":["m1"]}]}`, ask("GET", "/mice", ""))
	require.Equal(t, `200 {"deleted":true,"id":"m1"}`, ask("DELETE", "/mice/m1", ""))
	document := string(openapi.Document(openapi.Info{Error: struct{}{}}, declared))
	require.Contains(t, document, `"listMice"`)
	require.Contains(t, document, `"MouseList"`)
	kept.legs = 5
	require.Contains(t, ask("GET", "/mice", ""), `"heard":["m1"],"caught_at":"1970-01-01T00:00:00.001Z"}`)
}

// TestNamesOfSchemas: one document may have two records of the same name, and one record bare and in a member.
func TestNamesOfSchemas(t *testing.T) {
	find := func(context.Context, string) (mouse, error) { return mouse{id: "m1"}, nil }
	tame := resource.New[mouse, mouse]("mouse", "Rodent")
	tame.Text("id", func(m mouse) string { return m.id })
	wild := resource.New[mouse, mouse]("mouse", "Rodent").Otherwise("WildRodent").Bare()
	wild.Text("tail", func(m mouse) string { return m.tail })
	declared := []endpoint.Route{
		tame.Read("GET /mice/{id}", "mice:read", "getMouse", find), tame.Bare().Read("GET /bare/{id}", "mice:read", "getBare", find),
		wild.Read("GET /wild/{id}", "mice:read", "getWild", find),
	}
	ask := serve(t, declared)
	require.Equal(t, `200 {"mouse":{"id":"m1"}}`, ask("GET", "/mice/m1", ""))
	require.Equal(t, `200 {"id":"m1"}`, ask("GET", "/bare/m1", ""))
	document := string(openapi.Document(openapi.Info{Error: struct{}{}}, declared))
	for _, name := range []string{`"Mouse":`, `"Rodent":`, `"WildRodent":`} {
		require.Contains(t, document, name)
	}
	require.NotContains(t, document, "RodentAnswer")
}

// paw is a record under another one, whose lists come in pages, and whose name is longer than what holds it.
type paw struct{ mouse, side string }

func TestRecordsUnderOthers(t *testing.T) {
	o := resource.New[paw, paw]("mousePaw", "Paw").Member("paws").Under(func(in *paw) *string { return &in.mouse })
	o.Text("mouse", func(p paw) string { return p.mouse })
	o.Text("side", func(p paw) string { return p.side }).Create(func(in *paw) *string { return &in.side })
	type query struct {
		Mouse string `path:"id"`
		Limit int    `query:"limit"`
	}
	declared := []endpoint.Route{
		resource.Pages(o, "GET /mice/{id}/paws", "mice:read", func(_ context.Context, in *query) ([]paw, resource.Pagination, error) {
			return []paw{{in.Mouse, "left"}}[:min(in.Limit, 1)], resource.Paginate(in.Limit, 0, 2), nil
		}),
		o.Create("POST /mice/{id}/paws", "mice:write", func(_ context.Context, in paw) (paw, error) { return in, nil }),
	}
	ask := serve(t, declared)
	require.Equal(t, `201 {"mousePaw":{"mouse":"m1","side":"left"}}`, ask("POST", "/mice/m1/paws", `{"side":"left","mouse":"m2"}`))
	require.Equal(t, `200 {"paws":[{"mouse":"m1","side":"left"}],"pagination":{"limit":1,"offset":0,"hasMore":true}}`, ask("GET", "/mice/m1/paws?limit=1", ""))
	require.Equal(t, `200 {"paws":[],"pagination":{"limit":0,"offset":0,"hasMore":true}}`, ask("GET", "/mice/m1/paws", ""))
	document := string(openapi.Document(openapi.Info{Error: struct{}{}}, declared))
	for _, name := range []string{`"listMousePaws"`, `"createMousePaw"`, `"MousePawList"`, `"Pagination"`} {
		require.Contains(t, document, name)
	}
	for at, more := range map[[3]int]bool{{2, 0, 2}: false, {2, 0, 3}: true, {2, 1, 3}: false, {2, 9, 3}: false, {0, 0, 0}: false} {
		require.Equal(t, more, resource.Paginate(at[0], at[1], at[2]).HasMore, "%v", at)
	}
}

func TestChangesOfARecord(t *testing.T) {
	s := &shelf{notes: []*note{{id: "n1", title: "One", text: "long"}}}
	ask := serve(t, routes(s))
	for body, want := range map[string]string{
		`{}`:                            `id= title=- text=- pinned=- tags=[] settings=`,
		`{"id":"n9","text":null}`:       `id= title=- text= pinned=- tags=[] settings=`, // cleared; the id is not for changes
		`{"title":"","pinned":false}`:   `id= title= text=- pinned=false tags=[] settings=`,
		`{"TITLE":"T","settings":null}`: `id= title=T text=- pinned=- tags=[] settings=null`,
	} {
		require.Contains(t, ask("PATCH", "/notes/n1", body), "200 ", body)
		require.Equal(t, want, s.said, body)
	}
	for body, want := range map[string]string{
		`{"title":null}`: `400 invalid: `, `{"title":7}`: `400 invalid: title must be a string`, `{"pinned":"yes"}`: `400 invalid: `, `[]`: `400 invalid: `,
	} {
		require.Contains(t, ask("PATCH", "/notes/n1", body), want, body)
	}
}

func TestDocumentOfARecord(t *testing.T) {
	document := string(openapi.Document(openapi.Info{Error: struct{}{}}, routes(&shelf{})))
	var read struct {
		Paths      map[string]map[string]map[string]any
		Components struct {
			Schemas map[string]struct {
				Required   []string
				Properties map[string]any
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(document), &read))
	operation := read.Paths["/notes/{id}"]["patch"]
	require.Equal(t, "updateNote", operation["operationId"])
	require.Equal(t, []any{map[string]any{"in": "path", "name": "id", "required": true, "schema": map[string]any{"type": "string"}}}, operation["parameters"])
	require.Equal(t, map[string]any{
		"title": map[string]any{"type": "string"}, "text": map[string]any{"type": "string", "nullable": true}, "pinned": map[string]any{"type": "boolean"},
		"tags": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, "settings": map[string]any{"type": "object", "additionalProperties": true},
	}, properties(t, operation))
	created := read.Paths["/notes"]["post"]
	require.Equal(t, map[string]any{"type": "string", "description": "Made when empty"}, properties(t, created)["id"])
	record := read.Components.Schemas["NoteRecord"]
	require.Equal(t, []string{"id", "title", "text", "pinned", "tags", "settings", "color", "createdAt", "readAt"}, record.Required)
	require.Equal(t, map[string]any{"type": "string", "nullable": true, "format": "date-time"}, record.Properties["readAt"])
	require.Equal(t, map[string]any{"type": "string", "enum": []any{"red", "blue"}}, record.Properties["color"])
	require.Contains(t, read.Components.Schemas, "Note")
	require.Contains(t, read.Components.Schemas, "NoteList")
}

// properties are the fields of a JSON body.
func properties(t *testing.T, operation map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(operation["requestBody"])
	require.NoError(t, err)
	var body struct {
		Content map[string]struct {
			Schema struct{ Properties map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &body))
	return body.Content["application/json"].Schema.Properties
}
