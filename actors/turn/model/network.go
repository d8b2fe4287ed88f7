package model

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"parley/actors/provider"
	"parley/proto/agentpb"
)

// network is a provider behind HTTP. What differs between them is the dialect.
type network struct {
	caller  *caller
	client  *http.Client
	guarded *http.Client // of models that tenants have chosen
	name    string
	dialect dialect
	// refused are parameters that models were seen to refuse.
	refused *provider.Learned
}

// dialect speaks one wire form.
type dialect interface {
	// home is the provider's own base URL.
	home() string
	// ask makes one request through the HTTP client and feeds the recorder until the stream ends.
	ask(ctx context.Context, question *question, out *recorder) error
	// refused is the parameter without which a request that failed may be made again, "" = none.
	refused(question *question, err error) string
}

// question is a request made ready for a dialect: checked, and cut to what the provider accepts.
type question struct {
	settings  Settings
	agent     *agentpb.Agent
	messages  []Message
	tools     []toolSpec
	maxOutput int64 // 0 = the provider's default
	base      string
	query     url.Values // parameters of the base URL
	http      *provider.Exchange
	secrets   provider.Redactor
	paused    []held // the answer so far, which paused
	of        string // whose State this provider's is
	takes     func(parameter string) bool
}

// toolSpec is a Tool whose schema was taken apart one level deep; the values stay as they were written.
type toolSpec struct {
	name, description string
	schema            map[string]any
	strict            *bool
	cache             json.RawMessage
}

// NeedsHistory is true: these services keep no conversation.
func (n *network) NeedsHistory() bool { return true }

// Generate makes one model call.
func (n *network) Generate(ctx context.Context, request *Request, stream Stream) (*Answer, error) {
	model := request.Agent.GetModel()
	this := &call{
		provider: n.name, request: request, limits: n.caller.limits(model), secrets: provider.RedactorOf(model),
	}
	if request.ProjectID != "" {
		this.circuit = provider.CircuitID(provider.Streamed, request.ProjectID, model)
	}
	ready, refused := n.prepare(request)
	if refused == nil {
		this.host = hostOf(ready.base)
	}
	client := n.client
	if model.GetGuarded() {
		client = n.guarded
	}
	return n.caller.run(ctx, this, stream, func(ctx context.Context, _ int, out *recorder) error {
		if refused != nil {
			return refused
		}
		asked, without := *ready, []string(nil)
		asked.secrets = this.secrets
		asked.takes = func(name string) bool {
			return !slices.Contains(model.GetUnsupportedParams(), name) && !slices.Contains(without, name) && !n.refused.Has(asked.of+name)
		}
		for range maxPauses {
			out.again()
			out.exchange = &provider.Exchange{Client: client, Secrets: this.secrets, Limits: n.bounds(this.limits)}
			err := n.askOnce(ctx, asked, out)
			if name := n.dialect.refused(&asked, err); name != "" {
				without = append(without, name)
				continue
			}
			if err != nil {
				return err
			}
			for _, name := range without {
				n.refused.Note(asked.of+name, true)
			}
			asked.paused = append(asked.paused, out.said...)
			if out.finished {
				err := out.deliver()
				out.keep(asked.of, asked.paused)
				return err
			}
		}
		return asked.unknownEnd("it pauses its answer again and again")
	})
}

// maxPauses bounds the requests that one answer takes of a provider that pauses in it.
const maxPauses = 10

// askOnce makes one request. Without an error the answer has ended, or paused.
func (n *network) askOnce(ctx context.Context, asked question, out *recorder) error {
	ctx = out.exchange.Open(ctx)
	defer out.exchange.Close()
	asked.http = out.exchange
	return out.exchange.Verdict(ctx, n.dialect.ask(ctx, &asked, out))
}

const (
	// maxDepth and maxValues bound the JSON of one event. The last event of the Responses API repeats the tools that were offered.
	maxDepth  = 200
	maxValues = 20_000
)

func (n *network) bounds(own limits) provider.Limits {
	config := &n.caller.config
	return provider.Limits{
		First: own.firstToken, Idle: own.idle, MaxStreamBytes: config.MaxStreamBytes, MaxLineBytes: config.MaxLineBytes,
		MaxDepth: maxDepth, MaxValues: maxValues,
	}
}

// prepare checks the request and makes it ready.
func (n *network) prepare(request *Request) (*question, error) {
	model := request.Agent.GetModel()
	if model.GetName() == "" {
		return nil, invalid("the agent's model has no name")
	}
	base, query, err := n.baseURL(model.GetBaseUrl())
	if err != nil {
		return nil, err
	}
	if model.GetBaseUrl() == "" && model.GetApiKey() == "" {
		return nil, &Error{Code: CodeAuthentication, Message: "the agent's model has no api_key"}
	}
	if strings.ContainsAny(model.GetApiKey(), "\r\n\x00") {
		return nil, &Error{Code: CodeAuthentication, Message: "the agent's api_key holds a line break"}
	}
	tools, err := toolSpecs(request.Tools)
	if err != nil {
		return nil, err
	}
	messages := portable(history(request), request.Tools)
	if len(messages) == 0 {
		return nil, invalid("there is no message to answer")
	}
	return &question{
		settings: request.Settings, agent: request.Agent, messages: messages, tools: tools, base: base, query: query,
		maxOutput: maxOutput(request), of: stateOf(n.name, base, model.GetName()),
	}, nil
}

// maxOutput is the tighter of the request's cap and the agent's, 0 when neither has one.
func maxOutput(request *Request) int64 {
	own, asked := int64(request.Agent.GetModel().GetMaxOutputTokens()), int64(request.MaxOutputTokens)
	if asked > 0 && (own <= 0 || asked < own) {
		return asked
	}
	return max(own, 0)
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// baseURL checks an agent's base URL and parts it from its query.
func (n *network) baseURL(configured string) (string, url.Values, error) {
	if configured == "" {
		return n.dialect.home(), nil, nil
	}
	base, err := url.Parse(configured)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return "", nil, invalid("the base_url of the agent's model is not an http or https URL")
	}
	query := base.Query()
	base.RawQuery, base.Fragment = "", ""
	return base.String(), query, nil
}

func toolSpecs(tools []Tool) ([]toolSpec, error) {
	specs := make([]toolSpec, 0, len(tools))
	for _, tool := range tools {
		schema := map[string]any{"type": "object", "properties": map[string]any{}}
		if len(tool.Schema) > 0 {
			var raw map[string]json.RawMessage
			if json.Unmarshal(tool.Schema, &raw) != nil || raw == nil {
				return nil, invalid("the schema of tool %q is not a JSON object", tool.Name)
			}
			schema = make(map[string]any, len(raw))
			for key, value := range raw {
				schema[key] = value
			}
		}
		specs = append(specs, toolSpec{name: tool.Name, description: tool.Description, schema: schema, strict: tool.Strict, cache: tool.Cache})
	}
	return specs, nil
}
