package clientapi_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/core/subscription"
	"parley/httpedge/clientapi"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/webhooks"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/deliverypb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// deliveries stands for the entities that hold an endpoint's deliveries.
type deliveries struct {
	mu    sync.Mutex
	known map[string][]*webhookpb.Delivery
}

func (d *deliveries) Ask(_ context.Context, id string, command proto.Message) (proto.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, _ := command.(*webhookpb.Command)
	switch {
	case c.GetRecord() != nil:
		made := c.GetRecord().GetDelivery()
		made.Number = uint64(len(d.known[id]) + 1)
		made.Id, made.SettledAt = subscription.DeliveryID(id, made.GetNumber()), made.GetCreatedAt()+1
		d.known[id] = append(d.known[id], made)
		return &webhookpb.Reply{Delivery: made}, nil
	case c.GetRedeliver() != nil:
		again := proto.CloneOf(c.GetRedeliver().GetDelivery())
		if again.GetStatus() == webhookpb.Status_PENDING {
			return nil, failure.New(failurepb.Code_DELIVERY_PENDING, failure.EndpointDisabled)
		}
		again.Status, again.Call.Attempt, again.Call.NextAt = webhookpb.Status_PENDING, 1, 5000
		d.known[id][again.GetNumber()-1] = again
		return &webhookpb.Reply{Delivery: again}, nil
	case c.GetRedeliverFailed() != nil:
		for _, failed := range c.GetRedeliverFailed().GetDeliveries() {
			again := proto.CloneOf(failed)
			again.Status = webhookpb.Status_PENDING
			d.known[id][again.GetNumber()-1] = again
		}
		return &webhookpb.Reply{Redelivered: uint32(len(c.GetRedeliverFailed().GetDeliveries()))}, nil
	default:
		return &webhookpb.Reply{}, nil
	}
}

func (d *deliveries) Read(_ context.Context, query proto.Message) (proto.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch q := query.(type) {
	case *webhookpb.DeliveriesQuery:
		reply := &webhookpb.DeliveriesReply{}
		for i := len(d.known[q.GetId()]) - 1; i >= 0; i-- {
			found := d.known[q.GetId()][i]
			if q.GetStatus() != webhookpb.Status_STATUS_UNSPECIFIED && q.GetStatus() != found.GetStatus() {
				continue
			}
			if q.Skip > 0 {
				q.Skip--
				continue
			}
			if reply.HasMore = len(reply.Deliveries) == int(q.GetLimit()); reply.HasMore {
				break
			}
			reply.Deliveries = append(reply.Deliveries, found)
		}
		return reply, nil
	case *webhookpb.DeliveryQuery:
		if n := int(q.GetNumber()); n >= 1 && n <= len(d.known[q.GetId()]) {
			return &webhookpb.DeliveryReply{Delivery: d.known[q.GetId()][n-1]}, nil
		}
		return &webhookpb.DeliveryReply{}, nil
	case *webhookpb.FailedQuery:
		reply := &webhookpb.FailedReply{}
		for _, found := range d.known[q.GetId()] {
			if at := found.GetSettledAt(); found.GetStatus() == webhookpb.Status_FAILED && at >= q.GetFrom() && at < q.GetTo() && found.GetNumber() > q.GetAfter() {
				reply.Deliveries = append(reply.Deliveries, found)
			}
		}
		return reply, nil
	default:
		return nil, errors.New("another query")
	}
}

// serveWebhooks is a Client API with webhooks, and the same for signed-in users below /dash.
func serveWebhooks(t *testing.T) *userKit {
	t.Helper()
	var mint endpointtest.IDs
	return serveClient(t, func(p *userKit, parts *clientapi.Parts) map[string]endpoint.Surface {
		parts.Entities = &deliveries{known: map[string][]*webhookpb.Delivery{}}
		as := func(text []byte, about string) ([]byte, error) { return []byte(about + "|" + string(text)), nil }
		parts.Webhooks = subscription.New(p.records, subscription.Env{
			NewID: func(kind string) string {
				id := mint.NewID(kind)
				return fmt.Sprintf("%s_%021s", kind, id[strings.LastIndexByte(id, '_')+1:])
			},
			Now: time.Now, Random: func(into []byte) { _, _ = rand.Read(into) }, Seal: as,
			Open: func(sealed []byte, about string) ([]byte, error) {
				return []byte(strings.TrimPrefix(string(sealed), about+"|")), nil
			},
			Public: func(_ context.Context, url string) bool { return !strings.Contains(url, "10.0.0.1") },
			Try: func(_ context.Context, to *subscription.Endpoint, _ *webhookpb.Message) *deliverypb.Report {
				if strings.Contains(to.URL, "broken") {
					return &deliverypb.Report{Status: 500, Error: "Endpoint answered HTTP 500", Took: 7}
				}
				return &deliverypb.Report{Ok: true, Status: 204, Took: 3}
			},
			Entities: parts.Entities, Ready: func() bool { return true },
		})
		accounts := parts.Accounts
		return map[string]endpoint.Surface{"/dash": {
			Name: "dash", Refusals: handler.Refusals(), Wording: handler.Wording(), AppendProblem: handler.AppendProblem,
			Routes: webhooks.Routes(webhooks.Parts{Webhooks: parts.Webhooks, Permissions: parts.Permissions, Side: webhooks.Sessions{
				Projects: func(tenant string) ([]*directorypb.Project, error) {
					return accounts.ListProjects(identity.Operator(), tenant)
				},
			}}),
		}}
	})
}

func at(t *testing.T, in answer, path ...string) answer {
	t.Helper()
	for _, name := range path {
		next, ok := in[name].(map[string]any)
		require.True(t, ok, "%s in %v", name, in)
		in = next
	}
	return in
}

const anEndpoint = `{"url":"https://ann:pw@a.example/x?key=1","events":["session.*","session.*","*"],"description":"mine"}`

func TestWebhookLife(t *testing.T) {
	p := serveWebhooks(t)
	owner := p.mint("owner of default", "default", nil)
	reader := p.mint("owner of default", "default", map[string]string{"webhooks": "read"})
	status, out := p.ask(owner, "POST", "/webhooks", anEndpoint)
	require.Equal(t, 201, status, out)
	made := at(t, out, "endpoint")
	id, _ := made["id"].(string)
	require.Regexp(t, "^whsec_", made["secret"])
	delete(made, "secret")
	require.NotNil(t, made["createdAt"])
	want := answer{
		"id": id, "url": "https://ann:pw@a.example/x?key=1", "description": "mine", "events": []any{"session.*", "*"},
		"projectId": "default", "status": "active", "disabledReason": nil, "failingSince": nil, "createdBy": "owner of default",
		"createdAt": made["createdAt"], "updatedAt": made["updatedAt"],
	}
	require.Equal(t, want, made)
	_, out = p.ask(owner, "GET", "/webhooks/"+id, "")
	require.Equal(t, answer{"endpoint": want}, out)
	_, out = p.ask(reader, "GET", "/webhooks", "")
	want["url"], want["urlRedacted"] = "https://a.example/x", true
	require.Equal(t, answer{"endpoints": []any{want}}, out)

	status, out = p.ask(owner, "PATCH", "/webhooks/"+id, `{"description":"","status":"disabled","unknown":1}`)
	require.Equal(t, 200, status)
	require.Equal(t, []any{nil, "disabled", "manual"}, []any{at(t, out, "endpoint")["description"], at(t, out, "endpoint")["status"], at(t, out, "endpoint")["disabledReason"]})
	status, out = p.ask(owner, "POST", "/webhooks/"+id+"/test", "")
	require.Equal(t, 200, status, "also on one that is disabled")
	tested := at(t, out, "delivery")
	require.Equal(t, []any{"delivered", 1.0, 204.0, 3.0, nil, nil, "webhook.test", id}, []any{
		tested["status"], tested["attempts"], tested["lastStatusCode"], tested["lastDurationMs"], tested["lastError"], tested["nextAttemptAt"],
		tested["eventType"], tested["endpointId"],
	})
	require.Equal(t, tested["eventId"], at(t, tested, "payload")["id"])
	deliveryID, _ := tested["id"].(string)
	again := "/webhooks/deliveries/" + deliveryID + "/redeliver"
	status, out = p.ask(owner, "POST", again, "")
	require.Equal(t, []any{409, "endpoint_disabled"}, []any{status, out["code"]})
	status, _ = p.ask(owner, "PATCH", "/webhooks/"+id, `{"status":"active","url":"https://broken.example"}`)
	require.Equal(t, 200, status)
	status, out = p.ask(owner, "POST", "/webhooks/"+id+"/test", "")
	require.Equal(t, []any{200, "failed", "Endpoint answered HTTP 500"}, []any{status, at(t, out, "delivery")["status"], at(t, out, "delivery")["lastError"]})
	status, out = p.ask(owner, "POST", again, "")
	require.Equal(t, []any{202, "pending", tested["eventId"]}, []any{status, at(t, out, "delivery")["status"], at(t, out, "delivery")["eventId"]})
	require.Equal(t, "1970-01-01T00:00:05.000Z", at(t, out, "delivery")["nextAttemptAt"])
	status, out = p.ask(owner, "POST", again, "")
	require.Equal(t, []any{409, "delivery_pending"}, []any{status, out["code"]})

	for query, ids := range map[string]int{"": 2, "?limit=1": 1, "?skip=1": 1, "?status=failed": 1, "?status=pending": 1, "?status=delivered": 0, "?limit=200&skip=5": 0} {
		status, out = p.ask(reader, "GET", "/webhooks/"+id+"/deliveries"+query, "")
		require.Equal(t, 200, status, query)
		require.Len(t, out["deliveries"], ids, query)
		require.Equal(t, query == "?limit=1", out["hasMore"], query)
	}
	for query, code := range map[string]int{"?status=lost": 400, "?limit=x": 200, "?limit=0": 200, "?limit=999": 200, "?skip=-1": 200, "?skip=x": 200, "?skip=10000": 200, "?skip=10001": 400} {
		status, out = p.ask(reader, "GET", "/webhooks/"+id+"/deliveries"+query, "")
		require.Equal(t, code, status, "numbers are taken as elsewhere: %s %v", query, out)
	}
	status, out = p.ask(owner, "POST", "/webhooks/"+id+"/rotate-secret", "")
	require.Equal(t, 200, status)
	require.Regexp(t, "^whsec_", at(t, out, "endpoint")["secret"])
	status, out = p.ask(owner, "DELETE", "/webhooks/"+id, "")
	require.Equal(t, []any{200, answer{"deleted": true}}, []any{status, out})
	status, out = p.ask(owner, "GET", "/webhooks/"+id, "")
	require.Equal(t, []any{404, "not_found"}, []any{status, out["code"]})
	status, out = p.ask(owner, "GET", "/webhooks/events", "")
	require.Equal(t, 200, status)
	require.Len(t, out["events"], 12)
}

func TestWebhookRefusals(t *testing.T) {
	p := serveWebhooks(t)
	owner := p.mint("owner of default", "default", nil)
	for body, words := range map[string]string{
		`{}`:                                 "url is required",
		`{"url":"x y"}`:                      "events must be a non-empty array of event types",
		`{"url":"a.example","events":["*"]}`: "url is not a valid URL",
		`{"url":"ftp://a.example","events":["*"]}`:                                                    "url must use http or https",
		`{"url":"http://10.0.0.1","events":["*"]}`:                                                    "url must resolve to a public address",
		`{"url":"https://a.example","events":"*"}`:                                                    "events must be a non-empty array of event types",
		`{"url":"https://a.example","events":[1]}`:                                                    "events must be a non-empty array of event types",
		`{"url":"https://a.example","events":[]}`:                                                     "events must be a non-empty array of event types",
		`{"url":"https://a.example","events":["no.type"]}`:                                            "Unknown event type no.type",
		`{"url":"https://a.example","events":["*"],"description":"` + strings.Repeat("x", 501) + `"}`: "description must be at most 500 characters",
	} {
		if body == `{}` {
			body = `{"events":["*"]}`
		}
		status, out := p.ask(owner, "POST", "/webhooks", body)
		require.Equal(t, []any{400, "invalid_request", words}, []any{status, out["code"], out["error"]}, body)
	}
	for _, project := range []string{"null", `"*"`, `"second"`, `"other"`} {
		status, out := p.ask(owner, "POST", "/webhooks", strings.Replace(anEndpoint, "{", `{"projectId":`+project+`,`, 1))
		require.Equal(t, []any{403, "forbidden"}, []any{status, out["code"]}, project)
	}
	status, _ := p.ask(owner, "POST", "/webhooks", strings.Replace(anEndpoint, "{", `{"projectId":"default",`, 1))
	require.Equal(t, 201, status)
	for range 49 {
		status, _ = p.ask(owner, "POST", "/webhooks", anEndpoint)
		require.Equal(t, 201, status)
	}
	status, out := p.ask(owner, "POST", "/webhooks", anEndpoint)
	require.Equal(t, []any{409, "limit_reached"}, []any{status, out["code"]})
}

// Every route for every role, own permission and scope: document 1, "Authentication", 8, as the table of the engine has it.
func TestWebhookPermissions(t *testing.T) {
	p := serveWebhooks(t)
	routes := webhooks.Routes(webhooks.Parts{Side: webhooks.Tokens{}})
	require.Len(t, routes, 11)
	for _, role := range []string{"owner", "admin", "project_admin", "user"} {
		for _, own := range []string{"", "none", "read", "write", "admin"} {
			for _, scope := range []string{"unscoped", "other", "none", "read", "write", "admin"} {
				user := &directorypb.User{Id: role + own + scope, TenantId: "default", Role: role}
				if own != "" {
					user.ServicePermissions = map[string]string{"webhooks": own}
				}
				p.put(identity.Users, user.GetId(), user)
				var scoped map[string]string
				switch scope {
				case "unscoped":
				case "other":
					scoped = map[string]string{"agents": "admin"}
				default:
					scoped = map[string]string{"webhooks": scope}
				}
				secret := p.mint(user.GetId(), "default", scoped)
				for i := range routes {
					route := &routes[i]
					needs, held := access.Read, holds(role, own, scope)
					if route.Access == "webhooks:admin" {
						needs = access.Admin
					}
					path := strings.NewReplacer("{id}", "wh_"+strings.Repeat("x", 21), "{deliveryId}", "whd_x").Replace(route.Path)
					status, out := p.ask(secret, route.Method, path, `{"events":[]}`)
					if held < needs {
						require.Equal(t, []any{403, "forbidden"}, []any{status, out["code"]}, "%s %s %s: %s %s", role, own, scope, route.Method, path)
					} else {
						require.NotEqual(t, 403, status, "%s %s %s: %s %s", role, own, scope, route.Method, path)
					}
				}
			}
		}
	}
}

// holds is the table: the lower of what the owner holds and what the scope allows; write is read.
func holds(role, own, scope string) access.Level {
	whole := func(text string, otherwise access.Level) access.Level {
		switch text {
		case "admin":
			return access.Admin
		case "write", "read":
			return access.Read
		case "none", "other":
			return access.None
		default:
			return otherwise
		}
	}
	byRole := access.None
	if role == "owner" || role == "admin" {
		byRole = access.Admin
	}
	if role == "owner" {
		own = ""
	}
	return min(whole(own, byRole), whole(scope, access.Admin))
}

// What is out of reach does not exist: another project's, a tenant-wide one, another tenant's.
func TestWebhookReach(t *testing.T) {
	p := serveWebhooks(t)
	owner, foreign := p.mint("owner of default", "default", nil), p.mint("owner of other", "other", nil)
	dash := func(secret, method, path, body string) (int, answer) {
		p.url = strings.Replace(p.url, "/api/client/v1", "/dash", 1)
		defer func() { p.url = strings.Replace(p.url, "/dash", "/api/client/v1", 1) }()
		return p.ask(secret, method, path, body)
	}
	ids := map[string]string{}
	for name, project := range map[string]string{"own": `"default"`, "second": `"second"`, "null": "null", "star": `"*"`} {
		status, out := dash(owner, "POST", "/webhooks", strings.Replace(anEndpoint, "{", `{"projectId":`+project+`,`, 1))
		require.Equal(t, 201, status, out)
		ids[name], _ = at(t, out, "endpoint")["id"].(string)
	}
	status, out := dash(owner, "POST", "/webhooks", strings.Replace(anEndpoint, "{", `{"projectId":"other",`, 1))
	require.Equal(t, []any{403, "forbidden"}, []any{status, out["code"]}, "a project of another tenant")
	_, out = dash(owner, "GET", "/webhooks", "")
	require.Len(t, out["endpoints"], 4)
	_, out = p.ask(owner, "GET", "/webhooks", "")
	require.Len(t, out["endpoints"], 1)
	for name, id := range ids {
		for _, call := range [][2]string{
			{"GET", ""}, {"PATCH", ""}, {"POST", "/test"}, {"GET", "/deliveries"}, {"POST", "/rotate-secret"},
		} {
			status, _ = p.ask(owner, call[0], "/webhooks/"+id+call[1], `{}`)
			require.Equal(t, name == "own", status == 200, "%s %v", name, call)
			require.True(t, status == 200 || status == 404)
			status, _ = dash(owner, call[0], "/webhooks/"+id+call[1], `{}`)
			require.Equal(t, 200, status)
			for _, ask := range []func(string, string, string, string) (int, answer){dash, p.ask} {
				status, _ = ask(foreign, call[0], "/webhooks/"+id+call[1], `{}`)
				require.Equal(t, 404, status, "%s %v", name, call)
			}
		}
		_, out = dash(owner, "GET", "/webhooks/"+id+"/deliveries", "")
		tests, _ := out["deliveries"].([]any)
		first, _ := tests[0].(map[string]any)
		delivery, _ := first["id"].(string)
		status, _ = p.ask(foreign, "POST", "/webhooks/deliveries/"+delivery+"/redeliver", "")
		require.Equal(t, 404, status)
		status, _ = p.ask(owner, "DELETE", "/webhooks/"+id, "")
		require.Equal(t, name == "own", status == 200)
	}
	// A user who was given webhooks manages those of the own projects, never those of the whole tenant.
	p.put(identity.Users, "bob", &directorypb.User{
		Id: "bob", TenantId: "default", Role: "user", ProjectIds: []string{"default"}, ServicePermissions: map[string]string{"webhooks": "admin"},
	})
	bob := p.mint("bob", "default", nil)
	for _, name := range []string{"second", "null", "star"} {
		status, _ = dash(bob, "GET", "/webhooks/"+ids[name], "")
		require.Equal(t, 404, status, name)
	}
	for _, project := range []string{"null", `"*"`, `"second"`} {
		status, _ = dash(bob, "POST", "/webhooks", strings.Replace(anEndpoint, "{", `{"projectId":`+project+`,`, 1))
		require.Equal(t, 403, status, project)
	}
	status, _ = dash(bob, "POST", "/webhooks", anEndpoint)
	require.Equal(t, 201, status)
}

// TestWebhookRedeliverFailed: what failed within a span of time is counted, and sent again once.
func TestWebhookRedeliverFailed(t *testing.T) {
	p := serveWebhooks(t)
	owner := p.mint("owner of default", "default", nil)
	status, out := p.ask(owner, "POST", "/webhooks", `{"url":"https://broken.example","events":["*"]}`)
	require.Equal(t, 201, status, out)
	id, _ := at(t, out, "endpoint")["id"].(string)
	path := "/webhooks/" + id + "/redeliver"
	for range 2 {
		status, _ = p.ask(owner, "POST", "/webhooks/"+id+"/test", "")
		require.Equal(t, 200, status)
	}
	for body, count := range map[string]float64{
		`{"dryRun":true,"to":"2999-01-01T00:00:00Z"}`: 2, `{"dryRun":true,"to":"2001-01-01T00:00:00Z"}`: 0, `{"dryRun":true,"cursor":"1"}`: 1,
		`{"dryRun":true,"from":"2999-01-01T00:00:00Z"}`: 0,
	} {
		require.Eventually(t, func() bool {
			status, out = p.ask(owner, "POST", path, body)
			return status == 202 && out["redelivered"] == count
		}, time.Minute, time.Millisecond, "%s: %v", body, out)
		require.Equal(t, []any{false, nil}, []any{out["hasMore"], out["nextCursor"]})
	}
	status, out = p.ask(owner, "POST", path, "")
	require.Equal(t, []any{202, 2.0}, []any{status, out["redelivered"]})
	status, out = p.ask(owner, "POST", path, "")
	require.Equal(t, []any{202, 0.0}, []any{status, out["redelivered"]}, "once")
	for _, body := range []string{`{"from":"yesterday"}`, `{"to":"2026-01-01"}`, `{"cursor":"-1"}`, `{"cursor":"99999999999999999999"}`, `{"from":1}`} {
		status, out = p.ask(owner, "POST", path, body)
		require.Equal(t, []any{400, "invalid_request"}, []any{status, out["code"]}, body)
	}
	status, out = p.ask(owner, "PATCH", "/webhooks/"+id, `{"status":"disabled"}`)
	require.Equal(t, 200, status, out)
	status, out = p.ask(owner, "POST", path, "")
	require.Equal(t, []any{409, "endpoint_disabled"}, []any{status, out["code"]})
	status, _ = p.ask(owner, "POST", "/webhooks/wh_none/redeliver", "")
	require.Equal(t, 404, status)
}
