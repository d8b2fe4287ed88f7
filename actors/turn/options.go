package turn

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/turn/model"
	"parley/actors/turn/tool"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// options is what the caller sets for the turn. nil = nothing.
type options struct{ *conversationpb.TurnOptions }

// take applies the newest options among the steps to the agent's settings.
func (l *modelLoop) take(steps []*conversationpb.Step) {
	for _, step := range steps {
		if given := step.GetOptions(); given != nil {
			l.options = &options{given}
		}
	}
	if l.options == nil {
		return
	}
	l.agent = l.options.over(l.agent)
	l.request.Agent = l.agent
	l.request.Settings.Effort = l.options.GetReasoningEffort()
	l.request.Settings.Parallel = l.options.ParallelToolCalls
	if format := l.options.GetFormat(); format != nil {
		l.request.Settings.Format = &model.Format{
			Type: format.GetType(), Name: format.GetName(), Description: format.GetDescription(),
			Schema: format.GetSchema(), Strict: format.Strict,
		}
	}
}

// over is the agent as the turn runs it. Its model says no more than the agent allows.
func (o *options) over(agent *agentpb.Agent) *agentpb.Agent {
	agent = proto.CloneOf(agent)
	if o.GetInstructions() != "" {
		agent.Instructions = strings.TrimSpace(agent.GetInstructions() + "\n\n" + o.GetInstructions())
	}
	if agent.Model == nil {
		agent.Model = &agentpb.Model{}
	}
	if o.Temperature != nil {
		agent.Model.Temperature, agent.Model.HasTemperature = o.GetTemperature(), true
	}
	if o.TopP != nil {
		agent.Model.TopP, agent.Model.HasTopP = o.GetTopP(), true
	}
	if most := o.GetMaxOutputTokens(); most > 0 {
		agent.Model.MaxOutputTokens = min(most, cmp.Or(agent.Model.GetMaxOutputTokens(), most))
	}
	return agent
}

// with is the agent's tools with those of the caller.
func (o *options) with(set tool.Set) (tool.Set, error) {
	if o == nil || len(o.GetTools()) == 0 {
		return set, nil
	}
	joined, err := tool.WithCallers(set, o.GetTools())
	if err != nil {
		return nil, &model.Error{Code: model.CodeInvalidRequest, Message: err.Error()}
	}
	return joined, nil
}

// choice is the tool choice of a model call. Only the first call can be required to use a tool; otherwise the turn could
// never end.
func (o *options) choice(asked int) *model.Choice {
	chosen := (*conversationpb.ToolChoice)(nil)
	if o != nil {
		chosen = o.GetToolChoice()
	}
	if chosen == nil || chosen.GetMode() != model.ChooseNone && asked > 0 {
		return nil
	}
	return &model.Choice{Mode: chosen.GetMode(), Name: chosen.GetName()}
}
