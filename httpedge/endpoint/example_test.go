package endpoint_test

import (
	"context"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

type greetIn struct {
	Name  string `path:"name"`
	Times int    `query:"times" default:"1" max:"3"`
}

type greetOut struct {
	Greeting string `json:"greeting"`
	Times    int    `json:"times"`
}

func greet(_ context.Context, in *greetIn) (*greetOut, error) {
	if in.Name == "nobody" {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.FileNotFound)
	}
	return &greetOut{Greeting: "Hello, " + in.Name, Times: in.Times}, nil
}

type anybody struct{}

func (anybody) Authenticate(context.Context, endpoint.Request) (endpoint.Caller, *failure.Failure) {
	return endpoint.Caller{UserID: "ann"}, nil
}

// A route is a method and a path, the permission that it needs, and a function of a typed input. The surface that it belongs to
// says which status and code a failure gets, and how the body of an error looks.
func Example() {
	mux := endpoint.NewMux(endpoint.MuxConfig{
		MaxPathBytes: 2048, MaxJSONDepth: 64, MaxStreams: 10, RequestTimeout: time.Second, Authenticator: anybody{},
	})
	err := mux.Mount("/api", endpoint.Surface{
		Name: "greetings",
		Routes: []endpoint.Route{
			endpoint.On("GET /greetings/{name}", "greetings:read", greet,
				endpoint.Summary("Greet somebody"), endpoint.Errors(failurepb.Code_NOT_FOUND)),
		},
		Refusals: map[failurepb.Code]endpoint.Refusal{
			failurepb.Code_NOT_FOUND: {Status: 404, Code: "not_found"},
			failurepb.Code_INTERNAL:  {Status: 500, Code: "internal"},
		},
		AppendProblem: func(dst []byte, problem *endpoint.Problem) []byte {
			return append(dst, problem.Code+": "+problem.Message...)
		},
	})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for _, path := range []string{"/api/greetings/Ann", "/api/greetings/Ann?times=9", "/api/greetings/nobody"} {
		var request fasthttp.Request
		request.SetRequestURI(path)
		rc := &fasthttp.RequestCtx{}
		rc.Init(&request, nil, nil)
		mux.Serve(rc)
		fmt.Printf("%d %s\n", rc.Response.StatusCode(), rc.Response.Body())
	}
	// Output:
	// 200 {"greeting":"Hello, Ann","times":1}
	// 200 {"greeting":"Hello, Ann","times":3}
	// 404 not_found: file not found
}
