package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// awaitRun answers when a run has ended. Of the last run the head knows how it ended, and answers with a partial
// result; an older one is only in its stored record, so here it is not found.
func (r *request) awaitRun(c *conversationpb.AwaitRun) (machine.Decision, *machine.Failure) {
	if f := r.access(); f != nil {
		return machine.Decision{}, f
	}
	run := c.GetRunId()
	switch {
	case run == "":
		return refuse(failure.New(failurepb.Code_VALIDATION, failure.Required).In("runId"))
	case r.state.GetLease().GetRunId() == run:
		return machine.Decision{Wait: run}, nil
	case r.state.GetLastRunId() == run:
		return machine.Decision{Reply: r.knownResult(run)}, nil
	}
	return refuse(failure.New(failurepb.Code_NOT_FOUND, failure.RunNotActive))
}
