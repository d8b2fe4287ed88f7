package actors

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/task"
	"parley/proto/taskpb"
)

// callbackBody is what a task's address is told (document 5, section 5).
type callbackBody struct {
	TaskID    string `json:"taskId"`
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
	Timestamp string `json:"timestamp"`
}

func (t *tasks) post(at Entity, e task.Post) {
	t.callbacks.try(at, attempt{
		number: e.Attempt,
		send: func(ctx context.Context) (*deliver.Answer, error) {
			body, err := json.Marshal(callbackBody{
				TaskID: e.TaskID, Status: strings.ToLower(e.Status.String()), Error: e.Error,
				Timestamp: time.UnixMilli(e.At).UTC().Format(callbackTime),
			})
			if err != nil {
				return nil, err
			}
			return t.config.Poster.Post(ctx, deliver.Post{URL: e.URL, Body: body, Secret: t.config.Secret})
		},
		report: func(came posted) proto.Message {
			return &taskpb.Command{TaskId: e.TaskID, Body: &taskpb.Command_Delivered{Delivered: &taskpb.Delivered{
				Attempt: e.Attempt, Ok: came.delivered, Hopeless: came.hopeless,
			}}}
		},
	})
}
