package actors

import (
	"context"
	"log/slog"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
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

// runDriver does what the state of a run asks for. Everything it tells the conversation carries an id made of the run's,
// and is answered with the first outcome when it is told again; what it tells the queue can be told any number of times: so
// a driver that starts over does nothing twice.
type runDriver struct {
	config *RunsConfig
	at     Entity
	run    *runpb.State    // as its rules have it; only read
	task   *taskRun        // set = a run of a task
	ctx    context.Context //nolint:containedctx // a driver's life, not a request
	sure   bool            // the run has its place, as this driver has heard from the queue
}

// drive takes step after step, until there is none.
func (d *runDriver) drive(ctx context.Context) {
	d.ctx = ctx
	for same := 1; ctx.Err() == nil; same++ {
		report, err := d.step() //nolint:contextcheck // its context is the driver's
		before := d.run.GetLastSeq()
		if err == nil && report != nil {
			err = d.report(report)
		}
		if err != nil && ctx.Err() == nil && !follow.IsNotOwner(err) {
			d.config.Logger.Warn("a run is not driven any further", slog.String("run", d.at.ID), slog.Any("err", err))
		}
		if err != nil || report == nil || d.run == nil {
			return
		}
		if d.run.GetLastSeq() != before {
			same = 0
			continue
		}
		pause(ctx, same) // its rules see it otherwise: something else has happened
	}
}

// step does the next thing and returns what to report of it. Nil: there is nothing to be done now.
func (d *runDriver) step() (*runpb.Command, error) {
	s := d.run
	switch {
	case d.task != nil:
		return d.taskStep()
	case s.GetSettled():
		return nil, nil //nolint:nilnil // as said
	case s.Over():
		return d.letGo()
	case !s.GetAdmitted() && s.GetCancelling():
		return d.end(&runpb.Ended{Turn: canceled("")})
	case !s.GetAdmitted():
		return d.admit()
	case s.GetCancelling():
		return d.giveUp()
	case s.GetStatus() == runpb.Status_QUEUED && !s.GetPlaced():
		return d.waitInLine()
	case s.GetStatus() == runpb.Status_QUEUED, s.GetStatus() == runpb.Status_RUNNING:
		return d.work()
	case s.GetPlaced():
		return d.park()
	}
	return d.look()
}

// admit joins the queue and takes hold of the conversation, or does neither.
func (d *runDriver) admit() (*runpb.Command, error) {
	joined, err := d.join(false)
	if refusal := refusalOf(err); refusal != nil {
		return d.refuse(refusal)
	}
	if err != nil {
		return nil, err
	}
	agent, found := d.agent()
	switch {
	case !found:
		err = failure.New(failurepb.Code_AGENT_NOT_FOUND, failure.AgentMissing)
	case len(d.run.GetOpening().GetFiles()) > 0 && tooOld(d.run.GetCreatedAt()):
		err = failure.New(failurepb.Code_UNAVAILABLE, failure.RunFilesLost)
	default:
		_, err = d.tell("hold", &conversationpb.Command{
			Opening: d.run.GetOpening(), Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{
				RunId: d.at.ID, Continues: d.run.GetOrder().GetContinues(), Agent: agent,
			}},
		})
	}
	if refusal := refusalOf(err); refusal != nil {
		if err = d.leave(); err != nil {
			return nil, err
		}
		return d.refuse(refusal)
	}
	if err != nil {
		return nil, err
	}
	d.sure = joined.GetPlaced()
	return &runpb.Command{Body: &runpb.Command_Admitted{Admitted: &runpb.Admitted{Placed: d.sure}}}, nil
}

// refuse leaves nothing of a run that is not admitted. A driver that was lost may have held the conversation for it, and made it.
func (d *runDriver) refuse(refusal *machine.Failure) (*runpb.Command, error) {
	if err := d.free(); err != nil {
		return nil, err
	}
	if d.run.GetOpening().GetCreate() != nil {
		_, err := d.tell("take back", &conversationpb.Command{
			Body: &conversationpb.Command_Delete{Delete: &conversationpb.Delete{OnlyIdle: true}},
		})
		if err != nil && refusalOf(err) == nil {
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

// waitInLine asks whether it is the run's turn, and keeps its place in the line. The queue will tell it otherwise.
func (d *runDriver) waitInLine() (*runpb.Command, error) {
	_, err := d.state()
	if codeIs(err, failurepb.Code_NOT_FOUND) {
		return d.gone()
	}
	if err != nil {
		return nil, err
	}
	joined, err := d.join(false)
	if err != nil {
		return nil, err // the line is full, and this run's place in it has lapsed: it tries again when it is due
	}
	if !joined.GetPlaced() {
		return nil, nil //nolint:nilnil // see step
	}
	d.sure = true
	return &runpb.Command{Body: &runpb.Command_Placed{Placed: &runpb.Placed{}}}, nil
}

// work has the turn of the run begun, and waits for it. A run that was told of its place, or is taken over from a former
// driver, asks for it again: it may have lapsed meanwhile.
func (d *runDriver) work() (*runpb.Command, error) {
	if !d.sure {
		if _, err := d.join(true); err != nil {
			return nil, err
		}
		d.sure = true
	}
	if d.run.GetStatus() == runpb.Status_QUEUED {
		return d.begin()
	}
	return d.await()
}

// agent finds the agent of the run.
func (d *runDriver) agent() (*agentpb.Agent, bool) {
	return d.config.Agents.Agent(d.run.GetProjectId(), d.run.GetAgentId(), d.run.GetAgentVersion())
}

// begin gives the conversation its message, or has it go on.
func (d *runDriver) begin() (*runpb.Command, error) {
	agent, found := d.agent()
	if !found {
		return d.end(runError(errorAgentGone, "The agent of this run does not exist any more."))
	}
	if status := agent.GetStatus(); status != "" && status != statusActive {
		return d.asleep()
	}
	order := d.run.GetOrder()
	command := &conversationpb.Command{Body: &conversationpb.Command_Send{Send: &conversationpb.Send{
		Agent: agent, Content: order.GetContent(), FileIds: order.GetFileIds(), Metadata: order.GetMetadata(),
	}}}
	if order.GetContinues() {
		command.Body = &conversationpb.Command_Continue{Continue: &conversationpb.Continue{Agent: agent}}
	}
	command.AgentVersion, command.RuntimeContext = d.run.GetAgentVersion(), order.GetRuntimeContext()
	reply, err := d.tell(tellBegin, command)
	refusal := refusalOf(err)
	switch {
	case refusal != nil && refusal.Code == failurepb.Code_NOT_FOUND:
		return d.gone()
	case refusal != nil:
		return d.end(runError(strings.ToLower(refusal.Code.String()), refusal.DefaultText()))
	case err != nil:
		return nil, err
	}
	began := &runpb.Began{TurnRunId: reply.GetAccepted().GetRunId()}
	if began.TurnRunId == "" { // a repeat of a continue may be answered with the turn
		began.TurnRunId = reply.GetTurn().GetRunId()
	}
	return &runpb.Command{Body: &runpb.Command_Began{Began: began}}, nil
}

// asleep ends a run whose agent is not active any more when it would begin. A turn that a former driver has begun goes on.
func (d *runDriver) asleep() (*runpb.Command, error) {
	state, err := d.state()
	switch {
	case codeIs(err, failurepb.Code_NOT_FOUND):
		return d.gone()
	case err != nil:
		return nil, err
	}
	if turn := d.begun(state); turn != "" {
		return &runpb.Command{Body: &runpb.Command_Began{Began: &runpb.Began{TurnRunId: turn}}}, nil
	}
	return d.end(runError(errorAgentAsleep, "The agent of this run is not active."))
}

// await returns when the turn has ended or waits for a person, and keeps the run's place until then.
func (d *runDriver) await() (*runpb.Command, error) {
	turn := d.run.GetTurnRunId()
	for {
		ctx, cancel := context.WithTimeout(d.ctx, d.config.Renew)
		reply, err := d.tellIn(ctx, "await", awaitCommand(turn))
		overdue := ctx.Err() != nil
		cancel()
		known := reply.GetTurn()
		switch {
		case d.ctx.Err() != nil:
			return nil, d.ctx.Err()
		case err != nil && overdue: // whatever it was told last
			if _, err = d.join(true); err != nil {
				return nil, err
			}
			continue
		case err == nil && !known.GetPartial():
			return d.came(known)
		case err != nil && !codeIs(err, failurepb.Code_NOT_FOUND):
			return nil, err
		}
		return d.read(turn)
	}
}

// came is what the run has come to with its turn.
func (d *runDriver) came(turn *conversationpb.TurnResult) (*runpb.Command, error) {
	if turn.GetStopReason() == conversationpb.StopReason_REQUIRES_ACTION {
		return &runpb.Command{Body: &runpb.Command_Paused{Paused: &runpb.Paused{Turn: turn}}}, nil
	}
	return d.end(&runpb.Ended{Turn: turn})
}

// read is came of a turn that is read from the records.
func (d *runDriver) read(turn string) (*runpb.Command, error) {
	var result *conversationpb.TurnResult
	err := d.untilRead(func(ctx context.Context) (err error) {
		result, err = d.config.Records.Turn(ctx, d.run.GetConversationId(), turn)
		return err
	})
	if codeIs(err, failurepb.Code_NOT_FOUND) {
		return d.unread(turn)
	}
	if err != nil {
		return nil, err
	}
	return d.came(result)
}

// unread is a turn that the records have neither as ended nor as waiting: it goes on since a moment ago, or its conversation
// is gone.
func (d *runDriver) unread(turn string) (*runpb.Command, error) {
	state, err := d.state()
	switch {
	case err == nil && state.GetLease().GetRunId() == turn:
		return d.step()
	case err == nil, codeIs(err, failurepb.Code_NOT_FOUND):
		return d.gone()
	}
	return nil, err
}

// state reads the conversation.
func (d *runDriver) state() (state *conversationpb.State, err error) {
	err = d.untilRead(func(ctx context.Context) (err error) {
		state, err = d.config.Records.State(ctx, d.run.GetConversationId())
		return err
	})
	return state, err
}

// untilRead reads until there is an answer.
func (d *runDriver) untilRead(read func(ctx context.Context) error) error {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(d.ctx, askTimeout)
		err := read(ctx)
		cancel()
		if err == nil || d.ctx.Err() != nil || codeIs(err, failurepb.Code_NOT_FOUND) {
			return err
		}
		pause(d.ctx, try)
	}
}

// park gives the place of a run back that waits for a person.
func (d *runDriver) park() (*runpb.Command, error) {
	if err := d.leave(); err != nil {
		return nil, err
	}
	return &runpb.Command{Body: &runpb.Command_Parked{Parked: &runpb.Parked{}}}, nil
}

// look sees what became of a turn that waits for a person.
func (d *runDriver) look() (*runpb.Command, error) {
	state, err := d.state()
	turn := d.run.GetTurnRunId()
	switch {
	case codeIs(err, failurepb.Code_NOT_FOUND):
		return d.gone()
	case err != nil:
		return nil, err
	case state.GetLease().GetRunId() == turn:
		if _, err = d.join(true); err != nil {
			return nil, err
		}
		return &runpb.Command{Body: &runpb.Command_Resumed{Resumed: &runpb.Resumed{}}}, nil
	case state.GetPaused().GetRunId() == turn && state.GetStatus() == conversationpb.Status_WAITING && d.knows(state.GetPending()):
		return nil, nil //nolint:nilnil // see step
	}
	return d.read(turn)
}

// knows says that the run waits for just these.
func (d *runDriver) knows(pending []*conversationpb.PendingAction) bool {
	known := d.run.GetPending()
	for i, action := range pending {
		if i >= len(known) || known[i].GetId() != action.GetId() {
			return false
		}
	}
	return len(known) == len(pending)
}

// giveUp cancels the turn of a run. What drove the run has ended, so whatever it told the conversation was told before. A
// conversation that the run does not hold any more has nothing of it to cancel.
func (d *runDriver) giveUp() (*runpb.Command, error) {
	state, err := d.state()
	turn := d.run.GetTurnRunId()
	switch {
	case codeIs(err, failurepb.Code_NOT_FOUND):
		return d.gone()
	case err != nil:
		return nil, err
	case state.GetBackgroundRun() != d.at.ID && turn != "":
		return d.read(turn) // it was let go after its end
	case state.GetBackgroundRun() != d.at.ID || turn == "" && !d.run.GetPlaced():
		return d.end(&runpb.Ended{Turn: canceled("")})
	}
	reply, err := d.tell("cancel", cancelCommand())
	told := reply.GetCancelled()
	switch {
	case codeIs(err, failurepb.Code_NOT_FOUND):
		return d.gone()
	case err != nil:
		return nil, err
	case told.GetCancelled():
		turn = told.GetRunId()
	case turn == "":
		if turn = d.begun(told.GetState()); turn != "" {
			return &runpb.Command{Body: &runpb.Command_Began{Began: &runpb.Began{TurnRunId: turn}}}, nil
		}
	}
	if turn == "" {
		return d.end(&runpb.Ended{Turn: canceled("")})
	}
	return d.stopped(turn)
}

// begun is the turn that the run has begun, as its conversation knows, "" = none: a driver may have been lost before it told
// the run of it.
func (d *runDriver) begun(state *conversationpb.State) string {
	for _, outcome := range state.GetOutcomes() {
		if outcome.GetCommandId() == d.commandID(tellBegin) {
			return outcome.GetRunId()
		}
	}
	return ""
}

// stopped waits until a turn that was cancelled, or ended before it could be, is over.
func (d *runDriver) stopped(turn string) (*runpb.Command, error) {
	reply, err := d.tell("stopped", awaitCommand(turn))
	known := reply.GetTurn()
	switch {
	case err == nil && !known.GetPartial():
		return d.end(&runpb.Ended{Turn: known})
	case err != nil && !codeIs(err, failurepb.Code_NOT_FOUND):
		return nil, err
	}
	return d.read(turn)
}

// gone ends a run whose conversation was deleted.
func (d *runDriver) gone() (*runpb.Command, error) {
	if d.run.GetCancelling() {
		return d.end(&runpb.Ended{Turn: canceled(d.run.GetTurnRunId())})
	}
	if d.task != nil {
		return d.end(runError(errorSessionGone, "The conversation of this task was deleted."))
	}
	return d.end(runError(errorSessionGone, "The session of this run was deleted."))
}

func runError(kind, message string) *runpb.Ended {
	return &runpb.Ended{Error: &runpb.Error{Type: kind, Message: message}}
}

// end lets go of the conversation before the end is told: who waited for it may send the next message.
func (d *runDriver) end(ended *runpb.Ended) (*runpb.Command, error) {
	if err := d.free(); err != nil {
		return nil, err
	}
	return &runpb.Command{Body: &runpb.Command_Ended{Ended: ended}}, nil
}

// letGo leaves nothing of a run that is over.
func (d *runDriver) letGo() (*runpb.Command, error) {
	if err := d.free(); err != nil {
		return nil, err
	}
	if err := d.leave(); err != nil {
		return nil, err
	}
	return &runpb.Command{Body: &runpb.Command_Settled{Settled: &runpb.Settled{}}}, nil
}

// free releases the conversation, if the run holds it. One that refuses that is not held.
func (d *runDriver) free() error {
	if d.task != nil {
		return nil
	}
	_, err := d.tell("free", &conversationpb.Command{Body: &conversationpb.Command_Hold{
		Hold: &conversationpb.Hold{RunId: d.at.ID, Release: true},
	}})
	if codeIs(err, failurepb.Code_NOT_FOUND) || codeIs(err, failurepb.Code_FORBIDDEN) {
		return nil
	}
	return err
}
