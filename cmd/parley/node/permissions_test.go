package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	rules "parley/actors/core/permission"
	"parley/actors/machine"
	"parley/httpedge"
	"parley/httpedge/endpoint"
	"parley/httpedge/login"
	"parley/httpedge/permission"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// The table of who may use which route: every row of every surface, asked over HTTP with real tokens and sessions. Handlers are
// replaced by one that answers 200, so that only the door is tried; what handlers refuse within a service (another tenant's records)
// is tried by TestClientRoutes and TestAccounts*.

// what a user was given of every service; "" = nothing, the role decides.
func givenLevels() []string { return []string{"", "none", "read", "write", "admin"} }

// what a token's scope says of every service: "-" is an unscoped token, "" a scope without any service.
func scopes() []string { return []string{"-", "", "none", "read", "write", "admin"} }

func tableRoles() []string { return []string{"owner", "admin", "project_admin", "user"} }

// wanted says by documents 1 and 3 whether a level of a service is held. It shares no code with the engine.
func wanted(engine rules.Policy, role, given, scope string, definition access.Definition, level access.Level) bool {
	number := func(name string) int { return strings.Index("none read write admin", name) }
	own := "none"
	switch {
	case role == "owner":
		own = "admin"
	case definition.OwnersOnly && role != "admin":
	case given != "":
		own = given
	case role == "admin":
		own = "admin"
	case !definition.Administration:
		own = "write"
	}
	if engine == rules.Off && definition.Service == "webhooks" {
		if own = "admin"; role == "user" {
			own = "none"
		}
	}
	if scope == "-" {
		scope = "admin"
	}
	for _, held := range []string{own, scope} {
		if definition.Service == "webhooks" && held == "write" {
			held = "read"
		}
		if held == "" || number(held) < number(level.String()) {
			return false
		}
	}
	return true
}

// need is what a row asks for; own = every signed-in user may.
func need(t *testing.T, surface string, route *endpoint.Route) (definition access.Definition, level access.Level, own bool) {
	t.Helper()
	name, text, _ := strings.Cut(route.Access, ":")
	switch {
	case name == "session":
		require.Regexp(t, "^(dashboard|console)", surface, "%s %s", route.Method, route.Path)
		return definition, level, true
	case surface == "conversation": // its tokens act on agents, by the method
		if name, text = "agents", "write"; route.Method == http.MethodGet {
			text = "read"
		}
	}
	level, known := access.ParseLevel(text)
	require.True(t, known && level != access.None, "%s %s names no level: %s", route.Method, route.Path, route.Access)
	for _, definition = range access.Definitions() {
		if string(definition.Service) == name {
			return definition, level, false
		}
	}
	require.Fail(t, "no such service", "%s %s: %s", route.Method, route.Path, route.Access)
	return definition, level, false
}

// doors is a server with all surfaces, whose handlers only say that they were reached.
type doors struct {
	t        *testing.T
	url      string
	client   *http.Client
	records  *collectiontest.Records
	sessions *login.Sessions
	mounted  []httpedge.Mounted // as the node has them
}

type reached struct {
	TenantID  string `json:"tenantId"`
	ProjectID string `json:"projectId"`
}

func openDoors(t *testing.T, config permission.Config) *doors {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	d := &doors{t: t, records: &collectiontest.Records{}, mounted: Surfaces(), client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute,
	}}
	engine, err := permission.New(config, nil, log, nil)
	require.NoError(t, err)
	var ids atomic.Int64
	accounts := identity.New(d.records, identity.Env{
		NewID: func(kind string) string { return fmt.Sprintf("%s_%d", kind, ids.Add(1)) }, Now: time.Now, Random: fillRandom,
	})
	d.sessions = login.New(login.Config{Secret: []byte(strings.Repeat("k", 32)), Lifetime: time.Hour}, accounts, engine)
	tokens := token.New(token.Config{Policy: config.Policy}, d.records, log)
	tokens.Start()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, err := httpedge.New(httpedge.DefaultConfig(), httpedge.Parts{
		Listener: listener, Node: "n1", Logger: log, Authenticator: token.First(tokens, engine, nobody{}),
	})
	require.NoError(t, err)
	for _, mounted := range d.mounted {
		surface := mounted.Surface
		surface.Routes = nil
		for i := range mounted.Surface.Routes {
			surface.Routes = append(surface.Routes, door(&mounted.Surface.Routes[i]))
		}
		switch surface.Name {
		case "client":
			surface.Authenticator, surface.Permit = tokens, token.Permit(engine, nil)
		case "gateway":
			surface.Authenticator, surface.Permit = token.Always401(tokens), token.Permit(engine, nil)
		default:
			switch mounted.Prefix {
			case dashboardPath:
				surface = d.sessions.Protect(surface)
			case consolePath:
				surface = d.sessions.ProtectProject(surface)
			}
		}
		require.NoError(t, server.Mount(mounted.Prefix, surface))
	}
	signIn := endpoint.Surface{Name: "signin", Refusals: d.mounted[0].Surface.Refusals, AppendProblem: d.mounted[0].Surface.AppendProblem}
	signIn.Routes = []endpoint.Route{endpoint.On("POST /signin/{user}", "session:none", func(ctx context.Context, in *struct {
		User string `path:"user"`
	},
	) (*reached, error) {
		member, failed := accounts.Resume(ctx, identity.Session{UserID: in.User, TenantID: "own", Generation: 1})
		if failed != nil {
			return nil, failed
		}
		return &reached{}, d.sessions.Begin(ctx, member)
	}, endpoint.Public())}
	require.NoError(t, server.Mount("/test", signIn))
	require.NoError(t, server.Start())
	d.url = "http://" + listener.Addr().String()
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, server.Stop(ctx))
		tokens.Stop()
		engine.Stop()
	})
	for _, tenant := range []string{"own", "other"} {
		d.put(identity.Tenants, tenant, &directorypb.Tenant{Id: tenant, Tier: "ENTERPRISE"})
		d.put(identity.Projects, tenant, &directorypb.Project{Id: tenant, TenantId: tenant})
	}
	d.put(identity.Projects, "second", &directorypb.Project{Id: "second", TenantId: "own"})
	return d
}

// nobody is the authentication behind API tokens on the conversation server: it knows nobody.
type nobody struct{}

func (nobody) Authenticate(context.Context, endpoint.Request) (endpoint.Caller, *machine.Failure) {
	return endpoint.Caller{}, failure.New(failurepb.Code_AUTH_REQUIRED, failure.APITokenMissing)
}

// door is a route with the handler replaced.
func door(route *endpoint.Route) endpoint.Route {
	options := []endpoint.Option{}
	if route.IsPublic() {
		options = append(options, endpoint.Public())
	}
	if route.IsEnterprise() {
		options = append(options, endpoint.Enterprise())
	}
	return endpoint.On(route.Method+" "+route.Path, route.Access, func(ctx context.Context, _ *struct{}) (*reached, error) {
		caller := endpoint.CallerFrom(ctx)
		return &reached{caller.TenantID, caller.ProjectID}, nil
	}, options...)
}

func (d *doors) put(collection, key string, message proto.Message) {
	d.t.Helper()
	value, err := proto.Marshal(message)
	require.NoError(d.t, err)
	stored, _ := d.records.Get(collection, key)
	_, err = d.records.Put(d.t.Context(), collection, key, stored.Version, value)
	require.NoError(d.t, err)
}

// every is a level of all services.
func every(level string) map[string]string {
	if level == "" || level == "-" {
		return nil
	}
	all := map[string]string{}
	for _, definition := range access.Definitions() {
		all[string(definition.Service)] = level
	}
	return all
}

// user is one of a role who was given a level of every service.
func (d *doors) user(id, role, given string) {
	d.t.Helper()
	d.put(identity.Users, id, &directorypb.User{
		Id: id, TenantId: "own", Role: role, CanLogin: true, ProjectIds: []string{"own"}, ServicePermissions: every(given),
		SignIn: &directorypb.SignIn{Password: []byte("hash"), Generation: 1},
	})
}

func (d *doors) token(user, tenant, project, scope string) string {
	d.t.Helper()
	var random [32]byte
	fillRandom(random[:])
	secret, hash, prefix := identity.GenerateToken(&random)
	d.put(identity.Tokens, identity.TokenKey(hash), &directorypb.Token{
		Id: "tok of " + user, TenantId: tenant, ProjectId: project, UserId: user, Hash: hash, Prefix: prefix,
		Scoped: scope != "-", Scope: every(scope),
	})
	return "Bearer " + secret
}

// cookie signs a user in.
func (d *doors) cookie(user string) string {
	d.t.Helper()
	status, header, text := d.send("POST", "/test/signin/"+user, "", "")
	require.Equal(d.t, 200, status, text)
	for _, cookie := range (&http.Response{Header: header}).Cookies() {
		if cookie.Name == login.SessionCookie {
			return cookie.Name + "=" + cookie.Value
		}
	}
	require.Fail(d.t, "no cookie")
	return ""
}

var errSend = errors.New("send")

func (d *doors) send(method, path, header, value string) (int, http.Header, string) {
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, http.NoBody)
	if err != nil {
		return 0, nil, errors.Join(errSend, err).Error()
	}
	if header != "" {
		request.Header.Set(header, value)
	}
	response, err := d.client.Do(request)
	if err != nil {
		return 0, nil, errors.Join(errSend, err).Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, errors.Join(errSend, err).Error()
	}
	return response.StatusCode, response.Header, string(text)
}

var parameter = regexp.MustCompile(`\{[^}]*\}`) // a constant

// cell is one request of the table and what is to become of it.
type cell struct {
	name, method, path, header, value string
	status                            int
}

func (d *doors) ask(cells []cell) {
	d.t.Helper()
	var wg sync.WaitGroup
	next := make(chan cell)
	for range 8 {
		wg.Go(func() {
			for c := range next {
				if status, _, text := d.send(c.method, c.path, c.header, c.value); status != c.status {
					d.t.Errorf("%s: %s %s: %d, want %d: %s", c.name, c.method, c.path, status, c.status, text)
				}
			}
		})
	}
	for _, c := range cells {
		next <- c
	}
	close(next)
	wg.Wait()
}

// rows calls each for every row that somebody has to be known for, of the surfaces for tokens and for sessions.
func (d *doors) rows(each func(route *endpoint.Route, path string, cookies, own bool, definition access.Definition, level access.Level)) (count int) {
	d.t.Helper()
	for _, mounted := range d.mounted {
		for i := range mounted.Surface.Routes {
			route := &mounted.Surface.Routes[i]
			if route.IsPublic() {
				continue
			}
			definition, level, own := need(d.t, mounted.Surface.Name, route)
			count++
			each(route, mounted.Prefix+parameter.ReplaceAllString(route.Path, "x"), ofPeople(mounted), own, definition, level)
		}
	}
	return count
}

func statusOf(allowed bool) int {
	if allowed {
		return http.StatusOK
	}
	return http.StatusForbidden
}

// TestPermissionTable: route × service × level × role × own permissions × scope, by cookie and token.
func TestPermissionTable(t *testing.T) {
	t.Parallel()
	for engine, name := range map[rules.Policy]string{rules.BuiltIn: "builtin", rules.Off: "off"} {
		t.Run(name, func(t *testing.T) {
			d := openDoors(t, permission.Config{Policy: engine})
			var cells []cell
			type holder struct{ role, given, scope, header, value string }
			var byToken, byCookie []holder
			for _, role := range tableRoles() {
				for _, given := range givenLevels() {
					id := "usr_" + role + "_" + given
					d.user(id, role, given)
					byCookie = append(byCookie, holder{role, given, "-", "Cookie", d.cookie(id)})
					for _, scope := range scopes() {
						byToken = append(byToken, holder{role, given, scope, "Authorization", d.token(id, "own", "own", scope)})
					}
				}
			}
			count := d.rows(func(route *endpoint.Route, path string, cookies, own bool, definition access.Definition, level access.Level) {
				holders := byToken
				if cookies {
					holders = byCookie
				}
				for _, h := range holders {
					allowed := own || wanted(engine, h.role, h.given, h.scope, definition, level)
					cells = append(cells, cell{
						fmt.Sprintf("role %s, given %q, scope %q", h.role, h.given, h.scope), route.Method, path, h.header, h.value, statusOf(allowed),
					})
				}
			})
			require.Greater(t, count, 130, "rows")
			require.Greater(t, len(cells), 10_000)
			d.ask(cells)
		})
	}
}

// TestPermissionTableOfStrangers: whoever is of another tenant, of no project, or nobody, comes through no door, and acts in no
// project but their own.
func TestPermissionTableOfStrangers(t *testing.T) {
	t.Parallel()
	d := openDoors(t, permission.Config{})
	d.user("owner", "owner", "")
	d.user("user", "user", "admin")
	d.put(identity.Users, "ended", &directorypb.User{
		Id: "ended", TenantId: "own", Role: "owner", CanLogin: true, SignIn: &directorypb.SignIn{Password: []byte("hash"), Generation: 1},
	})
	ended := d.cookie("ended")
	d.put(identity.Users, "ended", &directorypb.User{
		Id: "ended", TenantId: "own", Role: "owner", CanLogin: true, SignIn: &directorypb.SignIn{Password: []byte("hash"), Generation: 2},
	})
	d.put(identity.Users, "moved", &directorypb.User{
		Id: "moved", TenantId: "own", Role: "owner", CanLogin: true, SignIn: &directorypb.SignIn{Password: []byte("hash"), Generation: 1},
	})
	moved := d.cookie("moved")
	d.put(identity.Users, "moved", &directorypb.User{
		Id: "moved", TenantId: "other", Role: "owner", CanLogin: true, SignIn: &directorypb.SignIn{Password: []byte("hash"), Generation: 1},
	})
	signed := d.cookie("user")
	var cells []cell
	d.rows(func(route *endpoint.Route, path string, cookies, _ bool, _ access.Definition, _ access.Level) {
		add := func(name, header, value string, status int) {
			cells = append(cells, cell{name, route.Method, path, header, value, status})
		}
		if cookies {
			add("nobody", "", "", 401)
			add("a made up session", "Cookie", "token=abc", 401)
			add("a session that was ended", "Cookie", ended, 401)
			add("a user of another tenant now", "Cookie", moved, 401)
			add("an API token", "Authorization", d.token("owner", "own", "own", "-"), 401)
			return
		}
		add("a session", "Cookie", signed, 401)
		add("an unknown token", "Authorization", "Bearer service_"+strings.Repeat("0", 64), 401)
	})
	d.ask(cells)

	refused := map[string]string{
		"a project of another tenant":  d.token("owner", "own", "other", "-"),
		"an owner of another tenant":   d.token("owner", "other", "other", "-"),
		"an owner who is not a member": d.token("user", "own", "second", "-"),
		"an owner who is no more":      d.token("gone", "own", "own", "-"),
	}
	d.rows(func(route *endpoint.Route, path string, cookies, _ bool, _ access.Definition, _ access.Level) {
		if cookies {
			status, _, text := d.send(route.Method, path, "Cookie", signed+"; active_project_id=other")
			if status == http.StatusOK {
				var in reached
				require.NoError(t, json.Unmarshal([]byte(text), &in))
				require.Equal(t, reached{"own", "own"}, in, "another tenant's project is not chosen")
			}
			return
		}
		for name, value := range refused {
			status, _, text := d.send(route.Method, path, "Authorization", value)
			require.Contains(t, []int{400, 401, 403}, status, "%s: %s %s: %s", name, route.Method, path, text)
		}
	})
}

// TestPermissionTableOfAnEngine: with an engine outside of the server every row is as that says, 503 where it says nothing, and never
// allowed by silence.
func TestPermissionTableOfAnEngine(t *testing.T) {
	t.Parallel()
	var says atomic.Pointer[string]
	asked := atomic.Int64{}
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if text := *says.Load(); text != "" {
			_, _ = io.WriteString(w, text)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(outside.Close)
	d := openDoors(t, permission.Config{Policy: rules.External, URL: outside.URL, Timeout: 30 * time.Second})
	d.user("owner", "owner", "")
	d.user("user", "user", "none")
	cookies := map[string]string{"owner": d.cookie("owner"), "user": d.cookie("user")}
	tokens := map[string]string{"owner": d.token("owner", "own", "own", "-"), "user": d.token("user", "own", "own", "-")}
	narrow := d.token("owner", "own", "own", "")
	for text, status := range map[string]int{`{"decision":true}`: 200, `{"decision":false}`: 403, ``: 503, `{"decision":"true"}`: 503} {
		says.Store(&text)
		var cells []cell
		d.rows(func(route *endpoint.Route, path string, signed, own bool, definition access.Definition, _ access.Level) {
			for user, value := range tokens {
				header := "Authorization"
				if signed {
					header, value = "Cookie", cookies[user]
				}
				want := status
				switch {
				case own:
					want = http.StatusOK
				case user == "user" && definition.OwnersOnly:
					want = http.StatusForbidden
				}
				cells = append(cells, cell{"engine says " + text + " of " + user, route.Method, path, header, value, want})
			}
			if !signed {
				cells = append(cells, cell{"a scope binds beside it", route.Method, path, "Authorization", narrow, 403})
			}
		})
		d.ask(cells)
	}
	require.Positive(t, asked.Load())
}
