package conversation

import (
	"time"

	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// maxStarts bounds how often a turn is started in all, planned moves of its shard included, as a multiple of Limits.Attempts:
// each start pays for a model call.
const maxStarts = 16

// takenOver says that the last run was begun by a former owner of the shard, and this one or one between took it over.
func (r *request) takenOver() bool {
	lease := r.state.GetLease()
	if lease != nil && (lease.GetEpoch() != r.Env.Epoch || lease.GetAttempt() > 1) {
		return true
	}
	return r.state.GetTakenOver() != 0 // also of a turn that was paused since
}

// takeover is the epoch to remember with the end of a run that was taken over, 0 of one that was not.
func (r *request) takeover() uint64 {
	if r.takenOver() {
		return r.Env.Epoch
	}
	return 0
}

// loud is how long a former owner of the last run may still be heard, 0 = not any more. It may not know yet that it is
// none: it was paused, or cut off.
func (r *request) loud() time.Duration {
	if !r.takenOver() {
		return 0
	}
	return r.formerMayBeHeard()
}

// formerMayBeHeard is how long any former owner may still be heard.
func (r *request) formerMayBeHeard() time.Duration {
	return max(0, r.limits.TakeoverSilence-r.Env.Now.Sub(r.Env.EpochSince))
}

// deaths says how many attempts, the last one included, ended with their process, as far as is known: it may have been
// them that ended it. An owner that was cut off counts as dead, since nobody can tell the two apart.
func (r *request) deaths(lease *conversationpb.Lease) uint32 {
	if r.Env.Survived != nil && r.Env.Survived(lease.GetEpoch()) {
		return lease.GetDeaths()
	}
	return lease.GetDeaths() + 1
}

// whenSilent answers a cancel that finds its run ended: at once, or when a former owner of it must be silent.
func (r *request) whenSilent(c *conversationpb.Cancel, run string, told *conversationpb.Cancelled) *machine.Failure {
	loud := r.loud()
	if run != r.state.GetLastRunId() {
		loud = r.formerMayBeHeard() // whose that run was the head does not know any more
	}
	if loud == 0 {
		told.Settled = true
		return r.reply(cancelledReply(told))
	}
	wait := r.settleWait(c)
	r.Await(cancelKey(run))
	r.Effect(r.cancelTimer(min(wait, loud), &conversationpb.CancelTimeout{
		RunId: run, Silent: loud <= wait, Cancelled: told.GetCancelled(),
	}))
	return nil
}
