package clientapi

import (
	"context"
	"slices"

	"parley/actors/machine"
	"parley/httpedge/filing"
	"parley/httpedge/turns"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// draftVersion names what was last saved of an agent, published or not (conversationpb.Lease.agent_version).
const draftVersion = -1

// createAgentResponse runs the published version of an agent.
func (a *API) createAgentResponse(ctx context.Context, in *createAgentResponseIn) (*createdResponse, error) {
	r := &responding{order: &in.responseOrder, message: &in.Input, version: in.Version.Number}
	if err := a.prepare(ctx, r); err != nil {
		return nil, err
	}
	turn, run, err := a.respond(ctx, r)
	if err != nil || run != nil {
		return &createdResponse{run: run}, err
	}
	record, err := a.responseOf(ctx, r.id, in.Model.Text, turn)
	if err != nil {
		return nil, err
	}
	record.previous, record.version = in.PreviousResponseID.Text, max(r.version, 0)
	return &createdResponse{response: record}, nil
}

// responding is a Responses request on its way to a turn. The first three are given.
type responding struct {
	order   *responseOrder
	message *messageInput // to answer
	version int64         // that runs, see conversationpb.Lease
	history *transcript   // what comes beside the message; nil = nothing
	options *conversationpb.TurnOptions
	pairs   []byte // metadata of the message

	agent   *agentpb.Agent
	id      string               // of the session
	missing string               // how it is worded that there is no such session to continue; "" = a new one
	context []byte               // sealed
	inline  [][]*filing.Incoming // by message
	files   int
	stored  []*conversationpb.File // the inline files, once their bytes are stored
}

// respond has the message answered: by a turn that is waited for, or a run.
func (a *API) respond(ctx context.Context, r *responding) (*conversationpb.TurnResult, *runRecord, error) {
	if r.order.Background {
		run, err := a.runInBackground(ctx, r)
		return nil, run, err
	}
	command, err := a.sending(ctx, r, true)
	if err != nil {
		return nil, nil, err
	}
	reply, err := a.askUntilSettled(ctx, command)
	if err != nil {
		return nil, nil, a.refused(ctx, r, err)
	}
	return reply.GetTurn(), nil, nil
}

// refused words why there is no turn, and drops the bytes that were stored for it.
func (a *API) refused(ctx context.Context, r *responding, err error) error {
	a.filer().Drop(ctx, r.stored, err)
	return r.wording(err)
}

// opening is what comes before the message with the same append: the session, if it is a new one, and the files that came along.
// Their bytes are stored here.
func (a *API) opening(ctx context.Context, r *responding) (*conversationpb.Opening, error) {
	opening := &conversationpb.Opening{}
	var state *conversationpb.State
	var err error
	switch {
	case r.missing == "":
		opening.Create = &conversationpb.Create{FirstMessage: r.allMessages()[0].Text}
		err = a.creation(ctx, r.id, r.agent, &r.order.Budget, opening.GetCreate())
	case r.files > 0:
		state, err = a.continued(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	if r.stored, err = a.filer().StoreAll(ctx, r.id, state, r.agent, slices.Concat(r.inline...)); err != nil {
		return nil, sessionFailure(err)
	}
	files := r.stored
	for at, message := range r.allMessages() {
		for range r.inline[at] {
			message.stored = append(message.stored, files[0].GetId())
			files = files[1:]
		}
	}
	if opening.Files = r.stored; len(opening.GetFiles()) > 0 {
		opening.Agent = filing.Rules(r.agent)
	}
	if opening.GetCreate() == nil && len(opening.GetFiles()) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to do before
	}
	return opening, nil
}

// sending is the command with the message, and with what comes before it.
func (a *API) sending(ctx context.Context, r *responding, wait bool) (command *conversationpb.Command, err error) {
	command = a.command(ctx, r.id, "send")
	if command.Opening, err = a.opening(ctx, r); err != nil {
		return nil, err
	}
	command.AgentVersion, command.RuntimeContext = r.version, r.context
	send := &conversationpb.Send{
		Agent: pricing(r.agent), Content: r.message.Text, FileIds: r.message.files(), Wait: wait, Metadata: r.pairs,
		OfAgent: r.agent.GetId(), // the rules look, so that the session need not be read before
		Options: r.options,
	}
	if r.history != nil {
		send.Earlier, send.Given = r.history.messages(), r.history.given
	}
	command.Body = &conversationpb.Command_Send{Send: send}
	return command, nil
}

// prepare checks a request against agent and session, in the order of document 3, 8.1.
func (a *API) prepare(ctx context.Context, r *responding) error {
	order := r.order
	var err error
	if r.agent, err = a.activeAgent(ctx, order.Model.Text); err != nil {
		return err
	}
	switch {
	case r.version > 0:
		if err = a.knownVersion(ctx, r.agent, r.version); err != nil {
			return err
		}
	case r.version == 0:
		r.version = r.agent.GetRunningVersion() // what is answered as the version is what runs, whatever is published meanwhile
	}
	if failure := r.message.check(); failure != nil {
		return failure
	}
	if failure := a.checkCallback(ctx, order); failure != nil {
		return failure
	}
	if order.Background && !r.agent.GetBackground() {
		return backgroundDisabled()
	}
	if failure := a.place(ctx, r); failure != nil {
		return failure
	}
	if err = a.examine(r); err != nil {
		return err
	}
	r.context, err = a.sealContext(ctx, r.id, order.RuntimeContext)
	return err
}

// checkCallback refuses an address that could never be told anything.
func (a *API) checkCallback(ctx context.Context, order *responseOrder) *machine.Failure {
	if failure := order.checkCallback(); failure != nil {
		return failure
	}
	if to := order.CallbackURL.Text; to != "" && a.CheckCallback != nil {
		if err := a.CheckCallback(ctx, to); err != nil {
			return invalid("callback_url %s", err)
		}
	}
	return nil
}

// place finds the session that is continued, or an id for a new one.
func (a *API) place(ctx context.Context, r *responding) *machine.Failure {
	id, missing, failure := r.order.named()
	if failure != nil {
		return failure
	}
	named := false
	for _, message := range r.allMessages() {
		if !plausibleFiles(message.Files) {
			return invalid("a file_id of the input is none")
		}
		named = named || len(message.Files) > 0
	}
	switch {
	case id != "":
		r.id, r.missing = id, missing
		if !turns.Plausible(id) {
			return machine.Fail(failurepb.Code_SESSION_NOT_FOUND, "%s", missing)
		}
		return nil
	case named:
		return invalid("files belong to a session: store them in one, and continue it")
	}
	r.id = a.mint(ctx, "conv", "")
	return r.order.Budget.may(r.agent)
}

// allMessages is the messages of the user, the one to answer last.
func (r *responding) allMessages() []*messageInput {
	if r.history == nil {
		return []*messageInput{r.message}
	}
	return append(r.history.users(), r.message)
}

// examine refuses files that come along and that the agent does not take.
func (a *API) examine(r *responding) error {
	var all []*filing.Incoming
	for _, message := range r.allMessages() {
		files, failure := message.incoming()
		if failure != nil {
			return failure
		}
		r.inline = append(r.inline, files)
		all = append(all, files...)
	}
	if r.files = len(all); r.files == 0 {
		return nil
	}
	return sessionFailure(a.filer().Examine(nil, r.agent, all))
}

// continued is the session that a request names: one of the caller's, and of the agent. nil when it names none.
func (a *API) continued(ctx context.Context, r *responding) (*conversationpb.State, error) {
	if r.missing == "" {
		return nil, nil //nolint:nilnil // a new one is no mistake
	}
	state, err := a.session(ctx, r.id)
	if err == nil && state.GetAgentId() != r.agent.GetId() {
		err = sessionNotFound()
	}
	return state, r.wording(err)
}

// wording says that there is no session in the words for how it was named.
func (r *responding) wording(err error) error {
	if r.missing != "" && isCode(err, failurepb.Code_SESSION_NOT_FOUND) {
		return machine.Fail(failurepb.Code_SESSION_NOT_FOUND, "%s", r.missing)
	}
	return err
}

// knownVersion refuses a version that was never published.
func (a *API) knownVersion(ctx context.Context, agent *agentpb.Agent, version int64) error {
	if agent.GetProjectId() == "" { // an agent of the configuration has none
		return machine.Fail(failurepb.Code_VERSION_NOT_FOUND, "Agent version not found")
	}
	_, err := a.Catalog.AgentVersion(ctx, agent.GetProjectId(), agent.GetId(), version)
	return recordError(err)
}

// runInBackground answers with a run once that has its place. The run makes its session, and adds the files, as it takes hold of it.
func (a *API) runInBackground(ctx context.Context, r *responding) (*runRecord, error) {
	if _, err := a.continued(ctx, r); err != nil {
		return nil, err
	}
	opening, err := a.opening(ctx, r)
	if err != nil {
		return nil, err
	}
	id := a.mint(ctx, "run", r.id)
	create := &runpb.Create{
		AgentId: r.agent.GetId(), AgentVersion: r.version, ConversationId: r.id,
		Order:       &runpb.Order{Content: r.message.Text, FileIds: r.message.files(), RuntimeContext: r.context},
		CallbackUrl: r.order.CallbackURL.Text, PreviousResponseId: r.order.PreviousResponseID.Text,
	}
	if secret := r.order.CallbackSecret.Text; secret != "" {
		if create.SealedSecret, err = a.Sealer.Seal([]byte(secret), runpb.SecretAbout(id)); err != nil {
			return nil, err
		}
	}
	command := a.command(ctx, r.id, "run")
	command.Opening = opening
	command, takeBack, err := a.asker().Stepwise(ctx, command)
	if err != nil {
		return nil, a.refused(ctx, r, sessionFailure(err))
	}
	create.Opening = command.GetOpening()
	reply, err := a.askNewRun(ctx, id, create)
	takeBack(err)
	if err != nil {
		return nil, a.refused(ctx, r, err)
	}
	return newRunRecord(reply), nil
}

// responseOf is the result of a turn as a response.
func (a *API) responseOf(
	ctx context.Context, id, agent string, turn *conversationpb.TurnResult,
) (*responseRecord, error) {
	if err := a.asker().Complete(ctx, id, turn); err != nil {
		return nil, sessionFailure(err)
	}
	return &responseRecord{session: id, agent: agent, turn: turn}, nil
}

// createdResponse is a response, or the run that it comes from.
type createdResponse struct {
	response *responseRecord
	run      *runRecord
}

// HTTPStatus implements endpoint.Statuser.
func (c *createdResponse) HTTPStatus() int {
	if c.run != nil {
		return statusAccepted
	}
	return statusOK
}

// AppendJSON implements endpoint.Appender.
func (c *createdResponse) AppendJSON(dst []byte) []byte {
	if c.run != nil {
		return c.run.AppendJSON(dst)
	}
	return c.response.AppendJSON(dst)
}

// Described implements openapi.Described.
func (c *createdResponse) Described() (value any, nullable bool) { return responseSchema{}, false }
