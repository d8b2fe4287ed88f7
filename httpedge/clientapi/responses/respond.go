package responses

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
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
func (a *api) createAgentResponse(ctx context.Context, in *createAgentResponseIn) (*createdResponse, error) {
	r := &responding{order: &in.responseOrder, message: &in.Input, version: in.Version.Number}
	if err := a.prepare(ctx, r); err != nil {
		return nil, err
	}
	turn, run, err := a.respond(ctx, r)
	if err != nil || run != nil || r.queued != nil {
		return &createdResponse{run: run, queued: r.waits()}, err
	}
	record, err := a.ResponseOf(ctx, r.id, in.Model.Text, turn)
	if err != nil {
		return nil, err
	}
	record.Previous, record.Version = in.PreviousResponseID.Text, max(r.version, 0)
	return &createdResponse{response: record}, nil
}

// responding is a Responses request in progress. The first three fields are set by the handler.
type responding struct {
	order   *responseOrder
	message *messageInput // to answer
	version int64         // that runs, see conversationpb.Lease
	history *transcript   // what comes beside the message; nil = nothing
	options *conversationpb.TurnOptions
	pairs   []byte // metadata of the message

	agent   *agentpb.Agent
	id      string               // of the session
	missing failure.Reason       // for which the request is refused when the session to continue does not exist; "" = a new one
	context []byte               // sealed
	inline  [][]*filing.Incoming // by message
	files   int
	let     *handler.Admitted        // the inline files
	stored  []*conversationpb.File   // the inline files, once their bytes are stored
	queued  *conversationpb.Accepted // the message waits for its turn; nil = it had it
}

// respond has the message answered: by a turn that is waited for, or a run.
func (a *api) respond(ctx context.Context, r *responding) (*conversationpb.TurnResult, *render.Run, error) {
	if r.order.Background {
		run, err := a.runInBackground(ctx, r)
		return nil, run, err
	}
	command, err := a.sending(ctx, r, true)
	if err != nil {
		return nil, nil, err
	}
	defer r.let.Over(false) // unless it was said before
	reply, err := a.AskUntilSettled(ctx, command)
	r.let.Over(!turns.Refused(err))
	if err != nil {
		return nil, nil, a.refused(ctx, r, err)
	}
	r.queued = reply.GetAccepted()
	if err = blocked(reply.GetTurn()); err != nil {
		return nil, nil, err
	}
	return reply.GetTurn(), nil, nil
}

// blocked is the refusal of a turn that ended because a guardrail stopped what the model said (document 3, 7.10); nil = none did.
func blocked(turn *conversationpb.TurnResult) error {
	told := turn.GetError()
	if told.GetCode() != handler.GuardrailBlock {
		return nil
	}
	problem := &endpoint.Problem{Status: http.StatusBadRequest, Code: handler.GuardrailBlock, Message: told.GetMessage(), Ran: true}
	if len(told.GetDetails()) > 0 && json.Unmarshal(told.GetDetails(), &problem.Details) != nil {
		problem.Details = nil // of a log that is not ours
	}
	return problem
}

// refused returns the failure for a turn that was not started, and deletes the files that were stored for it.
func (a *api) refused(ctx context.Context, r *responding, err error) error {
	a.Filer().Drop(ctx, r.stored, err)
	return r.notFound(err)
}

// opening is what comes before the message with the same append: the session, if it is a new one, and the files that came along.
// Their bytes are stored here.
func (a *api) opening(ctx context.Context, r *responding) (*conversationpb.Opening, error) {
	opening := &conversationpb.Opening{}
	var state *conversationpb.State
	var err error
	switch {
	case r.missing == "":
		opening.Create = &conversationpb.Create{FirstMessage: r.allMessages()[0].Text}
		err = a.Creation(ctx, r.id, r.agent, &r.order.Budget, opening.GetCreate())
	case r.files > 0:
		state, err = a.continued(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	inline := slices.Concat(r.inline...)
	if r.let, err = a.AdmitFiles(ctx, 0, true, inline...); err != nil {
		return nil, err
	}
	if r.stored, err = a.Filer().StoreAll(ctx, r.id, state, r.agent, inline); err != nil {
		r.let.Over(false)
		return nil, handler.SessionFailure(err)
	}
	files := r.stored
	for at, message := range r.allMessages() {
		for range r.inline[at] {
			message.stored = append(message.stored, files[0].GetId())
			files = files[1:]
		}
	}
	if opening.Files = r.stored; len(opening.GetFiles()) > 0 {
		opening.Agent = r.agent.Rules()
	}
	if opening.GetCreate() == nil && len(opening.GetFiles()) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to do before
	}
	return opening, nil
}

// sending is the command with the message, and with what comes before it.
func (a *api) sending(ctx context.Context, r *responding, wait bool) (command *conversationpb.Command, err error) {
	command = a.Command(ctx, r.id, "send")
	if command.Opening, err = a.opening(ctx, r); err != nil {
		return nil, err
	}
	command.AgentVersion, command.RuntimeContext = r.version, r.context
	send := &conversationpb.Send{
		Agent: handler.Pricing(r.agent), Content: r.message.Text, FileIds: r.message.files(), Wait: wait, Metadata: r.pairs,
		OfAgent: r.agent.GetId(), // the rules look, so that the session need not be read before
		Options: r.options, OnBusy: r.order.OnBusy.Text,
	}
	if r.history != nil {
		send.Earlier, send.Given = r.history.messages(), r.history.given
	}
	command.Body = &conversationpb.Command_Send{Send: send}
	return command, nil
}

// prepare checks a request against agent and session, in the order of document 3, 8.1.
func (a *api) prepare(ctx context.Context, r *responding) error {
	order := r.order
	var err error
	if r.agent, err = a.ActiveAgent(ctx, order.Model.Text); err != nil {
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
	if refused := r.message.check(); refused != nil {
		return refused
	}
	if refused := a.checkCallback(ctx, order); refused != nil {
		return refused
	}
	if refused := a.checkOnBusy(order); refused != nil {
		return refused
	}
	if order.Background && !r.agent.GetBackground() {
		return handler.BackgroundDisabled()
	}
	if refused := a.place(ctx, r); refused != nil {
		return refused
	}
	if err = a.examine(r); err != nil {
		return err
	}
	r.context, err = a.SealContext(ctx, r.id, order.RuntimeContext)
	return err
}

// checkCallback refuses a callback URL to which nothing could be delivered.
func (a *api) checkCallback(ctx context.Context, order *responseOrder) *failure.Failure {
	if refused := order.checkCallback(); refused != nil {
		return refused
	}
	if to := order.CallbackURL.Text; to != "" && a.CheckCallback != nil {
		if err := a.CheckCallback(ctx, to); err != nil {
			return handler.Invalid(failure.CallbackRefused).In("callback_url").Param("problem", err)
		}
	}
	return nil
}

// place finds the session that is continued, or an id for a new one.
func (a *api) place(ctx context.Context, r *responding) *failure.Failure {
	id, missing, refused := r.order.named()
	if refused != nil {
		return refused
	}
	named := false
	for _, message := range r.allMessages() {
		if !plausibleFiles(message.Files) {
			return handler.Invalid(failure.BadInputFileID)
		}
		named = named || len(message.Files) > 0
	}
	switch {
	case id != "":
		r.id, r.missing = id, missing
		if !turns.Plausible(id) {
			return failure.New(failurepb.Code_SESSION_NOT_FOUND, missing)
		}
		return nil
	case named:
		return handler.Invalid(failure.FilesWithoutSession)
	}
	r.id = a.Mint(ctx, "conv", "")
	return r.order.Budget.May(r.agent)
}

// allMessages is the messages of the user, the one to answer last.
func (r *responding) allMessages() []*messageInput {
	if r.history == nil {
		return []*messageInput{r.message}
	}
	return append(r.history.users(), r.message)
}

// examine refuses inline files that the agent does not accept.
func (a *api) examine(r *responding) error {
	var all []*filing.Incoming
	for _, message := range r.allMessages() {
		files, refused := message.incoming()
		if refused != nil {
			return refused
		}
		r.inline = append(r.inline, files)
		all = append(all, files...)
	}
	if r.files = len(all); r.files == 0 {
		return nil
	}
	return handler.SessionFailure(a.Filer().Examine(nil, r.agent, all))
}

// continued is the session that a request names: one of the caller's, and of the agent. nil when it names none.
func (a *api) continued(ctx context.Context, r *responding) (*conversationpb.State, error) {
	if r.missing == "" {
		return nil, nil //nolint:nilnil // a new one is no mistake
	}
	state, err := a.Session(ctx, r.id)
	if err == nil && state.GetAgentId() != r.agent.GetId() {
		err = handler.SessionNotFound()
	}
	return state, r.notFound(err)
}

// notFound refuses a missing session for the field that named it.
func (r *responding) notFound(err error) error {
	if r.missing != "" && handler.IsCode(err, failurepb.Code_SESSION_NOT_FOUND) {
		return failure.New(failurepb.Code_SESSION_NOT_FOUND, r.missing)
	}
	return err
}

// knownVersion refuses a version that was never published.
func (a *api) knownVersion(ctx context.Context, agent *agentpb.Agent, version int64) error {
	if agent.GetProjectId() == "" { // an agent of the configuration has none
		return failure.New(failurepb.Code_VERSION_NOT_FOUND, failure.AgentVersionMissing)
	}
	_, err := a.Catalog.AgentVersion(ctx, agent.GetProjectId(), agent.GetId(), version)
	return handler.RecordError(err)
}

// runInBackground answers with a run once that has its place. The run makes its session, and adds the files, as it takes hold of it.
func (a *api) runInBackground(ctx context.Context, r *responding) (*render.Run, error) {
	if _, err := a.continued(ctx, r); err != nil {
		return nil, err
	}
	opening, err := a.opening(ctx, r)
	if err != nil {
		return nil, err
	}
	defer r.let.Over(false) // unless it was said before
	id := a.Mint(ctx, "run", r.id)
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
	create.Opening = opening
	reply, err := a.AskNewRun(ctx, id, create)
	r.let.Over(!turns.Refused(err))
	if err != nil {
		return nil, a.refused(ctx, r, err)
	}
	return render.NewRun(reply), nil
}

// createdResponse is a response, or the run that it comes from.
type createdResponse struct {
	response *render.Response
	run      *render.Run
	queued   *queuedResponse
}

// HTTPStatus implements endpoint.Statuser.
func (c *createdResponse) HTTPStatus() int {
	if c.run != nil || c.queued != nil {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// AppendJSON implements endpoint.Appender.
func (c *createdResponse) AppendJSON(dst []byte) []byte {
	if c.run != nil {
		return c.run.AppendJSON(dst)
	}
	if c.queued != nil {
		return c.queued.AppendJSON(dst)
	}
	return c.response.AppendJSON(dst)
}

// Described implements openapi.Described.
func (c *createdResponse) Described() (value any, nullable bool) {
	return render.ResponseSchema{}, false
}
