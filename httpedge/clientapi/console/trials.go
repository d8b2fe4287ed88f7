package console

import (
	"context"
	"encoding/json"
	"time"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const (
	// trialTime bounds a call that somebody tries, retries included: they wait for it.
	trialTime = 30 * time.Second
	// maxTrials bounds those under way on this node.
	maxTrials = 32
	// maxTrialBody bounds the arguments of a tool, with what they are packed in: the tool takes 64 KiB of them.
	maxTrialBody = 96 << 10
)

// trialRoutes are calls of models and tools as people make them to see whether they work. Whoever may change a model or an agent may.
func (a *api) trialRoutes() []endpoint.Route {
	const (
		write    = "agents:write"
		noAgent  = failurepb.Code_AGENT_NOT_FOUND
		busy     = failurepb.Code_RATE_LIMITED
		invalid  = failurepb.Code_INVALID_REQUEST
		answered = trialTime + 5*time.Second
	)
	a.trials = make(chan struct{}, maxTrials)
	tag, limit := endpoint.Tag("Console"), endpoint.Timeout(answered)
	return []endpoint.Route{
		endpoint.On("GET /agents/{agentKey}/tools", write, a.listTools, tag, limit, endpoint.Errors(noAgent, invalid, busy),
			endpoint.Summary("What the agent's draft may call, as its servers offer it now")),
		endpoint.On("POST /agents/{agentKey}/tools/test", write, a.tryTool, tag, limit, endpoint.MaxBody(maxTrialBody),
			endpoint.Errors(noAgent, failurepb.Code_NOT_FOUND, invalid, failurepb.Code_ACTION_FORBIDDEN, failurepb.Code_TOO_LARGE, busy),
			endpoint.Summary("Call a tool of the agent's draft with arguments of one's own, as a turn would")),
		endpoint.On("POST /models/{id}/test", "models:write", a.tryModel, tag, limit, endpoint.Errors(failurepb.Code_MODEL_NOT_FOUND, busy),
			endpoint.Summary("Call the model with a few words; it costs what they cost")),
	}
}

// trial takes a place for a call, and bounds its time.
func (a *api) trial(ctx context.Context) (bounded context.Context, leave func(), err error) {
	select {
	case a.trials <- struct{}{}:
	default:
		return nil, nil, failure.New(failurepb.Code_RATE_LIMITED, failure.TooManyRequests)
	}
	bounded, cancel := context.WithTimeout(ctx, trialTime)
	return bounded, func() { cancel(); <-a.trials }, nil
}

type trialModelIn struct {
	ID string `path:"id" doc:"Id or key"`
}

func (a *api) tryModel(ctx context.Context, in *trialModelIn) (*handler.ModelOutcome, error) {
	caller := endpoint.CallerFrom(ctx)
	model, err := a.Catalog.Model(ctx, caller.ProjectID, in.ID)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	bounded, leave, err := a.trial(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return a.Console.Trials.Model(bounded, caller, endpoint.RequestIDFrom(ctx), model.GetKey())
}

type trialAgentIn struct {
	Key string `path:"agentKey"`
}

func (a *api) listTools(ctx context.Context, in *trialAgentIn) (*handler.ToolsView, error) {
	bounded, leave, err := a.trial(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	tools, err := a.Console.Trials.Tools(bounded, endpoint.CallerFrom(ctx).ProjectID, in.Key)
	if err == nil && tools == nil {
		err = handler.AgentNotFound()
	}
	return tools, err
}

type trialToolIn struct {
	trialAgentIn
	Tool     string          `json:"tool" required:"true"`
	Args     json.RawMessage `json:"args" doc:"An object; {} when absent"`
	Approved bool            `json:"approved" doc:"The caller approves a call that needs it"`
}

func (a *api) tryTool(ctx context.Context, in *trialToolIn) (*handler.ToolOutcome, error) {
	caller := endpoint.CallerFrom(ctx)
	bounded, leave, err := a.trial(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	trial := &handler.ToolTrial{ProjectID: caller.ProjectID, AgentKey: in.Key, UserID: caller.UserID, Tool: in.Tool, Args: in.Args}
	var allow func(args []byte) error
	if in.Approved {
		allow = func(args []byte) error { return a.mayApprove(bounded, trial, args) }
	}
	return a.Console.Trials.Tool(bounded, trial, allow)
}

// mayApprove asks who decides about approvals, as for a turn's call.
func (a *api) mayApprove(ctx context.Context, trial *handler.ToolTrial, args []byte) error {
	if a.Authorizer == nil {
		return nil
	}
	return handler.SessionFailure(a.Authorizer.AuthorizeResolve(ctx, &endpoint.ActionDecision{
		AgentID: trial.AgentKey, OwnerID: trial.UserID,
		Action:     &conversationpb.PendingAction{Kind: conversationpb.KindApproval, ToolName: trial.Tool, Args: args},
		Resolution: &conversationpb.Resolve{Resolution: &conversationpb.Resolve_Approval{Approval: &conversationpb.ToolApproval{Allow: true}}},
	}))
}
