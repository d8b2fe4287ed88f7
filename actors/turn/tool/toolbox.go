package tool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/expression"
	"parley/actors/schema"
	"parley/actors/stranger"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
)

// Config configures a Toolbox. Zero values mean the defaults.
type Config struct {
	// Guard makes every outbound connection. nil = a guard without exceptions, which reaches no private addresses.
	Guard *deliver.Guard
	// Timeout bounds one run of a tool whose policy sets no timeout. Default 60 s.
	Timeout time.Duration
	// ConnectTimeout bounds an attempt to reach an MCP server that sets no timeout, and so how long the first turn may
	// wait for it. Default 10 s.
	ConnectTimeout time.Duration
	// RetryAfter is the least pause between two failed attempts to reach an MCP server. Default 5 s.
	RetryAfter time.Duration
	// RefreshAfter is how old the list of an MCP server's tools may be before it is refreshed in the background.
	// Default 5 min.
	RefreshAfter time.Duration
	// IdleTimeout is how long an unused MCP session or process is kept. Default 15 min.
	IdleTimeout time.Duration
	// MaxResult bounds a result, in bytes, unless the tool's policy does: the rest is cut off. Default 64 KiB.
	MaxResult int
	// MaxAgents bounds the agents whose tools are kept ready; the least recently used one is dropped. Default 1,000.
	MaxAgents int

	// Answers is the memory for answers of tools; nil = an own budget of the default size.
	Answers *stranger.Budget
	// Logger; nil = nothing is logged.
	Logger *slog.Logger
}

func (c *Config) setDefaults() {
	if c.Guard == nil {
		c.Guard = deliver.NewGuard(deliver.GuardConfig{})
	}
	if c.Answers == nil {
		c.Answers = stranger.New(stranger.Default)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.RetryAfter = cmp.Or(c.RetryAfter, 5*time.Second)
	c.RefreshAfter = cmp.Or(c.RefreshAfter, 5*time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 15*time.Minute)
	c.MaxResult = cmp.Or(c.MaxResult, 64<<10)
	c.MaxAgents = cmp.Or(c.MaxAgents, 1000)
}

// Toolbox makes the tools of agents callable. Safe for concurrent use.
type Toolbox struct {
	config Config
	client *http.Client // of HTTP tools; each run has its own deadline
	mcp    *pool
	// conditions evaluates approval expressions, up to two per core: they need only processor time and memory.
	conditions *expression.Evaluator
	// strict refuses an approval expression that cannot be compiled. Otherwise the tool always asks, so that an agent
	// stored under other rules still works.
	strict bool

	mu struct {
		sync.Mutex
		agents map[kitName]*kit
		uses   uint64 // counts uses of all kits, to find the least recently used one
	}
}

// New returns a Toolbox.
func New(config Config) (*Toolbox, error) {
	config.setDefaults()
	if config.Timeout < 0 || config.ConnectTimeout < 0 || config.RetryAfter < 0 || config.RefreshAfter < 0 ||
		config.IdleTimeout < 0 || config.MaxResult < 0 || config.MaxAgents < 0 {
		return nil, errors.New("tool: no setting may be negative")
	}
	box := &Toolbox{
		config: config, client: config.Guard.Client(0), conditions: expression.New(2 * runtime.GOMAXPROCS(0)),
	}
	box.client.CheckRedirect = sameMethod(box.client.CheckRedirect)
	box.mcp = newPool(&box.config)
	box.mu.agents = make(map[kitName]*kit)
	return box, nil
}

// Close ends every MCP session and process and waits for them, at most some seconds each. Runs in progress fail. A
// closed Toolbox offers no tools of MCP servers.
func (b *Toolbox) Close() {
	b.mcp.close()
	b.client.CloseIdleConnections()
}

// kitName identifies an agent: ids are unique only within a project, and several versions of one may run at a time.
type kitName struct {
	project, agent string
	version        int64
}

func nameOf(agent *agentpb.Agent) kitName {
	return kitName{agent.GetProjectId(), agent.GetId(), agent.GetRunningVersion()}
}

// kit holds the prepared tools of one agent.
type kit struct {
	content [sha256.Size]byte
	fixed   []*Tool // all but those of MCP servers
	specs   []*agentpb.MCP
	servers []*server // one for each of specs

	// Guarded by the Toolbox's lock.
	agent *agentpb.Agent // as last passed to Open: the same pointer is the same agent
	used  uint64

	mu struct {
		sync.Mutex
		built   *set
		offered []*offer // what built was made from, one for each server
	}
}

// Open prepares the agent's tools. If they are not ready it reads the agent's documents and waits until its MCP servers
// have answered or failed. The error reports what is wrong with the agent's definition (see Check). An unreachable
// server is no error, nor is an approval expression that cannot be compiled: its tool then always asks.
func (b *Toolbox) Open(ctx context.Context, agent *agentpb.Agent) (Set, error) {
	if len(agent.GetTools())+len(agent.GetApis())+len(agent.GetServers()) == 0 && agent.GetAskUser() == nil {
		return noTools, nil
	}
	kit, err := b.kit(agent)
	if err != nil {
		return nil, err
	}
	return kit.set(b.mcp.offers(ctx, kit.servers), b), nil
}

var noTools = &set{} //nolint:gochecknoglobals // the set of an agent without tools; immutable

func (b *Toolbox) kit(agent *agentpb.Agent) (*kit, error) {
	if known := b.known(agent, func(known *kit) bool { return known.agent == agent }); known != nil {
		return known, nil
	}
	content, err := digest(agent)
	if err != nil {
		return nil, err
	}
	if known := b.known(agent, func(known *kit) bool { return known.content == content }); known != nil {
		return known, nil
	}
	made, err := b.assemble(agent)
	if err != nil {
		return nil, err
	}
	made.agent, made.content = agent, content
	b.mu.Lock()
	defer b.mu.Unlock()
	if former := b.mu.agents[nameOf(agent)]; former != nil {
		b.mcp.release(former.servers)
	}
	b.mu.uses++
	made.used = b.mu.uses
	b.mu.agents[nameOf(agent)] = made
	b.evictLocked()
	return made, nil
}

// known returns the agent's kit if it is the right one, and records its use.
func (b *Toolbox) known(agent *agentpb.Agent, right func(*kit) bool) *kit {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.mu.agents[nameOf(agent)]
	if known == nil || !right(known) {
		return nil
	}
	b.mu.uses++
	known.used, known.agent = b.mu.uses, agent
	return known
}

// digest covers the parts of an agent that a kit depends on.
func digest(agent *agentpb.Agent) ([sha256.Size]byte, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(&agentpb.Agent{
		Id: agent.GetId(), Tools: agent.GetTools(), Apis: agent.GetApis(), Servers: agent.GetServers(), AskUser: agent.GetAskUser(),
	})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("tools of agent %q: %w", agent.GetId(), err)
	}
	return sha256.Sum256(raw), nil
}

func (b *Toolbox) evictLocked() {
	for len(b.mu.agents) > b.config.MaxAgents {
		var oldest kitName
		for name, kit := range b.mu.agents {
			if first := b.mu.agents[oldest]; first == nil || kit.used < first.used {
				oldest = name
			}
		}
		b.mcp.release(b.mu.agents[oldest].servers)
		delete(b.mu.agents, oldest)
	}
}

func (b *Toolbox) assemble(agent *agentpb.Agent) (*kit, error) {
	fixed, err := b.fixed(agent)
	if err != nil {
		return nil, fmt.Errorf("tools of agent %q: %w", agent.GetId(), err)
	}
	for _, spec := range agent.GetServers() {
		if err := b.checkServer(spec); err != nil {
			return nil, fmt.Errorf("tools of agent %q: %w", agent.GetId(), err)
		}
	}
	made := &kit{fixed: fixed, specs: agent.GetServers()}
	for _, spec := range made.specs {
		made.servers = append(made.servers, b.mcp.server(spec))
	}
	return made, nil
}

// fixed returns the tools that the agent's definition alone determines.
func (b *Toolbox) fixed(agent *agentpb.Agent) ([]*Tool, error) {
	var tools []*Tool
	check := new(schema.Checker)
	for _, spec := range agent.GetTools() {
		tool, err := b.plain(spec, check)
		if err != nil {
			return nil, fmt.Errorf("tool %q: %w", spec.GetName(), err)
		}
		tools = append(tools, tool)
	}
	if agent.GetAskUser() != nil {
		tools = append(tools, askUser(agent.GetAskUser()))
	}
	for index, api := range agent.GetApis() {
		operations, err := b.operations(api, check)
		if err != nil {
			return nil, fmt.Errorf("API %d %q: %w", index, api.GetName(), err)
		}
		tools = append(tools, operations...)
	}
	names := make(map[string]bool, len(tools))
	tools = distinct(names, tools)
	for _, tool := range tools {
		if names[tool.Name] {
			return nil, fmt.Errorf("two tools are called %q", tool.Name)
		}
		names[tool.Name] = true
	}
	return tools, nil
}

// distinct gives tools whose names meet, after they were changed to what models take, others: with a hash of who they are, which is
// the same whatever else there is. A name that was not changed stays the first one's that has it, unless it is taken.
func distinct(taken map[string]bool, tools []*Tool) []*Tool {
	const hashed = 4
	count, owner := make(map[string]int), make(map[string]*Tool)
	for _, tool := range tools {
		count[tool.Name]++
		if !tool.renamed && owner[tool.Name] == nil {
			owner[tool.Name] = tool
		}
	}
	named := slices.Clone(tools)
	for index, tool := range tools {
		if tool.origin == "" || !taken[tool.Name] && (count[tool.Name] == 1 || owner[tool.Name] == tool) {
			continue
		}
		other := *tool
		hash := sha256.Sum256([]byte(tool.origin))
		suffix := "_" + hex.EncodeToString(hash[:hashed])
		other.Name = tool.Name[:min(len(tool.Name), maxName-len(suffix))] + suffix
		named[index] = &other
	}
	return named
}

// Check reports what is wrong with an agent's tools, without contacting any server: names, schemas, expressions,
// documents, URLs.
func Check(agent *agentpb.Agent) error {
	box, err := New(Config{})
	if err != nil {
		return err
	}
	defer box.Close()
	box.strict = true
	_, err = box.assemble(agent)
	return err
}

// set joins the fixed tools and those of the servers; it is rebuilt only when a server's list has changed.
func (k *kit) set(offers []*offer, box *Toolbox) *set {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.built != nil && slices.Equal(k.mu.offered, offers) {
		return k.mu.built
	}
	var offered []*Tool
	var dropped []Dropped
	for index, offer := range offers {
		if offer != nil {
			tools, left := k.servers[index].tools(offer, k.specs[index], box)
			offered, dropped = append(offered, tools...), append(dropped, left...)
		}
	}
	taken := make(map[string]bool, len(k.fixed))
	for _, tool := range k.fixed {
		taken[tool.Name] = true
	}
	k.mu.built = newSet(slices.Concat(k.fixed, distinct(taken, offered)))
	k.mu.built.dropped = append(dropped, k.mu.built.dropped...)
	k.mu.offered = slices.Clone(offers)
	return k.mu.built
}

// Inspect is Open for who edits the agent: it also says what of its tools is left out, and why.
func (b *Toolbox) Inspect(ctx context.Context, agent *agentpb.Agent) (Set, []Dropped, error) {
	kit, err := b.kit(agent)
	if err != nil {
		return nil, nil, err
	}
	made := kit.set(b.mcp.offers(ctx, kit.servers), b)
	dropped := slices.Clone(made.dropped)
	for index, server := range kit.servers {
		if why := server.problem(); why != "" {
			dropped = append(dropped, Dropped{Server: kit.specs[index].GetName(), Reason: "the server is out of reach: " + clean(why, maxErrorText)})
		}
	}
	return made, dropped, nil
}

type set struct {
	definitions []model.Tool
	byName      map[string]*Tool
	dropped     []Dropped
}

func newSet(tools []*Tool) *set {
	made := &set{byName: make(map[string]*Tool, len(tools))}
	for _, tool := range tools {
		if made.byName[tool.Name] != nil {
			server, name, _ := strings.Cut(tool.origin, "\x00")
			made.dropped = append(made.dropped, Dropped{Server: server, Name: name, Reason: "another tool is called " + tool.Name})
			continue
		}
		made.byName[tool.Name] = tool
		made.definitions = append(made.definitions, model.Tool{
			Name: tool.Name, Description: tool.Description, Schema: tool.Schema,
		})
	}
	slices.SortFunc(made.definitions, func(a, b model.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return made
}

// Definitions implements Set.
func (s *set) Definitions() []model.Tool { return s.definitions }

// Find implements Set.
func (s *set) Find(name string) (*Tool, bool) {
	tool, found := s.byName[name]
	return tool, found
}
