package run

import (
	"context"
	"strings"

	"parley/actors/background"
	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// Types of the errors of a run that has no turn to say why.
const (
	errorSessionGone = "session_not_found"
	errorAgentGone   = "agent_not_found"
	errorAgentAsleep = "agent_not_active"
)

// statusActive is the status of an agent that may begin something, as is none.
const statusActive = "active"

// worker does what the state of a run asks for. Everything it tells the conversation carries an id made of the run's,
// and is answered with the first outcome when it is told again; what it tells the queue can be told any number of times: so
// a worker that starts over does nothing twice.
type worker struct {
	config Config
	at     kit.Ref
	run    *runpb.State    // as its rules have it; only read
	task   *taskRun        // set = a run of a task
	ctx    context.Context //nolint:containedctx // a worker's life, not a request
	sure   bool            // the run has its place, as the queue has told this worker
}

// work takes step after step, until there is none.
func (w *worker) work(ctx context.Context) {
	w.ctx = ctx
	for same := 1; ctx.Err() == nil; same++ {
		report, err := w.step() //nolint:contextcheck // its context is the worker's
		before := w.run.GetLastSeq()
		if err == nil && report != nil {
			err = w.report(report)
		}
		if err != nil && ctx.Err() == nil && !kit.NotOwner(err) {
			w.config.Pool.Log(w.at, "run", err)
		}
		if err != nil || report == nil || w.run == nil {
			return
		}
		if w.run.GetLastSeq() != before {
			same = 0
			continue
		}
		kit.Pause(ctx, same) // its rules see it otherwise: something else has happened
	}
}

// step does the next thing and returns what to report of it. Nil: there is nothing to be done now.
func (w *worker) step() (*runpb.Command, error) {
	s := w.run
	switch {
	case w.task != nil:
		return w.taskStep()
	case s.GetSettled():
		return nil, nil //nolint:nilnil // as said
	case s.Over():
		return w.letGo()
	case !s.GetAdmitted() && s.GetCancelling():
		return w.end(&runpb.Ended{Turn: background.Canceled("")})
	case !s.GetAdmitted():
		return w.admit()
	case s.GetCancelling():
		return w.giveUp()
	case s.GetStatus() == runpb.Status_QUEUED && !s.GetPlaced():
		return w.waitForPlace()
	case s.GetStatus() == runpb.Status_QUEUED, s.GetStatus() == runpb.Status_RUNNING:
		return w.carryOut()
	case s.GetPlaced():
		return w.park()
	}
	return w.look()
}

// admit joins the queue and takes hold of the conversation, or does neither.
func (w *worker) admit() (*runpb.Command, error) {
	joined, err := w.join(false)
	if refusal := kit.FailureOf(err); refusal != nil {
		return w.refuse(refusal)
	}
	if err != nil {
		return nil, err
	}
	agent, found := w.agent()
	switch {
	case !found:
		err = failure.New(failurepb.Code_AGENT_NOT_FOUND, failure.AgentMissing)
	case len(w.run.GetOpening().GetFiles()) > 0 && background.BlobsLost(w.run.GetCreatedAt()):
		err = failure.New(failurepb.Code_UNAVAILABLE, failure.RunFilesLost)
	default:
		_, err = w.tell("hold", &conversationpb.Command{
			Opening: w.run.GetOpening(), Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{
				RunId: w.at.ID, Continues: w.run.GetOrder().GetContinues(), Agent: agent.Rules(),
			}},
		})
	}
	if refusal := kit.FailureOf(err); refusal != nil {
		if err = w.leave(); err != nil {
			return nil, err
		}
		return w.refuse(refusal)
	}
	if err != nil {
		return nil, err
	}
	w.sure = joined.GetPlaced()
	return &runpb.Command{Body: &runpb.Command_Admitted{Admitted: &runpb.Admitted{Placed: w.sure}}}, nil
}

// refuse leaves nothing of a run that is not admitted. A worker that was lost may have held the conversation for it, and made it.
func (w *worker) refuse(refusal *machine.Failure) (*runpb.Command, error) {
	if err := w.free(); err != nil {
		return nil, err
	}
	if w.run.GetOpening().GetCreate() != nil {
		_, err := w.tell("take back", &conversationpb.Command{
			Body: &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}},
		})
		if err != nil && kit.FailureOf(err) == nil {
			return nil, err
		}
	}
	return refused(refusal), nil
}

// refused is the report of a run that is not admitted. Whose conversation it is, and whether there is one, is not said.
func refused(refused *machine.Failure) *runpb.Command {
	switch refused.Code {
	case failurepb.Code_NOT_FOUND, failurepb.Code_FORBIDDEN:
		refused = failure.New(failurepb.Code_SESSION_NOT_FOUND, failure.SessionNotFound)
	default:
	}
	e, _ := refused.Encode() // the details must marshal, by contract
	told := &conversationpb.Refused{
		Code: e.Code, Message: e.Message, Details: e.Details, Reason: e.Reason, Field: e.Field, Params: e.Params,
	}
	return &runpb.Command{Body: &runpb.Command_Admitted{Admitted: &runpb.Admitted{Refused: told}}}
}

// waitForPlace asks whether it is the run's turn, and keeps its place in the queue. The queue will tell it otherwise.
func (w *worker) waitForPlace() (*runpb.Command, error) {
	_, err := w.state()
	if kit.IsCode(err, failurepb.Code_NOT_FOUND) {
		return w.gone()
	}
	if err != nil {
		return nil, err
	}
	joined, err := w.join(false)
	if err != nil {
		return nil, err // the queue is full, and this run's place in it has lapsed: it tries again when it is due
	}
	if !joined.GetPlaced() {
		return nil, nil //nolint:nilnil // see step
	}
	w.sure = true
	return &runpb.Command{Body: &runpb.Command_Placed{Placed: &runpb.Placed{}}}, nil
}

// carryOut has the turn of the run begun, and waits for it. A run that was told of its place, or is taken over from a former
// worker, asks for it again: it may have lapsed meanwhile.
func (w *worker) carryOut() (*runpb.Command, error) {
	if !w.sure {
		if _, err := w.join(true); err != nil {
			return nil, err
		}
		w.sure = true
	}
	if w.run.GetStatus() == runpb.Status_QUEUED {
		return w.begin()
	}
	return w.await()
}

// agent finds the agent of the run.
func (w *worker) agent() (*agentpb.Agent, bool) {
	return w.config.Agents.Agent(w.run.GetProjectId(), w.run.GetAgentId(), w.run.GetAgentVersion())
}

// begin gives the conversation its message, or has it go on.
func (w *worker) begin() (*runpb.Command, error) {
	agent, found := w.agent()
	if !found {
		return w.end(runError(errorAgentGone, "The agent of this run does not exist any more."))
	}
	if status := agent.GetStatus(); status != "" && status != statusActive {
		return w.asleep()
	}
	order := w.run.GetOrder()
	command := &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
		Agent: agent.Rules(), Content: order.GetContent(), FileIds: order.GetFileIds(), Metadata: order.GetMetadata(),
	}}}
	if order.GetContinues() {
		command.Body = &conversationpb.Command_Continue{Continue: &conversationpb.Continue{Agent: agent.Rules()}}
	}
	command.AgentVersion, command.RuntimeContext = w.run.GetAgentVersion(), order.GetRuntimeContext()
	reply, err := w.tell(tellBegin, command)
	refusal := kit.FailureOf(err)
	switch {
	case refusal != nil && refusal.Code == failurepb.Code_NOT_FOUND:
		return w.gone()
	case refusal != nil:
		return w.end(runError(strings.ToLower(refusal.Code.String()), refusal.DefaultText()))
	case err != nil:
		return nil, err
	}
	began := &runpb.Began{TurnRunId: reply.GetAccepted().GetRunId()}
	if began.TurnRunId == "" { // a repeat of a continue may be answered with the turn
		began.TurnRunId = reply.GetTurn().GetRunId()
	}
	return &runpb.Command{Body: &runpb.Command_Began{Began: began}}, nil
}

// asleep ends a run whose agent is not active any more when it would begin. A turn that a former worker has begun goes on.
func (w *worker) asleep() (*runpb.Command, error) {
	state, err := w.state()
	switch {
	case kit.IsCode(err, failurepb.Code_NOT_FOUND):
		return w.gone()
	case err != nil:
		return nil, err
	}
	if turn := w.begun(state); turn != "" {
		return &runpb.Command{Body: &runpb.Command_Began{Began: &runpb.Began{TurnRunId: turn}}}, nil
	}
	return w.end(runError(errorAgentAsleep, "The agent of this run is not active."))
}

// await returns when the turn has ended or waits for a person, and keeps the run's place until then.
func (w *worker) await() (*runpb.Command, error) {
	turn := w.run.GetTurnRunId()
	for {
		ctx, cancel := context.WithTimeout(w.ctx, w.config.Renew)
		reply, err := w.tellIn(ctx, "await", background.Await(turn))
		overdue := ctx.Err() != nil
		cancel()
		known := reply.GetTurn()
		switch {
		case w.ctx.Err() != nil:
			return nil, w.ctx.Err()
		case err != nil && overdue: // whatever it was told last
			if _, err = w.join(true); err != nil {
				return nil, err
			}
			continue
		case err == nil && !known.GetPartial():
			return w.came(known)
		case err != nil && !kit.IsCode(err, failurepb.Code_NOT_FOUND):
			return nil, err
		}
		return w.read(turn)
	}
}

// came is what the run has come to with its turn.
func (w *worker) came(turn *conversationpb.TurnResult) (*runpb.Command, error) {
	if turn.GetStopReason() == conversationpb.StopReason_REQUIRES_ACTION {
		return &runpb.Command{Body: &runpb.Command_Paused{Paused: &runpb.Paused{Turn: turn}}}, nil
	}
	return w.end(&runpb.Ended{Turn: turn})
}

// read is came of a turn that is read from the records.
func (w *worker) read(turn string) (*runpb.Command, error) {
	var result *conversationpb.TurnResult
	err := w.untilRead(func(ctx context.Context) (err error) {
		result, err = w.config.Records.Turn(ctx, w.run.GetConversationId(), turn)
		return err
	})
	if kit.IsCode(err, failurepb.Code_NOT_FOUND) {
		return w.unread(turn)
	}
	if err != nil {
		return nil, err
	}
	return w.came(result)
}

// unread is a turn that the records have neither as ended nor as waiting: it goes on since a moment ago, or its conversation
// is gone.
func (w *worker) unread(turn string) (*runpb.Command, error) {
	state, err := w.state()
	switch {
	case err == nil && state.GetLease().GetRunId() == turn:
		return w.step()
	case err == nil, kit.IsCode(err, failurepb.Code_NOT_FOUND):
		return w.gone()
	}
	return nil, err
}

// state reads the conversation.
func (w *worker) state() (state *conversationpb.State, err error) {
	err = w.untilRead(func(ctx context.Context) (err error) {
		state, err = w.config.Records.State(ctx, w.run.GetConversationId())
		return err
	})
	return state, err
}

// untilRead reads until there is an answer.
func (w *worker) untilRead(read func(ctx context.Context) error) error {
	return w.until(func(err error) bool { return kit.IsCode(err, failurepb.Code_NOT_FOUND) }, read)
}

// park gives the place of a run back that waits for a person.
func (w *worker) park() (*runpb.Command, error) {
	if err := w.leave(); err != nil {
		return nil, err
	}
	return &runpb.Command{Body: &runpb.Command_Parked{Parked: &runpb.Parked{}}}, nil
}

// look sees what became of a turn that waits for a person.
func (w *worker) look() (*runpb.Command, error) {
	state, err := w.state()
	turn := w.run.GetTurnRunId()
	switch {
	case kit.IsCode(err, failurepb.Code_NOT_FOUND):
		return w.gone()
	case err != nil:
		return nil, err
	case state.GetLease().GetRunId() == turn:
		if _, err = w.join(true); err != nil {
			return nil, err
		}
		return &runpb.Command{Body: &runpb.Command_Resumed{Resumed: &runpb.Resumed{}}}, nil
	case state.GetPaused().GetRunId() == turn && state.GetStatus() == conversationpb.Status_WAITING && w.knows(state.GetPending()):
		return nil, nil //nolint:nilnil // see step
	}
	return w.read(turn)
}

// knows says that the run waits for just these.
func (w *worker) knows(pending []*conversationpb.PendingAction) bool {
	known := w.run.GetPending()
	for i, action := range pending {
		if i >= len(known) || known[i].GetId() != action.GetId() {
			return false
		}
	}
	return len(known) == len(pending)
}

// giveUp cancels the turn of a run. What drove the run has ended, so whatever it told the conversation was told before. A
// conversation that the run does not hold any more has nothing of it to cancel.
func (w *worker) giveUp() (*runpb.Command, error) {
	state, err := w.state()
	turn := w.run.GetTurnRunId()
	switch {
	case kit.IsCode(err, failurepb.Code_NOT_FOUND):
		return w.gone()
	case err != nil:
		return nil, err
	case state.GetBackgroundRun() != w.at.ID && turn != "":
		return w.read(turn) // it was let go after its end
	case state.GetBackgroundRun() != w.at.ID || turn == "" && !w.run.GetPlaced():
		return w.end(&runpb.Ended{Turn: background.Canceled("")})
	}
	reply, err := w.tell("cancel", background.Cancel(""))
	told := reply.GetCancelled()
	switch {
	case kit.IsCode(err, failurepb.Code_NOT_FOUND):
		return w.gone()
	case err != nil:
		return nil, err
	case told.GetCancelled():
		turn = told.GetRunId()
	case turn == "":
		if turn = w.begun(told.GetState()); turn != "" {
			return &runpb.Command{Body: &runpb.Command_Began{Began: &runpb.Began{TurnRunId: turn}}}, nil
		}
	}
	if turn == "" {
		return w.end(&runpb.Ended{Turn: background.Canceled("")})
	}
	return w.stopped(turn)
}

// begun is the turn that the run has begun, as its conversation knows, "" = none: a worker may have been lost before it told
// the run of it.
func (w *worker) begun(state *conversationpb.State) string { return w.begunBy(state, tellBegin) }

func (w *worker) begunBy(state *conversationpb.State, name string) string {
	for _, outcome := range state.GetOutcomes() {
		if outcome.GetCommandId() == w.commandID(name) {
			return outcome.GetRunId()
		}
	}
	return ""
}

// stopped waits until a turn that was cancelled, or ended before it could be, is over.
func (w *worker) stopped(turn string) (*runpb.Command, error) {
	reply, err := w.tell("stopped", background.Await(turn))
	known := reply.GetTurn()
	switch {
	case err == nil && !known.GetPartial():
		return w.end(&runpb.Ended{Turn: known})
	case err != nil && !kit.IsCode(err, failurepb.Code_NOT_FOUND):
		return nil, err
	}
	return w.read(turn)
}

// gone ends a run whose conversation was deleted.
func (w *worker) gone() (*runpb.Command, error) {
	if w.run.GetCancelling() {
		return w.end(&runpb.Ended{Turn: background.Canceled(w.run.GetTurnRunId())})
	}
	if w.task != nil {
		return w.end(runError(errorSessionGone, "The conversation of this task was deleted."))
	}
	return w.end(runError(errorSessionGone, "The session of this run was deleted."))
}

func runError(kind, message string) *runpb.Ended {
	return &runpb.Ended{Error: &runpb.Error{Type: kind, Message: message}}
}

// end lets go of the conversation before the end is told: who waited for it may send the next message.
func (w *worker) end(ended *runpb.Ended) (*runpb.Command, error) {
	if err := w.free(); err != nil {
		return nil, err
	}
	return &runpb.Command{Body: &runpb.Command_Ended{Ended: ended}}, nil
}

// letGo leaves nothing of a run that is over.
func (w *worker) letGo() (*runpb.Command, error) {
	if err := w.free(); err != nil {
		return nil, err
	}
	if err := w.leave(); err != nil {
		return nil, err
	}
	return &runpb.Command{Body: &runpb.Command_Settled{Settled: &runpb.Settled{}}}, nil
}

// free releases the conversation, if the run holds it. One that refuses that is not held.
func (w *worker) free() error {
	if w.task != nil {
		return nil
	}
	_, err := w.tell("free", &conversationpb.Command{Body: &conversationpb.Command_Hold{
		Hold: &conversationpb.Hold{RunId: w.at.ID, Release: true},
	}})
	if kit.IsCode(err, failurepb.Code_NOT_FOUND) || kit.IsCode(err, failurepb.Code_FORBIDDEN) {
		return nil
	}
	return err
}
