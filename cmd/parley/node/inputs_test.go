package node

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
)

// TestBodiesFillNothingElse sends every route that reads a body its example with members besides that are called as what its input has of
// the path, the query and the headers: in Go or in the document, in any case, as any type. They change nothing, nor is the body refused.
func TestBodiesFillNothingElse(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../httpedge/openapi/examples.json")
	require.NoError(t, err)
	var examples map[string]map[string]any
	require.NoError(t, json.Unmarshal(raw, &examples))
	inputs := openInputs(t)
	attacked := 0
	for _, mounted := range Surfaces() {
		for i := range mounted.Surface.Routes {
			route := &mounted.Surface.Routes[i]
			names := otherNames(route)
			if !route.HasBody() || len(names) == 0 {
				continue
			}
			path := mounted.Prefix + route.Path
			example := examples[route.Handler]
			if example == nil { // what it needs is nothing
				example = map[string]any{}
			}
			status, want, answer := inputs.send(route, path, example)
			for _, value := range []any{"other", 5, nil, []string{"other"}, map[string]any{"other": true}} {
				body := map[string]any{}
				for _, name := range names {
					body[name] = value
				}
				for name, sent := range example {
					body[name] = sent
				}
				gotStatus, got, gotAnswer := inputs.send(route, path, body)
				require.Equal(t, answer, gotAnswer, "%s %s: %v", route.Method, path, body)
				require.Equal(t, status, gotStatus, "%s %s: %v", route.Method, path, body)
				require.Equal(t, want, got, "%s %s: %v", route.Method, path, body)
			}
			if want != nil {
				attacked++
			}
		}
	}
	require.Greater(t, attacked, 60)
}

// otherNames are what members of a body could be called that were meant for fields which are not its own.
func otherNames(route *endpoint.Route) []string {
	declared, names := map[string]bool{}, []string{}
	fields := reflect.VisibleFields(route.In)
	for _, field := range fields {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		declared[strings.ToLower(name)] = true
	}
	add := func(name string) {
		if !declared[strings.ToLower(name)] {
			long := strings.NewReplacer("k", "\u212a", "K", "\u212a", "s", "\u017f", "S", "\u017f").Replace(name) // the same when case is folded
			names = append(names, name, strings.ToLower(name), strings.ToUpper(name), long)
		}
	}
	for _, field := range fields {
		if _, tagged := field.Tag.Lookup("json"); tagged || !field.IsExported() || field.Anonymous {
			continue
		}
		add(field.Name)
		for _, source := range []endpoint.Source{endpoint.FromPath, endpoint.FromQuery, endpoint.FromHeader} {
			if name, is := field.Tag.Lookup(string(source)); is {
				add(name)
			}
		}
	}
	return names
}

// inputs is a server whose routes have the inputs of the real ones, and only keep what they were given.
type inputs struct {
	t     *testing.T
	url   string
	given chan map[string]any // what the last request filled, if it was not refused
}

func openInputs(t *testing.T) *inputs {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Logger: slog.New(slog.DiscardHandler), Authenticator: endpointtest.Authenticate(endpointtest.Off),
	})
	require.NoError(t, err)
	in := &inputs{t: t, url: "http://" + listener.Addr().String(), given: make(chan map[string]any, 1)}
	for _, mounted := range Surfaces() {
		surface := mounted.Surface
		surface.Routes = nil
		for i := range mounted.Surface.Routes {
			route := &mounted.Surface.Routes[i]
			surface.Routes = append(surface.Routes, endpoint.OnDeclared(
				route.Method+" "+route.Path, route.Access, endpoint.Declared{Name: route.Handler, In: route.In, Out: reflect.TypeFor[endpoint.Empty]()},
				func(_ context.Context, value reflect.Value) (any, error) {
					in.given <- kept(value)
					return &endpoint.Empty{}, nil
				}, endpoint.Public(),
			))
		}
		require.NoError(t, server.Mount(mounted.Prefix, surface))
	}
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, server.Stop(ctx))
	})
	return in
}

// kept are the fields of an input by their names. What an input keeps of the body as it came is none of them.
func kept(value reflect.Value) map[string]any {
	fields := map[string]any{}
	for _, field := range reflect.VisibleFields(value.Type()) {
		if field.IsExported() && !field.Anonymous {
			fields[field.Name] = value.FieldByIndex(field.Index).Interface()
		}
	}
	return fields
}

// send returns what the route was given, and the answer where it was refused.
func (in *inputs) send(route *endpoint.Route, path string, body map[string]any) (status int, got map[string]any, answer string) {
	raw, err := json.Marshal(body)
	require.NoError(in.t, err)
	query, header := url.Values{}, http.Header{"Content-Type": {"application/json"}}
	for _, param := range route.Params() {
		value := cmp.Or(append(param.Enum, "7")...)
		switch param.Source {
		case endpoint.FromQuery:
			query.Set(param.Name, value)
		case endpoint.FromHeader:
			header.Set(param.Name, value)
		case endpoint.FromPath:
		}
	}
	path = regexp.MustCompile(`\{([^}]+)\}`).ReplaceAllString(path, "of-$1")
	request, err := http.NewRequestWithContext(in.t.Context(), route.Method, in.url+path+"?"+query.Encode(), strings.NewReader(string(raw)))
	require.NoError(in.t, err)
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	require.NoError(in.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(in.t, err)
	select {
	case got = <-in.given:
	default:
	}
	return response.StatusCode, got, string(text)
}
