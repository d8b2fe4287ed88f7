package task

import (
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/proto/deliverypb"
	"parley/proto/taskpb"
)

// callbackBody is what a task's address is told (document 5, section 5).
type callbackBody struct {
	TaskID    string `json:"taskId"`
	Status    string `json:"status"`
	Error     string `json:"error,omitempty"`
	Timestamp string `json:"timestamp"`
}

func (c Config) post(at kit.Ref, e Post) {
	c.Callbacks.Send(at, delivery.Attempt{
		Delivery: &deliverypb.Delivery{Id: e.Callback.GetId(), Attempt: e.Callback.GetAttempt()}, URL: e.URL, Tenant: e.TenantID,
		Compose: func() (delivery.Message, error) {
			body, err := json.Marshal(callbackBody{
				TaskID: e.TaskID, Status: strings.ToLower(e.Callback.GetStatus().String()), Error: e.Callback.GetError(),
				Timestamp: time.UnixMilli(e.Callback.GetAt()).UTC().Format(delivery.TimeFormat),
			})
			return delivery.Message{Body: body, Secret: c.Secret}, err
		},
		Report: func(report *deliverypb.Report) proto.Message {
			return &taskpb.Command{TaskId: e.TaskID, Body: &taskpb.Command_Reported{Reported: report}}
		},
	})
}
