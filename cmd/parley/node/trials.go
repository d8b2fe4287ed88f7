package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"parley/actors/core/catalog"
	"parley/actors/core/failure"
	"parley/actors/core/letters"
	"parley/actors/core/money"
	"parley/actors/inference"
	"parley/actors/inference/wave"
	"parley/actors/machine/rawjson"
	"parley/actors/stranger"
	"parley/actors/turn/runtimecontext"
	"parley/actors/turn/tool"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// trials implements handler.Trials with what turns and the gateway call models and tools by.
type trials struct {
	node   *Node
	caller *inference.Caller
	newID  func(kind string) string
}

var _ handler.Trials = (*trials)(nil)

const (
	// trialTokens is what a model that is tried may say: some think before they speak.
	trialTokens = 256
	// trialWord is spoken and heard where the caller chose nothing.
	trialWord = "ok"
	// trialText is how much of it is shown, in bytes.
	trialText = 500
	// trialHeard is how much of a transcription is shown, in bytes.
	trialHeard = 16 << 10
)

// Model implements handler.Trials.
func (t *trials) Model(ctx context.Context, trial *handler.ModelTrial) (*handler.ModelOutcome, error) {
	_, record, ok := t.node.directory.agents.Model(trial.Caller.ProjectID, trial.Key)
	if !ok {
		return &handler.ModelOutcome{Error: &handler.TrialFailure{
			Code: "model_not_usable", Message: "The model's provider is missing or disabled, or its credentials cannot be read",
		}}, nil
	}
	outcome := &handler.ModelOutcome{}
	body, ask := t.modelCall(record.GetCategory(), trial, outcome)
	if ask == nil {
		return &handler.ModelOutcome{Error: &handler.TrialFailure{
			Code: "not_supported", Message: "This server calls models of the categories llm, embedding, moderation, tts and stt only",
		}}, nil
	}
	fields, err := rawjson.Object([]byte(body))
	if err != nil {
		return nil, err
	}
	call := &inference.Call{
		TenantID: trial.Caller.TenantID, ProjectID: trial.Caller.ProjectID, UserID: trial.Caller.UserID, RequestID: trial.RequestID, Model: trial.Key, Body: fields,
	}
	var spent int64
	priced := true
	call.Booked = func(usage inference.Usage) { spent, priced = spent+usage.CostNanoUSD, priced && usage.Priced }
	begun := time.Now()
	answer, err := ask(ctx, call)
	outcome.LatencyMs = milliseconds(begun)
	if err != nil {
		failed, is := errors.AsType[*inference.Error](err)
		switch {
		case is:
			outcome.Error = &handler.TrialFailure{Code: failed.Code, Status: failed.Status, Message: failed.Message}
		case errors.Is(err, context.DeadlineExceeded):
			outcome.Error = &handler.TrialFailure{Code: "provider_timeout", Message: "The model did not answer in time"}
		default:
			return nil, err
		}
		return outcome, nil
	}
	outcome.OK = true
	t.take(outcome, answer, len(trial.Recording) > 0)
	if priced {
		usd := money.USD(spent)
		outcome.CostUSD = &usd
	}
	return outcome, nil
}

// modelCall is what a model of a category is tried with; ask is nil for one that is not called here. Speech goes into the outcome.
func (t *trials) modelCall(
	category string, trial *handler.ModelTrial, outcome *handler.ModelOutcome,
) (body string, ask func(context.Context, *inference.Call) ([]byte, error)) {
	switch category {
	case "llm":
		return fmt.Sprintf(`{"messages":[{"role":"user","content":"Say ok."}],"max_tokens":%d}`, trialTokens), t.caller.Chat
	case "embedding":
		return `{"input":"ok"}`, t.caller.Embed
	case "moderation":
		return `{"input":"ok"}`, t.caller.Moderate
	case "tts":
		return speechTrial(trial), func(ctx context.Context, call *inference.Call) ([]byte, error) {
			made, err := t.caller.Speak(ctx, call)
			if err != nil {
				return nil, err
			}
			outcome.Audio = &handler.TrialSound{ContentType: made.ContentType, Data: base64.StdEncoding.EncodeToString(made.Audio)}
			return json.Marshal(map[string]string{"text": fmt.Sprintf("%d bytes of %s", len(made.Audio), made.ContentType)})
		}
	case "stt":
		return `{}`, func(ctx context.Context, call *inference.Call) ([]byte, error) {
			sound, name, kind := trial.Recording, cmp.Or(trial.FileName, "recording"), trial.ContentType
			if len(sound) == 0 {
				sound, name, kind = append(wave.Head(wave.Rate, wave.Size(trialWord)), wave.Speak(trialWord)...), "ok.wav", "audio/wav"
			}
			return t.caller.Transcribe(ctx, call, &inference.Recording{
				Audio: bytes.NewReader(sound), Size: int64(len(sound)), FileName: name, ContentType: kind,
			})
		}
	default:
		return "", nil
	}
}

// speechTrial is the request of a text that is spoken.
func speechTrial(trial *handler.ModelTrial) string {
	body := rawjson.AppendString([]byte(`{"input":`), cmp.Or(strings.TrimSpace(trial.Input), trialWord))
	for name, value := range map[string]string{"voice": trial.Voice, "response_format": trial.Format} {
		if value != "" {
			body = rawjson.AppendString(append(body, `,"`+name+`":`...), value)
		}
	}
	return string(append(body, '}'))
}

// take tells of an answer, in whole as far as it is what was heard of a recording.
func (*trials) take(outcome *handler.ModelOutcome, answer []byte, heard bool) {
	var said struct {
		Text    string `json:"text"`
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Usage struct {
			Input  int64 `json:"prompt_tokens"`
			Output int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(answer, &said) != nil {
		return
	}
	most := trialText
	if heard {
		most = trialHeard
	}
	outcome.Text = letters.Head(said.Text, most)
	if len(said.Choices) > 0 {
		outcome.Text = letters.Head(said.Choices[0].Message.Content, trialText)
	}
	outcome.InputTokens, outcome.OutputTokens = said.Usage.Input, said.Usage.Output
}

// open prepares the tools of an agent's draft, or of an agent of the configuration.
func (t *trials) open(ctx context.Context, projectID, agentKey string) (*trialKit, bool, error) {
	agent, found := t.node.directory.agents.Versions().Agent(projectID, agentKey, catalog.DraftVersion)
	if !found {
		return nil, false, nil
	}
	set, dropped, err := t.node.outbound.tools.Inspect(ctx, agent)
	if err != nil {
		return nil, true, failure.New(failurepb.Code_INVALID_REQUEST, failure.BadAgentTools).Param("why", err.Error())
	}
	return &trialKit{set, dropped, secretsOf(agent)}, true, nil
}

// trialKit is the tools of an agent, and what they are called with that nobody is shown.
type trialKit struct {
	tool.Set

	dropped []tool.Dropped
	secrets []string
}

// shown is a text without the agent's secrets: a service may repeat what it was sent.
func (k *trialKit) shown(text string) string { return runtimecontext.Redact(text, k.secrets) }

// secretsOf are the values of the headers that an agent's tools send, longer ones first. A credential may be repeated without its scheme.
func secretsOf(agent *agentpb.Agent) (secrets []string) {
	const shortest = 4
	add := func(headers map[string]string) {
		for _, value := range headers {
			for _, part := range append(strings.Fields(value), value) {
				if len(part) >= shortest && !strings.EqualFold(part, "bearer") && !strings.EqualFold(part, "basic") {
					secrets = append(secrets, part)
				}
			}
		}
	}
	for _, one := range agent.GetTools() {
		add(one.GetHttp().GetHeaders())
	}
	for _, one := range agent.GetApis() {
		add(one.GetHeaders())
	}
	for _, one := range agent.GetServers() {
		add(one.GetHeaders())
	}
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(secrets)
}

// Tools implements handler.Trials.
func (t *trials) Tools(ctx context.Context, projectID, agentKey string) (*handler.ToolsView, error) {
	ctx = stranger.Of(ctx, endpoint.CallerFrom(ctx).TenantID)
	set, found, err := t.open(ctx, projectID, agentKey)
	if err != nil || !found {
		return nil, err
	}
	view := &handler.ToolsView{Tools: []handler.ToolView{}, Dropped: []handler.DroppedTool{}}
	for _, one := range set.dropped {
		view.Dropped = append(view.Dropped, handler.DroppedTool{Server: one.Server, Name: one.Name, Reason: set.shown(one.Reason)})
	}
	kinds := map[tool.Kind]string{tool.Run: handler.ToolRun, tool.Ask: handler.ToolAsk, tool.Client: handler.ToolClient}
	for _, definition := range set.Definitions() {
		one, ok := set.Find(definition.Name)
		if !ok {
			continue
		}
		view.Tools = append(view.Tools, handler.ToolView{
			Name: one.Name, Description: one.Description, Schema: one.Schema, Kind: kinds[one.Kind],
			Approval: cmp.Or(one.Policy.GetApproval(), "never"),
		})
	}
	return view, nil
}

// Tool implements handler.Trials.
func (t *trials) Tool(ctx context.Context, trial *handler.ToolTrial, allow func(args []byte) error) (*handler.ToolOutcome, error) {
	ctx = stranger.Of(ctx, endpoint.CallerFrom(ctx).TenantID)
	set, found, err := t.open(ctx, trial.ProjectID, trial.AgentKey)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, handler.AgentNotFound()
	}
	one, found := set.Find(trial.Tool)
	if !found {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.RecordMissing).Param("noun", "tool").Param("key", "")
	}
	if one.Kind != tool.Run {
		return nil, failure.New(failurepb.Code_INVALID_REQUEST, failure.ToolNotRunHere).In("tool")
	}
	judged, err := one.Judge(ctx, string(trial.Args))
	if err != nil {
		return &handler.ToolOutcome{Outcome: handler.ToolBadArguments, Error: err.Error()}, nil //nolint:nilerr // it is the outcome
	}
	if judged.Need == conversationpb.Need_APPROVAL {
		if allow == nil {
			return &handler.ToolOutcome{Outcome: handler.ToolNeedsApproval}, nil
		}
		if err = allow(judged.Args); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	id := t.newID("test")
	text, err := t.run(ctx, one, tool.Call{ID: id, IdempotencyKey: id, RunID: id, UserID: trial.UserID, Args: judged.Args})
	outcome := &handler.ToolOutcome{Outcome: handler.ToolOK, LatencyMs: milliseconds(begun), Result: set.shown(text)}
	if err != nil {
		outcome.Outcome, outcome.Error = handler.ToolFailed, set.shown(err.Error())
	}
	return outcome, nil
}

// milliseconds is how long it has been, rounded up as in a turn.
func milliseconds(begun time.Time) int64 {
	return int64((time.Since(begun) + time.Millisecond - 1) / time.Millisecond)
}

// run runs a call. A panic in a tool becomes the call's error, as in a turn.
func (t *trials) run(ctx context.Context, one *tool.Tool, call tool.Call) (text string, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			t.node.log.Error("tool panicked", slog.String("tool", one.Name), slog.String("fault", fmt.Sprint(fault)), slog.String("stack", string(debug.Stack())))
			err = errors.New("the tool failed by a fault of the server")
		}
	}()
	result, err := one.Run(ctx, call)
	return result.Text, err
}
