package tool

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/schema"
	"parley/actors/stranger"
	"parley/actors/turn/runtimecontext"
	"parley/proto/agentpb"
)

// MetaIdempotencyKey is the _meta key of Call.IdempotencyKey.
const MetaIdempotencyKey = "parley/idempotency-key"

// MetaRuntimeContext is the _meta key of the runtime context, for MCP servers whose policy permits it: who requested
// the turn, and the metadata.
const MetaRuntimeContext = "parley/runtime-context"

// checkServer reports what is wrong with an MCP server's definition.
func (b *Toolbox) checkServer(spec *agentpb.MCP) error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("MCP server %q: %w", spec.GetName(), fmt.Errorf(format, args...))
	}
	if !validName(spec.GetName()) {
		return wrong("a name is 1 to 64 letters, digits, _ and -")
	}
	if (spec.GetUrl() == "") == (spec.GetCommand() == "") {
		return wrong("it must have either a URL or a command")
	}
	if spec.GetUrl() != "" && deliver.CheckURL(spec.GetUrl()) != nil {
		return wrong("its URL is not an http or https URL")
	}
	if spec.GetConnectTimeoutMs() < 0 {
		return wrong("connect_timeout must not be negative")
	}
	if _, err := headers(spec.GetHeaders()); err != nil {
		return wrong("%w", err)
	}
	for name, value := range spec.GetEnv() {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return wrong("%q is no name of an environment variable, or its value cannot be one", name)
		}
	}
	for name, policy := range spec.GetPolicies() {
		if _, err := b.newApproval(policy); err != nil {
			return wrong("policy of %q: %w", name, err)
		}
	}
	if _, err := b.newApproval(spec.GetPolicy()); err != nil {
		return wrong("policy: %w", err)
	}
	return nil
}

// pool holds the MCP servers of all agents. Agents with the same server share its session.
type pool struct {
	config *Config
	lists  *stranger.Budget // of lists that are kept, half of its size: nothing waits for it
	// ctx ends with the pool; everything its goroutines do ends with it.
	ctx    context.Context //nolint:containedctx // the life of the pool, not of a call
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu struct {
		sync.Mutex
		servers map[[sha256.Size]byte]*server
		closed  bool
	}
}

func newPool(config *Config) *pool {
	ctx, cancel := context.WithCancel(context.Background())
	pool := &pool{config: config, lists: stranger.New(maxLists), ctx: ctx, cancel: cancel}
	pool.mu.servers = make(map[[sha256.Size]byte]*server)
	return pool
}

// start runs a goroutine of the pool, unless it is closed.
func (p *pool) start(work func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return false
	}
	p.work.Go(work)
	return true
}

func (p *pool) close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
}

// server returns the server of a definition, creating it if necessary. Each call needs one release.
func (p *pool) server(spec *agentpb.MCP) *server {
	id := identity(spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.mu.servers[id]
	if known == nil {
		known = &server{pool: p, spec: spec, id: id}
		p.mu.servers[id] = known
	}
	known.users++
	return known
}

// release drops servers that no agent uses any more. A turn may still use one: its session ends when it is idle.
func (p *pool) release(servers []*server) {
	var unused []*server
	p.mu.Lock()
	for _, server := range servers {
		if server.users--; server.users == 0 {
			delete(p.mu.servers, server.id)
			unused = append(unused, server)
		}
	}
	p.mu.Unlock()
	for _, server := range unused {
		server.forget()
	}
}

// identity is equal for definitions of the same server: it covers where the server is and how it is reached, not how
// its tools are used.
func identity(spec *agentpb.MCP) [sha256.Size]byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&agentpb.MCP{
		Url: spec.GetUrl(), Headers: spec.GetHeaders(), Command: spec.GetCommand(), Args: spec.GetArgs(), Env: spec.GetEnv(),
		ConnectTimeoutMs: spec.GetConnectTimeoutMs(),
	})
	if err != nil { // not valid UTF-8: not shared
		raw = fmt.Appendf(nil, "%p", spec)
	}
	return sha256.Sum256(raw)
}

// offers gets the tools of all servers concurrently; nil = never reached.
func (p *pool) offers(ctx context.Context, servers []*server) []*offer {
	offers := make([]*offer, len(servers))
	waits := make([]<-chan struct{}, len(servers))
	for index, server := range servers {
		offers[index], waits[index] = server.ask(stranger.TenantOf(ctx)) //nolint:contextcheck // an attempt belongs to the pool
	}
	for index, server := range servers {
		if offers[index] != nil {
			continue
		}
		if waits[index] != nil {
			select {
			case <-waits[index]:
			case <-ctx.Done():
			}
		}
		offers[index] = server.current()
	}
	return offers
}

// tools returns an agent's tools from an offer, with the agent's policies, and what it leaves out.
func (s *server) tools(offer *offer, spec *agentpb.MCP, box *Toolbox) ([]*Tool, []Dropped) {
	var made []*Tool
	var dropped []Dropped
	drop := func(name, reason string) {
		dropped = append(dropped, Dropped{Server: spec.GetName(), Name: name, Reason: reason})
	}
	wanted := func(name string) bool { return len(spec.GetTools()) == 0 || slices.Contains(spec.GetTools(), name) }
	check := new(schema.Checker)
	known := make(map[string]bool, len(offer.tools))
	for _, listed := range offer.tools {
		if !wanted(listed.name) {
			continue
		}
		if known[listed.name] {
			drop(listed.name, "the server lists it twice")
			continue
		}
		known[listed.name] = true
		policy := spec.GetPolicies()[listed.name]
		if policy == nil {
			policy = spec.GetPolicy()
		}
		name, changed := prefixed(spec.GetName(), listed.name)
		tool, err := box.tool(&agentpb.Tool{Name: name, Description: listed.description, Schema: listed.schema, Policy: policy}, check)
		if err != nil {
			s.logger().Warn("a tool is left out", slog.String("tool", listed.name), slog.Any("err", err))
			drop(listed.name, clean(err.Error(), maxErrorText))
			continue
		}
		tool.origin, tool.renamed = spec.GetName()+"\x00"+listed.name, changed
		tool.run = s.runTool(listed.name, spec, policy.GetIdempotent())
		made = append(made, tool)
	}
	for _, one := range offer.dropped {
		if known[one.Name] = true; wanted(one.Name) {
			drop(one.Name, one.Reason)
		}
	}
	for _, name := range spec.GetTools() {
		if !known[name] {
			drop(name, "the server does not list it")
		}
	}
	return made, dropped
}

// runTool runs a tool of the server for an agent, whose spec determines what the server gets of a runtime context.
func (s *server) runTool(name string, spec *agentpb.MCP, idempotent bool) func(context.Context, *Call) (string, error) {
	return func(ctx context.Context, call *Call) (string, error) {
		params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(call.Args)}
		if call.IdempotencyKey != "" {
			params.Meta = mcp.Meta{MetaIdempotencyKey: call.IdempotencyKey}
		}
		if meta := call.Context.Meta(spec.GetRuntimeHeaders()); meta != nil {
			if params.Meta == nil {
				params.Meta = mcp.Meta{}
			}
			params.Meta[MetaRuntimeContext] = meta
		}
		header := call.Context.Headers(runtimecontext.MCP(spec.GetName()), spec.GetRuntimeHeaders())
		ctx = withHeader(ctx, header)
		tracked, progress := withProgress(ctx)
		result, err := s.call(tracked, params)
		// All calls of a session fail, including running ones, when one of them finds that the server no longer knows
		// the session.
		if errors.Is(err, mcp.ErrSessionMissing) && (idempotent || progress.unseen()) ||
			idempotent && s.broke(err) {
			result, err = s.call(ctx, params)
		}
		var answered *jsonrpc.Error
		switch {
		case errors.As(err, &answered) && !slices.Contains(ownCodes, answered.Code):
			return "", failure("the tool answered with an error: %s", runtimecontext.Redact(answered.Message, s.secrets(header)))
		case err != nil:
			return "", &redactedError{err, s.secrets(header)}
		case result.needsInput():
			return "", failure("the tool wants to ask for something that this client cannot give")
		}
		shown := result.shown()
		if result.failed() {
			return "", failure("%s", nonEmpty(runtimecontext.Redact(shown.Text, s.secrets(header)), "the tool failed and did not say why"))
		}
		call.images = shown.Images
		return nonEmpty(shown.Text, "(no content)"), nil
	}
}

// secrets returns what an error must not contain: the configured header values and those of the call.
func (s *server) secrets(header http.Header) []string {
	configured := make(http.Header, len(s.spec.GetHeaders()))
	for name, value := range s.spec.GetHeaders() {
		configured.Set(name, value)
	}
	return append(runtimecontext.Secrets(header), runtimecontext.Secrets(configured)...)
}

// redactedError is an error without secrets: a server may quote them, and the client library passes its text on.
type redactedError struct {
	error
	secrets []string
}

func (h *redactedError) Error() string { return runtimecontext.Redact(h.error.Error(), h.secrets) }

func (h *redactedError) Unwrap() error { return h.error }

// ownCodes are codes of errors that the client library itself produces in the form of a response: the connection ends
// or has ended, or the request could not be sent.
var ownCodes = []int64{-32003, -32004, -32005} //nolint:gochecknoglobals // a list; nothing writes to it

func nonEmpty(text, otherwise string) string {
	if strings.TrimSpace(text) == "" {
		return otherwise
	}
	return text
}

// sortedEnv returns environment variables in a fixed order.
func sortedEnv(env map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}
