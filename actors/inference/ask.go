package inference

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// Question is what this server has to ask a model for itself, in the middle of something else: which model a request is for, what a shield
// is to make of a call.
type Question struct {
	System, Text string
	MaxTokens    int           // of the answer
	Time         time.Duration // in which it must have come, or in a quarter of Config.RequestTimeout where that is less
}

// Ask asks the model of a call of category llm, or those that a dynamic one chooses, and returns what was said. It is a call like any
// other, paid for, booked and bounded; the call's body is not looked at. The error is as Chat's.
func (c *Caller) Ask(ctx context.Context, call *Call, q *Question) (string, error) {
	return c.question(ctx, call, q, c.Chat)
}

func (c *Caller) question(ctx context.Context, call *Call, q *Question, ask func(context.Context, *Call) ([]byte, error)) (string, error) {
	messages := append([]byte(`[{"role":"system","content":`), rawjson.AppendString(nil, q.System)...)
	messages = append(append(messages, `},{"role":"user","content":`...), rawjson.AppendString(nil, q.Text)...)
	asked := *call
	asked.Body = rawjson.Fields{{Name: "messages", Value: append(messages, `}]`...)}, {Name: "max_completion_tokens", Value: strconv.AppendInt(nil, int64(q.MaxTokens), 10)}}
	ctx, release := context.WithTimeoutCause(ctx, min(q.Time, c.config.RequestTimeout/4), provider.ErrTotal)
	defer release()
	answer, err := ask(ctx, &asked)
	if err != nil {
		return "", err
	}
	var said struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err = json.Unmarshal(answer, &said); err != nil || len(said.Choices) == 0 {
		return "", err
	}
	return said.Choices[0].Message.Content, nil
}
