package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// awaitRun answers when a run has ended. Of the last run the head knows how it ended, and answers with a partial
// result; an older one is only in its stored record, so here it is not found.
func (r *request) awaitRun(c *conversationpb.AwaitRun) *machine.Failure {
	if f := r.access(); f != nil {
		return f
	}
	run := c.GetRunId()
	switch {
	case run == "":
		return failure.New(failurepb.Code_VALIDATION, failure.Required).In("runId")
	case r.state.GetLease().GetRunId() == run, r.queued(run) != nil:
		return r.wait(run)
	case r.state.GetLastRunId() == run:
		return r.reply(r.knownResult(run))
	}
	return failure.New(failurepb.Code_NOT_FOUND, failure.RunNotActive)
}
