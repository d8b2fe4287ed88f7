package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	core "parley/actors/core/aegis"
	"parley/actors/guard"
	"parley/actors/inference"
	"parley/actors/provider"
)

const (
	// judgeTime is how long a judge of a shield may take: what it judges waits meanwhile.
	judgeTime = 15 * time.Second
	// judgeTokens is what it may say: some models think before they answer.
	judgeTokens = 512
)

// judges asks the models of shields by the gateway's caller: they are paid for, booked and bounded as its calls are. That is made after
// the turns that may need it; who comes before waits, as long as a judge may take. A model is called there, and no agent: nothing that a
// judge does is judged.
type judges struct {
	log    *slog.Logger
	there  chan struct{}
	caller *inference.Caller // once there is closed
}

func newJudges(log *slog.Logger) *judges { return &judges{log: log, there: make(chan struct{})} }

// open lets judges be asked, once.
func (j *judges) open(caller *inference.Caller) {
	j.caller = caller
	close(j.there)
}

// ask implements guard.Parts.Ask.
func (j *judges) ask(ctx context.Context, by *guard.Payer, question *core.Question) (string, error) {
	ctx, release := context.WithTimeoutCause(ctx, judgeTime, provider.ErrTotal)
	defer release()
	select {
	case <-j.there:
	case <-ctx.Done():
		return "", errors.New("this node has only just begun")
	}
	answer, err := j.caller.Ask(ctx, &inference.Call{
		TenantID: by.TenantID, ProjectID: by.ProjectID, UserID: by.UserID, TokenID: by.TokenID, Model: question.Model, Inside: true,
	}, &inference.Question{System: question.System, Text: question.Text, MaxTokens: judgeTokens, Time: judgeTime})
	if err == nil {
		return answer, nil
	}
	j.log.Warn("a shield's judge gave no answer", slog.String("project", by.ProjectID), slog.String("model", question.Model), slog.Any("err", err))
	failed, is := errors.AsType[*inference.Error](err)
	switch {
	case is && failed.Code == "provider_timeout", provider.IsTimeLimit(err):
		return "", errors.New("it did not answer in time")
	case is: // a code is a word of ours, or the provider's that looks like one
		return "", errors.New("it could not be asked (" + failed.Code + ")")
	}
	return "", errors.New("it could not be asked")
}
