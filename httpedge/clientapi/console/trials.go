package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

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
	// maxSpoken bounds the text that a model is tried with, in characters.
	maxSpoken = 500
	// maxRecordingBody bounds a recording, in base64 and with what it is packed in: the page sends 2 MB.
	maxRecordingBody = 3 << 20
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
		endpoint.On("POST /models/{id}/test", "models:write", a.tryModel, tag, limit, endpoint.MaxBody(maxRecordingBody),
			endpoint.Errors(failurepb.Code_MODEL_NOT_FOUND, invalid, failurepb.Code_TOO_LARGE, busy),
			endpoint.Summary("Call the model with a few words, or a short recording; it costs what they cost")),
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
	ID     string      `path:"id" doc:"Id or key"`
	Input  string      `json:"input" doc:"For a model of category tts: the text, of at most 500 characters; a word when absent"`
	Voice  string      `json:"voice" doc:"Of the provider"`
	Format string      `json:"response_format" enum:"mp3,opus,aac,flac,wav,pcm"`
	Audio  *trialAudio `json:"audio" doc:"For a model of category stt: the recording; a word when absent"`
}

type trialAudio struct {
	Data        string `json:"data" required:"true" doc:"base64"`
	FileName    string `json:"fileName"`
	ContentType string `json:"contentType"`
}

func (a *api) tryModel(ctx context.Context, in *trialModelIn) (*handler.ModelOutcome, error) {
	trial := &handler.ModelTrial{
		Caller: endpoint.CallerFrom(ctx), RequestID: endpoint.RequestIDFrom(ctx), Input: in.Input, Voice: in.Voice, Format: in.Format,
	}
	if utf8.RuneCountInString(in.Input) > maxSpoken {
		return nil, handler.Invalid(failure.AtMostCharacters).In("input").Param("most", maxSpoken)
	}
	if in.Audio != nil {
		recording, err := base64.StdEncoding.DecodeString(in.Audio.Data)
		if err != nil || len(recording) == 0 {
			return nil, handler.Invalid(failure.FileNotBase64).In("audio").Param("name", "audio")
		}
		trial.Recording, trial.FileName, trial.ContentType = recording, in.Audio.FileName, in.Audio.ContentType
	}
	model, err := a.Catalog.Model(ctx, trial.Caller.ProjectID, in.ID)
	if err != nil {
		return nil, handler.RecordError(err)
	}
	bounded, leave, err := a.trial(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	trial.Key = model.GetKey()
	return a.Console.Trials.Model(bounded, trial)
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
