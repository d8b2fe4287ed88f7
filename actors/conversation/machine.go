package conversation

import (
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// Machine is the rules of conversations. It holds no state and is safe for concurrent use.
type Machine struct {
	limits Limits
}

var _ machine.Machine = (*Machine)(nil)

// New returns the rules under the given limits, which must be valid.
func New(limits Limits) *Machine {
	return &Machine{limits: limits}
}

// Kind is the prefix of conversation ids.
func (*Machine) Kind() string { return "conv" }

// NewState returns an empty conversationpb.State.
func (*Machine) NewState() proto.Message { return new(conversationpb.State) }

// Seq returns the number of the newest event.
func (*Machine) Seq(state proto.Message) uint64 {
	s, _ := state.(*conversationpb.State)
	return s.GetLastSeq()
}

// OnActivate asks for recovery when a turn was under way as the conversation was last written.
func (*Machine) OnActivate(state proto.Message, _ machine.Env) proto.Message {
	s, _ := state.(*conversationpb.State)
	if s.GetLease() == nil {
		return nil
	}
	return &conversationpb.Command{
		ConversationId: s.GetId(),
		Body:           &conversationpb.Command_Recover{Recover: &conversationpb.Recover{}},
	}
}

// Decide applies the rule of the command, after what comes before it (Command.opening).
func (m *Machine) Decide(state, command proto.Message, env machine.Env) (machine.Decision, *machine.Failure) {
	s, _ := state.(*conversationpb.State)
	c, _ := command.(*conversationpb.Command)
	r := &request{Machine: m, state: s, command: c, env: env, now: env.Now.UnixMilli()}
	opened, f := r.open(c.GetOpening())
	if f != nil {
		return machine.Decision{}, f
	}
	decision, f := r.carryOut()
	if f == nil && len(opened) > 0 {
		decision.Events = append(opened, decision.Events...)
		decision.Create = s == nil
	}
	return decision, f
}

// carryOut applies the rule of the command's body, each in the file of its name.
func (r *request) carryOut() (machine.Decision, *machine.Failure) {
	switch body := r.command.GetBody().(type) {
	case *conversationpb.Command_Create:
		return r.create(body.Create)
	case *conversationpb.Command_Send:
		return r.send(body.Send)
	case *conversationpb.Command_Cancel:
		return r.cancel(body.Cancel)
	case *conversationpb.Command_CancelTimeout:
		return r.cancelTimeout(body.CancelTimeout)
	case *conversationpb.Command_Update:
		return r.update(body.Update)
	case *conversationpb.Command_Delete:
		return r.delete(body.Delete)
	case *conversationpb.Command_Finish:
		return r.finish(body.Finish)
	case *conversationpb.Command_Recover:
		return r.recover()
	case *conversationpb.Command_AwaitRun:
		return r.awaitRun(body.AwaitRun)
	case *conversationpb.Command_Progress:
		return r.progress(body.Progress)
	case *conversationpb.Command_Resolve:
		return r.resolve(body.Resolve)
	case *conversationpb.Command_Answer:
		return r.answerCalls(body.Answer)
	case *conversationpb.Command_Continue:
		return r.continueTurn(body.Continue)
	case *conversationpb.Command_Forget:
		return r.forget(body.Forget)
	case *conversationpb.Command_Due:
		return r.due()
	case *conversationpb.Command_Regenerate:
		return r.regenerate(body.Regenerate)
	case *conversationpb.Command_Edit:
		return r.edit(body.Edit)
	case *conversationpb.Command_Rate:
		return r.rate(body.Rate)
	case *conversationpb.Command_AddFile:
		return r.addFile(body.AddFile)
	case *conversationpb.Command_RemoveFile:
		return r.removeFile(body.RemoveFile)
	case *conversationpb.Command_SetTitle:
		return r.setTitle(body.SetTitle)
	case *conversationpb.Command_Hold:
		return r.hold(body.Hold)
	}
	return refuse(failure.New(failurepb.Code_VALIDATION, failure.UnknownCommand).Param("entity", "a conversation"))
}
