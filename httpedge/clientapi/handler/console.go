package handler

import (
	"context"
	"encoding/json"

	"parley/httpedge/endpoint"
)

// Console is what the routes of pages need of the node.
type Console struct {
	// Topic is what a stream of a project's lists follows at the hub: all rows, or those of a user. See live.Feeds.
	Topic func(tenantID, projectID, userID string, all bool) string
	// Usage visits the rows of a project's usage (machine.UsageName) by their members, from one up to another one, until visit says no
	// more.
	Usage func(ctx context.Context, name, from, to string, visit func(member string, numbers []int64) (more bool)) error
	// Queue is the id of the queue of a project's runs.
	Queue func(tenantID, projectID string) string
	// Cluster is what this node knows of the cluster. It answers at once.
	Cluster func() ClusterView
	// Trials are calls that a person makes to see whether something works.
	Trials Trials
}

// Trials calls models and tools as turns and the gateway do: by the same executors, through the same guard, with the same limits.
type Trials interface {
	// Model calls a model of the caller's project with a tiny input. What the provider refuses is in the outcome.
	Model(ctx context.Context, trial *ModelTrial) (*ModelOutcome, error)
	// Tools are what the newest draft of an agent may call, in the order of their names. nil = there is no such agent.
	Tools(ctx context.Context, projectID, agentKey string) (*ToolsView, error)
	// Tool runs a tool of that draft. allow is asked for a call that needs a person's approval.
	Tool(ctx context.Context, trial *ToolTrial, allow func(args []byte) error) (*ToolOutcome, error)
}

// ModelTrial names the call, and what is spoken or heard where the caller chose it.
type ModelTrial struct {
	Caller         endpoint.Caller
	RequestID, Key string

	Input, Voice, Format  string // of speech; empty = a word, and what the gateway takes then
	Recording             []byte // of a transcription; empty = one that is made here
	FileName, ContentType string
}

// ModelOutcome is what a call of a model came to.
type ModelOutcome struct {
	OK           bool          `json:"ok"`
	LatencyMs    int64         `json:"latency_ms"`
	InputTokens  int64         `json:"input_tokens"`
	OutputTokens int64         `json:"output_tokens"`
	CostUSD      *float64      `json:"cost_usd" doc:"null when it is not known"`
	Text         string        `json:"text" doc:"The beginning of what it said or heard; of speech its size and type"`
	Audio        *TrialSound   `json:"audio" doc:"Speech that was made"`
	Error        *TrialFailure `json:"error"`
}

// TrialSound is speech.
type TrialSound struct {
	ContentType string `json:"content_type"`
	Data        string `json:"data" doc:"base64"`
}

// TrialFailure is why a call failed. It is safe to show.
type TrialFailure struct {
	Code    string `json:"code"`
	Status  int    `json:"status,omitempty" doc:"As a client of the gateway would get it"`
	Message string `json:"message"`
}

// Ways in which a tool has a result.
const (
	ToolRun    = "run"
	ToolAsk    = "ask"
	ToolClient = "client"
)

// ToolView is a tool as it is described to the model.
type ToolView struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"`
	Kind        string          `json:"kind" enum:"run,ask,client" doc:"run: the server calls it; ask: a person answers; client: the caller's side runs it"`
	Approval    string          `json:"approval" enum:"never,always,when"`
}

// ToolsView is the tools of an agent, and those that it does not get.
type ToolsView struct {
	Tools   []ToolView    `json:"tools"`
	Dropped []DroppedTool `json:"dropped" doc:"Tools of the agent's servers that are left out"`
}

// DroppedTool is a tool that is left out.
type DroppedTool struct {
	Server string `json:"server" doc:"The name of its MCP server; empty = a tool of the agent itself"`
	Name   string `json:"name" doc:"As the server calls it; empty = all of the server's"`
	Reason string `json:"reason"`
}

// ToolTrial names the call.
type ToolTrial struct {
	ProjectID, AgentKey, UserID string
	Tool                        string
	Args                        []byte
}

// What became of the call of a tool.
const (
	ToolOK            = "ok"
	ToolFailed        = "error"
	ToolBadArguments  = "invalid_arguments"
	ToolNeedsApproval = "needs_approval"
)

// ToolOutcome is what a call came to.
type ToolOutcome struct {
	Outcome   string `json:"outcome" enum:"ok,error,invalid_arguments,needs_approval" doc:"needs_approval: nothing was called; approved in the body calls it"`
	LatencyMs int64  `json:"latency_ms"`
	Result    string `json:"result" doc:"As the model would read it"`
	Error     string `json:"error"`
}

// ClusterView is the nodes of the cluster, and who owns what.
type ClusterView struct {
	Node   string      `json:"node" doc:"The node that answers"`
	Nodes  []NodeView  `json:"nodes"`
	Shards []ShardView `json:"shards"`
}

// NodeView is a node as the answering one sees it.
type NodeView struct {
	Name     string `json:"name"`
	State    string `json:"state" enum:"up,down,draining,leaving"`
	Leads    int    `json:"leads" doc:"Shards that it owns"`
	Replicas int    `json:"replicas" doc:"Shards that it holds"`
}

// ShardView is a shard and its owner.
type ShardView struct {
	Shard uint32 `json:"shard"`
	Owner string `json:"owner" doc:"Empty while it has none"`
}
