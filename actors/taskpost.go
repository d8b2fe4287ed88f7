package actors

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

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

// post makes one attempt to call back, and tells the task what came of it. Without a place it is not made: it counts as
// lost, and the next one is due soon.
func (t *tasks) post(at Entity, e task.Post) {
	if !t.spare(t.posts, func(context.Context) { t.callBack(at, e) }) {
		t.callbacks.WithLabelValues("crowded").Inc()
	}
}

func (t *tasks) callBack(at Entity, e task.Post) {
	body, err := json.Marshal(callbackBody{
		TaskID: e.TaskID, Status: strings.ToLower(e.Status.String()), Error: e.Error,
		Timestamp: time.UnixMilli(e.At).UTC().Format("2006-01-02T15:04:05.000Z"),
	})
	if err != nil {
		return
	}
	delivered := &taskpb.Delivered{Attempt: e.Attempt}
	answer, err := t.config.Poster.Post(t.life, deliver.Post{URL: e.URL, Body: body, Secret: t.config.Secret})
	outcome := "failed"
	switch {
	case t.life.Err() != nil:
		return // nobody knows: the next owner tries again
	case err == nil && answer.OK():
		delivered.Ok, outcome = true, "delivered"
	case errors.Is(err, deliver.ErrForbiddenAddress):
		delivered.Hopeless, outcome = true, "forbidden"
	}
	t.callbacks.WithLabelValues(outcome).Inc()
	if !delivered.GetOk() {
		status := 0
		if answer != nil {
			status = answer.Status
		}
		t.config.Logger.Info("a task's callback was not taken", slog.String("task", e.TaskID), slog.Int("status", status),
			slog.Uint64("attempt", uint64(e.Attempt)), slog.Any("err", err))
	}
	_, err = at.Ask(t.life, &taskpb.Command{TaskId: e.TaskID, Body: &taskpb.Command_Delivered{Delivered: delivered}})
	if err != nil && t.life.Err() == nil {
		t.config.Logger.Warn("what came of a task's callback is not stored", slog.String("task", e.TaskID), slog.Any("err", err))
	}
}
