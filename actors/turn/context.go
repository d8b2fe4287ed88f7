package turn

import (
	"errors"
	"fmt"

	"parley/actors/turn/model"
	"parley/actors/turn/runtimecontext"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// codeContext is the error code of a turn whose runtime context cannot be read. Without the context its tools would be called
// with a wrong identity or none, so the turn ends.
const codeContext = "runtime_context_unavailable"

var errNoOpener = errors.New("nothing opens runtime contexts here")

// openContext opens the conversation's runtime context and the turn's and joins them.
func (l *modelLoop) openContext() error {
	job := &l.run.job
	var opened [2][]byte
	for index, sealed := range [][]byte{job.RuntimeContext, job.TurnContext} {
		if len(sealed) == 0 {
			continue
		}
		plain, err := l.runner.openSealed(sealed, conversationpb.ContextAbout(job.ConversationID))
		if err != nil {
			return contextFault(err)
		}
		opened[index] = plain
	}
	var err error
	l.context, err = runtimecontext.New(opened[0], opened[1], runtimecontext.Stamp{
		UserID: job.ByUser, TokenID: job.ByToken, Source: runtimecontext.SourceAPI,
	})
	if err != nil {
		return contextFault(err)
	}
	if connection := l.agent.GetModel().GetConnection(); l.agent.GetModel().GetProvider() == agentpb.Provider_CONNECTED {
		l.request.Header = l.context.Headers(runtimecontext.Agent(l.agent.GetId()), connection.GetRuntimeHeaders())
	}
	return nil
}

func (r *Runner) openSealed(sealed []byte, about string) ([]byte, error) {
	if r.config.Open == nil {
		return nil, errNoOpener
	}
	return r.config.Open(sealed, about)
}

func contextFault(err error) error {
	return &model.Error{
		Code:    codeContext,
		Message: "The turn's runtime context cannot be opened: it was sealed with another encryption secret, or is damaged.",
		Err:     fmt.Errorf("runtime context: %w", err),
	}
}
